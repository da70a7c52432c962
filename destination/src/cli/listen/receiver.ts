import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { checkSignature, type SignatureVerdict } from '../signature.js'

/** A request that the local receiver got, and its answer. */
export interface Arrival extends SignatureVerdict {
  at: string
  path: string
  type?: string
  user?: string
  /** The id that an alias joins with the `user`. */
  previousId?: string
  /** The event of a track, the groupId of a group, or the name of a screen or page. */
  event?: string
  messageId?: string
  attempt?: number
  bytes: number
  /** The status of the answer. Left out if no answer was sent. */
  status?: number
  /** Why no answer was sent. */
  unanswered?: string
  /** Why the request could not be forwarded. */
  forwardError?: string
  body: string
}

/** A request that is to be answered. */
export interface Arrived {
  request: IncomingMessage
  bytes: Buffer
  verdict: SignatureVerdict
  /** Is aborted when the sender hangs up. */
  signal: AbortSignal
}

/** What answers a request. */
export interface ReceiverAnswer {
  status: number
  /** Names and values in turn. */
  headers?: string[]
  body?: Buffer
  forwardError?: string
}

/** Decides how a request is answered. It may reject once the sender has hung up. */
export type AnswerRequest = (arrived: Arrived) => ReceiverAnswer | Promise<ReceiverAnswer>

/** How the local receiver answers. */
export interface ReceiverOptions {
  /** A signature by any of them is right. If there are none, signatures are not checked. */
  secrets: readonly string[]
  answer: AnswerRequest
  /** Whether the receiver tells of a request. All others are answered with 200, and nothing else is done with them. */
  isWanted: (request: Omit<Arrival, 'status'>) => boolean
  /** How long to wait before each answer, in ms. */
  delayMs: number
  /** The server closes after this number of wanted requests. */
  count: number
  /** Is called for each wanted request when its answer has been sent, or when its sender has hung up before. */
  onArrival: (arrival: Arrival) => void
}

/** Creates a server that answers every POST and checks its signature. */
export function createReceiver(options: ReceiverOptions): Server {
  const { secrets, isWanted, count, onArrival } = options
  let taken = 0
  let ended = 0
  const server = createServer((request, response) => {
    if (request.method !== 'POST') {
      response
        .writeHead(405, { allow: 'POST' })
        .end('This is hookline-destination listen. It accepts only POST requests.\n')
      return
    }
    const hangUp = new AbortController()
    response.once('close', () => {
      hangUp.abort()
    })
    const receive = async () => {
      const bytes = await buffer(request)
      const described = describe(request, bytes, secrets)
      if (!isWanted(described)) {
        response.end()
        return
      }
      // A request beyond the last one gets no answer: its connection ends with the command.
      if (taken === count) return
      taken++
      const arrived = { request, bytes, verdict: described, signal: hangUp.signal }
      onArrival({ ...described, ...(await respond(arrived, response, options)) })
      ended++
      if (ended < count) return
      server.close()
      server.closeAllConnections()
    }
    receive().catch(() => {
      response.destroy() // the sender closed the connection within its request
    })
  })
  return server
}

/** Answers a request, unless its sender hangs up before. */
async function respond(
  arrived: Arrived,
  response: ServerResponse,
  { answer, delayMs }: Pick<ReceiverOptions, 'answer' | 'delayMs'>,
): Promise<Pick<Arrival, 'status' | 'unanswered' | 'forwardError'>> {
  const { signal } = arrived
  const startedAt = performance.now()
  try {
    const { status, headers, body, ...forwarding } = await answer(arrived)
    await wait(delayMs, undefined, { signal })
    const closed = once(response, 'close')
    response.writeHead(status, headers).end(body)
    await closed
    if (response.writableFinished) return { status, ...forwarding }
  } catch (error) {
    if (!signal.aborted) throw error
  }
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1)
  return { unanswered: `The sender hung up after ${seconds} s, before the answer was sent.` }
}

/** Answers a request whose signature is wrong or missing with 401, as a receiver should, and all others as given. */
export function refuseUnsigned(answer: AnswerRequest): AnswerRequest {
  return (arrived) => {
    const { signature, reason = '' } = arrived.verdict
    return isRefused(signature) ? { status: 401, body: Buffer.from(reason) } : answer(arrived)
  }
}

/** Whether a receiver should refuse a request with this signature. */
export function isRefused(signature: SignatureVerdict['signature']): boolean {
  return signature === 'wrong' || signature === 'missing'
}

/**
 * Answers the first, second, … attempt of a message with the first, second, … status. The last one repeats. The requests of one
 * attempt get the same status: several destinations, and all endpoints of one, can have this URL. A request that does not name
 * its attempt counts as another one.
 */
export function byScript(statuses: readonly number[]): AnswerRequest {
  const seen = new Map<string, (string | undefined)[]>()
  return ({ request }) => {
    const messageId = header(request, 'x-message-id') ?? ''
    const attempt = header(request, 'x-attempt')
    const attempts = seen.get(messageId) ?? []
    let place = attempt === undefined ? -1 : attempts.indexOf(attempt)
    if (place < 0) place = attempts.length
    // Those behind the last status need not be known.
    if (place === attempts.length && place < statuses.length - 1) {
      seen.set(messageId, [...attempts, attempt])
    }
    return { status: statuses[place] ?? statuses.at(-1) ?? 200 }
  }
}

function describe(request: IncomingMessage, bytes: Buffer, secrets: readonly string[]) {
  const body = bytes.toString()
  const messageId = header(request, 'x-message-id')
  const attempt = Number(header(request, 'x-attempt'))
  const signature = header(request, 'x-signature')
  // A destination that only has a webhookSecret signs by Standard Webhooks alone, and that is not checked here.
  const isStandard = signature === undefined && header(request, 'webhook-signature') !== undefined
  return {
    at: new Date().toISOString(),
    path: request.url ?? '/',
    ...checkSignature(isStandard ? [] : secrets, bytes, signature),
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

function describeEvent(body: string): Pick<Arrival, 'type' | 'user' | 'previousId' | 'event'> {
  const event = parseObject(body)
  const text = (field: string) => {
    const value = event[field]
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const type = text('type')
  const user = text('User ID') ?? text('userId') ?? text('anonymousId')
  const previousId = text('Previous ID')
  const name = text('event') ?? text('groupId') ?? text('name')
  return {
    ...(type !== undefined && { type }),
    ...(user !== undefined && { user }),
    ...(previousId !== undefined && { previousId }),
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
