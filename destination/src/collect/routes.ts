import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Accept } from '../enqueue/calls.js'
import { CALL_TYPES, type Call, type CallType } from '../model/call.js'
import { basicUser, type Credentials } from './credentials.js'
import { MAX_BATCH_BYTES, MAX_CALL_BYTES } from './limits.js'
import { parseBody, type Fields } from '../http/json-body.js'
import { readBody } from '../http/read-body.js'
import type { Buckets } from './rate-limit.js'
import { receiveCalls } from './receive.js'
import { JSON_TYPE, Refusal, toRefusal, type Rejected } from '../http/refusal.js'

/** What the routes tell of requests, in numbers. */
export interface CallCounts {
  /** A request was answered: `ok`, `partly`, or with the code of a refusal. An unknown source's name is empty. */
  answered(source: string, answer: string): void
  /** So many of its calls were `accepted`, or were not, with the code of why. */
  called(source: string, answer: string, count: number): void
}

/** What the routes need of the collector. */
export interface Intake {
  accept: Accept
  counts: CallCounts
  /** By the settings of the moment. */
  credentials: Credentials
  /** By the settings of the moment. */
  buckets: Buckets
}

const SUCCESS = '{"success":true}'

/** Adds the routes under which calls come in. They read bodies on their own: see {@link readBody}. */
export function addCallRoutes(app: FastifyInstance, intake: Intake): void {
  void app.register((routes, _options, done) => {
    routes.removeAllContentTypeParsers()
    routes.addContentTypeParser('*', (_request, _body, parsed) => {
      parsed(null)
    })
    routes.addHook('onRequest', (request, _reply, next) => {
      // One that is malformed would be refused, and none of them counts here.
      delete request.raw.headers['content-type']
      next()
    })
    routes.post('/v1/batch', (request, reply) => answer(intake, undefined, request, reply))
    for (const type of CALL_TYPES) {
      routes.post(`/v1/${type}`, (request, reply) => answer(intake, type, request, reply))
    }
    done()
  })
}

/** Answers one request: 200 only once the calls are durable. */
async function answer(
  intake: Intake,
  type: CallType | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { counts } = intake
  let source = ''
  try {
    const user = basicUser(request.headers.authorization)
    if (user !== undefined) source = sourceOf(user, intake.credentials)
    checkRate(intake, source, 1) // whoever has sent too much costs no more than this
    const bytes = await readBody(request.raw, type === undefined ? MAX_BATCH_BYTES : MAX_CALL_BYTES)
    const body = parseBody(bytes)
    if (user === undefined) source = sourceOf(keyWithin(body), intake.credentials)
    const { calls, rejected } = receiveCalls(body, bytes.length, type, Date.now())
    for (const { code } of rejected) counts.called(source, code, 1)
    await accepting(intake, source, calls, request.headers['traceparent'] as string | undefined)
    counts.answered(source, rejected.length === 0 ? 'ok' : 'partly')
    reply.header('content-type', JSON_TYPE)
    return await reply.send(rejected.length === 0 ? SUCCESS : partly(rejected))
  } catch (error) {
    const { code, rejected = [] } = toRefusal(error)
    for (const { code } of rejected) counts.called(source, code, 1)
    counts.answered(source, code)
    throw error
  }
}

async function accepting(
  intake: Intake,
  source: string,
  calls: Call[],
  traceParent: string | undefined,
): Promise<void> {
  const { accept, counts } = intake
  try {
    checkRate(intake, source, calls.length)
    intake.buckets.get(source)?.take(calls.length)
    await accept(source, calls, traceParent)
  } catch (error) {
    counts.called(source, toRefusal(error).code, calls.length)
    throw error
  }
  counts.called(source, 'accepted', calls.length)
}

/** @throws {@link Refusal} if so many calls would be more than the source may send. */
function checkRate({ buckets }: Intake, source: string, calls: number): void {
  const bucket = buckets.get(source)
  const waitMs = bucket?.waitMs(calls) ?? 0
  if (!bucket || waitMs === 0) return
  const seconds = String(Math.ceil(waitMs / 1_000))
  const { callsPerSecond, burst } = bucket.limit
  throw new Refusal(
    429,
    'rate_limited',
    `The source ${source} may send ${callsPerSecond} calls a second, ${burst} at once. Nothing was taken: ` +
      `send it again in ${seconds} s.`,
    { 'Retry-After': seconds },
  )
}

function partly(rejected: Rejected[]): string {
  return JSON.stringify({ success: true, rejected })
}

/** Clients that can't set headers (a beacon) have the key in the body. */
function keyWithin({ writeKey }: Fields): string {
  if (typeof writeKey === 'string') return writeKey
  throw unauthorized(
    'no_write_key',
    'A write key is needed: as the user of Basic authentication, or as "writeKey" in the body. None came.',
  )
}

function sourceOf(writeKey: string, credentials: Credentials): string {
  const source = credentials(writeKey)
  if (source !== undefined) return source
  throw unauthorized(
    'unknown_write_key',
    'The write key must be that of a source in the settings; the one that came is not.',
  )
}

function unauthorized(code: 'no_write_key' | 'unknown_write_key', message: string): Refusal {
  return new Refusal(401, code, message, { 'WWW-Authenticate': 'Basic realm="hookline"' })
}
