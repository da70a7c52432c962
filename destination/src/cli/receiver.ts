import { createServer, type IncomingMessage, type Server } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { parseWebhook, WebhookVerificationError } from 'hookline/webhook'

/** A request that the local receiver got, and its answer. */
export interface Arrival {
  at: string
  path: string
  /** `unchecked` if there is no secret. */
  signature: 'ok' | 'missing' | 'wrong' | 'unchecked'
  /** Why the signature is wrong or the body is not an event, with the fix. */
  reason?: string
  type?: string
  user?: string
  /** The event of a track, the groupId of a group, or the name of a screen or page. */
  event?: string
  messageId?: string
  attempt?: number
  bytes: number
  /** The status of the answer. */
  status: number
  body: string
}

/** How the local receiver answers. */
export interface ReceiverOptions {
  /** A signature by any of them is right. If there are none, signatures are not checked. */
  secrets: readonly string[]
  /** The statuses that answer the first, second, … attempt of a message. The last one repeats. */
  statuses: readonly number[]
  /** How long to wait before each answer, in ms. */
  delayMs: number
  /** Is called for each request when it arrives, before the answer. */
  onArrival: (arrival: Arrival) => void
  /** Is called for each answer that has been written. */
  onAnswered?: () => void
}

/** Creates a server that answers every POST and checks its signature. */
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
        .end('This is hookline-destination listen. It accepts only POST requests.\n')
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
      () => undefined, // the sender closed the connection, so no answer can be sent
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

/** The value of a header. Several values are joined with a comma, so that a repeated signature header never verifies. */
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
    // A body that is not JSON has no fields to show.
  }
  return {}
}
