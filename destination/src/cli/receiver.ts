import { createServer, type IncomingMessage, type Server } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { parseWebhook, WebhookVerificationError } from 'hookline/webhook'

/** A request as it arrived at the local receiver, and how it was answered. */
export interface Arrival {
  at: string
  path: string
  /** `unchecked` if there is no secret to check it with. */
  signature: 'ok' | 'missing' | 'wrong' | 'unchecked'
  /** Why the signature does not hold, or the body is no event; with the fix. */
  reason?: string
  type?: string
  user?: string
  /** The event of a track, the group of a group, the name of a screen or page. */
  event?: string
  messageId?: string
  attempt?: number
  bytes: number
  /** The answer's status. */
  status: number
  body: string
}

/** How the local receiver answers. */
export interface ReceiverOptions {
  /** Any of them may have signed; none leaves signatures unchecked. */
  secrets: readonly string[]
  /** The statuses that a message's attempts get, in turn; the last one stays. */
  statuses: readonly number[]
  /** How long each answer waits, in ms. */
  delayMs: number
  /** Told of each request as it arrives, before it is answered. */
  onArrival: (arrival: Arrival) => void
  /** Told of each answer that is out. */
  onAnswered?: () => void
}

/** Creates a server that takes whatever is posted to it. */
export function createReceiver(options: ReceiverOptions): Server {
  const seen = new Map<string, number>()
  const statusFor = (messageId: string): number => {
    const times = seen.get(messageId) ?? 0
    if (options.statuses.length > 1) seen.set(messageId, times + 1)
    return options.statuses[times] ?? options.statuses.at(-1) ?? 200
  }
  return createServer((request, response) => {
    if (request.method !== 'POST') {
      response
        .writeHead(405, { allow: 'POST' })
        .end('This is hookline-destination listen: POST to it.\n')
      return
    }
    void buffer(request).then(
      (bytes) => {
        const status = statusFor(header(request, 'x-message-id') ?? '')
        options.onArrival({ ...describe(request, bytes, options.secrets), status })
        setTimeout(() => {
          response.writeHead(status).end(() => options.onAnswered?.())
        }, options.delayMs)
      },
      () => undefined, // the sender hung up: nobody is there to be answered
    )
  })
}

function describe(request: IncomingMessage, bytes: Buffer, secrets: readonly string[]) {
  const body = bytes.toString()
  const messageId = header(request, 'x-message-id')
  const attempt = Number(header(request, 'x-attempt'))
  return {
    at: new Date().toISOString(),
    path: request.url ?? '/',
    ...checkSignature(secrets, bytes, header(request, 'x-signature')),
    ...describeEvent(body),
    ...(messageId !== undefined && { messageId }),
    ...(Number.isInteger(attempt) && { attempt }),
    bytes: bytes.length,
    body,
  }
}

/** The value of a header; one that came several times is joined, and so never a signature. */
function header(request: IncomingMessage, name: string): string | undefined {
  return request.headersDistinct[name]?.join(', ')
}

function checkSignature(
  secrets: readonly string[],
  bytes: Buffer,
  signature: string | undefined,
): Pick<Arrival, 'signature' | 'reason'> {
  if (secrets.length === 0) return { signature: 'unchecked' }
  try {
    parseWebhook(secrets, bytes, signature)
    return { signature: 'ok' }
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    const { code, message: reason } = error
    if (code === 'invalid_json') return { signature: 'ok', reason }
    return { signature: code === 'missing_signature' ? 'missing' : 'wrong', reason }
  }
}

function describeEvent(body: string): Pick<Arrival, 'type' | 'user' | 'event'> {
  const event = parseObject(body)
  const text = (field: string) => {
    const value = event[field]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const type = text('type')
  const aliased = text('Previous ID') && `${text('Previous ID')} → ${text('User ID')}`
  const user = text('userId') ?? text('anonymousId') ?? aliased
  const name = text('event') ?? text('groupId') ?? text('name')
  return {
    ...(type !== undefined && { type }),
    ...(user !== undefined && { user }),
    ...(name !== undefined && { event: name }),
  }
}

function parseObject(body: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(body)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // no JSON: nothing is known of it
  }
  return {}
}
