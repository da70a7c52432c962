import { createServer, type IncomingMessage, type Server } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { buffer } from 'node:stream/consumers'
import { checkSignature, type SignatureVerdict } from '../signature.js'

/** A request that the local receiver got, and its answer. */
export interface Arrival extends SignatureVerdict {
  at: string
  path: string
  type?: string
  user?: string
  /** The event of a track, the groupId of a group, or the name of a screen or page. */
  event?: string
  messageId?: string
  attempt?: number
  bytes: number
  /** The status of the answer. */
  status: number
  /** Why the request could not be forwarded. */
  forwardError?: string
  body: string
}

/** What answers a request. */
export interface ReceiverAnswer {
  status: number
  body?: Buffer
  forwardError?: string
}

/** Decides how a request is answered. */
export type AnswerRequest = (
  request: IncomingMessage,
  bytes: Buffer,
) => ReceiverAnswer | Promise<ReceiverAnswer>

/** How the local receiver answers. */
export interface ReceiverOptions {
  /** A signature by any of them is right. If there are none, signatures are not checked. */
  secrets: readonly string[]
  answer: AnswerRequest
  /** Whether the receiver tells of a request. All others are answered with 200, and nothing else is done with them. */
  isWanted: (request: Omit<Arrival, 'status'>) => boolean
  /** How long to wait before each answer, in ms. */
  delayMs: number
  /** Is called for each wanted request before its answer is written. */
  onArrival: (arrival: Arrival) => void
  /** Is called for each of these answers that has been written. */
  onAnswered?: () => void
}

/** Creates a server that answers every POST and checks its signature. */
export function createReceiver(options: ReceiverOptions): Server {
  const { secrets, answer, isWanted, delayMs, onArrival, onAnswered } = options
  return createServer((request, response) => {
    if (request.method !== 'POST') {
      response
        .writeHead(405, { allow: 'POST' })
        .end('This is hookline-destination listen. It accepts only POST requests.\n')
      return
    }
    const receive = async () => {
      const bytes = await buffer(request)
      const described = describe(request, bytes, secrets)
      if (!isWanted(described)) {
        response.end()
        return
      }
      const { status, body, ...forwarding } = await answer(request, bytes)
      onArrival({ ...described, status, ...forwarding })
      await wait(delayMs)
      response.writeHead(status).end(body, () => onAnswered?.())
    }
    receive().catch(() => {
      response.destroy() // the sender closed the connection, so no answer can be sent
    })
  })
}

/**
 * Answers the first, second, … attempt of a message with the first, second, … status. The last one repeats. The requests of one
 * attempt get the same status: several destinations, and all endpoints of one, can have this URL. A request that does not name
 * its attempt counts as another one.
 */
export function byScript(statuses: readonly number[]): AnswerRequest {
  const seen = new Map<string, (string | undefined)[]>()
  return (request) => {
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
