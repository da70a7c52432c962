import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Call, CallType } from '../call.js'
import { basicUser, type Credentials } from './credentials.js'
import { MAX_BATCH_BYTES, MAX_CALL_BYTES } from './limits.js'
import { CALL_TYPES, type Fields } from './normalise.js'
import { readBody } from './read-body.js'
import { parseBody, receiveCalls } from './receive.js'
import { JSON_TYPE, Refusal, type Rejected } from './refusal.js'

/**
 * Takes the calls of a source, all of them or, if it rejects, none: resolves once they are durable.
 *
 * @throws StoreError if the store is full, or can't write: the client is told to come again.
 */
export type Accept = (source: string, calls: Call[]) => Promise<void>

/** What the routes need of the collector. */
export interface Intake {
  accept: Accept
  /** By the settings of the moment. */
  credentials: Credentials
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
  const user = basicUser(request.headers.authorization)
  const sourceOfHeader = user === undefined ? undefined : sourceOf(user, intake.credentials)
  const bytes = await readBody(request.raw, type === undefined ? MAX_BATCH_BYTES : MAX_CALL_BYTES)
  const body = parseBody(bytes)
  const source = sourceOfHeader ?? sourceOf(keyWithin(body), intake.credentials)
  const { calls, rejected } = receiveCalls(body, bytes.length, type, Date.now())
  await intake.accept(source, calls)
  reply.header('content-type', JSON_TYPE)
  return reply.send(rejected.length === 0 ? SUCCESS : partly(rejected))
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
