import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { EnqueueCalls, TraceHeaders } from '../enqueue/calls.js'
import { CALL_TYPES, type Call, type CallType } from '../model/call.js'
import type { Admission } from './admission.js'
import { basicUser, type Credentials } from './credentials.js'
import { MAX_BATCH_BYTES, MAX_CALL_BYTES } from './limits.js'
import { parseBody, textOf } from '../http/json-body.js'
import type { Fields } from '../model/fields.js'
import type { ArrivingBytes } from '../http/arriving-bytes.js'
import { ignoreContentType, readBody, readOwnBodies } from '../http/read-body.js'
import type { PendingBytes } from '../http/pending-bytes.js'
import type { Quotas, RefusingQuota } from './quotas.js'
import { receiveCalls } from './receive.js'
import { warningsOf, withEncoding, type Forwarding, type Warnings } from './warnings.js'
import { JSON_TYPE, Refusal, toRefusal, type Rejected } from '../http/refusal.js'

/** What happens to the requests of sources. */
export interface CollectEvents {
  /** A request was answered with `ok`, `partly`, or the code of a refusal. The name of an unknown source is empty. */
  requestAnswered(source: string, answer: string): void
  /**
   * A number of calls of a request was `accepted`, or rejected with a code. A request that was refused for now, before its calls were
   * read, counts as one call.
   */
  callsCounted(source: string, answer: string, count: number): void
  /** A number of numbers in accepted calls is forwarded with other values. */
  numbersChanged(source: string, count: number): void
  /** Calls were accepted and are durable. */
  callsAccepted(source: string, calls: readonly Call[]): void
  /** A quota of a tenant refused a request. */
  quotaRefused(tenant: string, quota: RefusingQuota): void
  /** Valid calls could not be accepted. */
  callsNotAccepted(error: unknown): void
}

/** What the routes need. */
export interface CallRoutesParts {
  enqueueCalls: EnqueueCalls
  forwarding: Forwarding
  events: CollectEvents
  /** The write keys of the current settings. A reload replaces them. */
  credentials: Credentials
  /** What the sources may send now. */
  quotas: Quotas
  /** Decides when the calls of a request are read. */
  admission: Admission
  /** The bytes of bodies that have arrived in part. */
  arriving: ArrivingBytes
  /** The bytes that wait to be read, or for a commit. */
  pending: PendingBytes
}

/** The paths of batches. Segment's clients for Ruby and Java use the second one by default. */
const BATCH_PATHS = ['/v1/batch', '/v1/import']

/**
 * The header with which a client says that its calls are bulk work: `X-Lane: bulk`. Other values are ignored. Any client may
 * send it, because it only makes its own calls wait.
 */
const LANE_HEADER = 'x-lane'

/** Adds the routes that accept calls. They read the bodies themselves, with {@link readBody}. */
export function addCallRoutes(app: FastifyInstance, parts: CallRoutesParts): void {
  void app.register((routes, _options, done) => {
    readOwnBodies(routes)
    routes.addHook('onRequest', ignoreContentType)
    for (const path of BATCH_PATHS) {
      routes.post(path, (request, reply) => answer(parts, undefined, request, reply))
    }
    for (const type of CALL_TYPES) {
      routes.post(`/v1/${type}`, (request, reply) => answer(parts, type, request, reply))
    }
    done()
  })
}

/** Answers one request. The answer is 200 only after the calls are durable. */
async function answer(
  parts: CallRoutesParts,
  type: CallType | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { events } = parts
  let source = ''
  let unreadCalls = 1 // at least; a request has no fewer
  const checkUnread = () => {
    if (type === undefined) parts.quotas.checkUnreadBatch(source)
    else parts.quotas.check(source, 1)
  }
  try {
    const user = basicUser(request.headers.authorization)
    const { credentials } = parts
    if (user !== undefined) source = sourceOf(user, credentials)
    // Both checks before the body is read, so that a refused request costs little.
    checkUnread()
    parts.pending.check(source)
    const maxBytes = type === undefined ? MAX_BATCH_BYTES : MAX_CALL_BYTES
    const bytes = await readBody(request.raw, maxBytes, parts.arriving)
    const take = async () => {
      const text = textOf(bytes)
      const body = parseBody(bytes, text)
      // A key in the header may have been revoked since, while the body arrived or waited.
      if (user === undefined || credentials !== parts.credentials) {
        source = ''
        source = sourceOf(user ?? keyWithin(body), parts.credentials)
      }
      // The source of a key in the body is only known now. Reading the calls takes longer than parsing the body.
      if (user === undefined) checkUnread()
      const received = receiveCalls(body, bytes.length, type, Date.now())
      unreadCalls = 0
      const { calls, rejected } = received
      const changed = warningsOf(text, source, type, received, parts.forwarding)
      for (const { code } of rejected) events.callsCounted(source, code, 1)
      // Node joins the values of a header that comes twice, so neither of these is a list.
      const headers = request.headers as TraceHeaders
      const isBulk = request.headers[LANE_HEADER] === 'bulk'
      await parts.pending.storing(bytes.length, () => accept(parts, source, calls, headers, isBulk))
      return { rejected, changed }
    }
    const { rejected, changed } = await parts.pending.during(source, bytes.length, () =>
      parts.admission.run(source, take),
    )
    if (changed.count > 0) events.numbersChanged(source, changed.count)
    events.requestAnswered(source, rejected.length === 0 ? 'ok' : 'partly')
    reply.header('content-type', JSON_TYPE)
    return await reply.send(successOf(rejected, withEncoding(changed, bytes)))
  } catch (error) {
    const { status, code, details } = toRefusal(error)
    for (const { code } of details.rejected ?? []) events.callsCounted(source, code, 1)
    const isRefusedForNow = status === 429 || status === 503
    if (isRefusedForNow && unreadCalls > 0) events.callsCounted(source, code, unreadCalls)
    events.requestAnswered(source, code)
    throw error
  }
}

async function accept(
  parts: CallRoutesParts,
  source: string,
  calls: Call[],
  headers: TraceHeaders,
  isBulk: boolean,
): Promise<void> {
  const { enqueueCalls, events, quotas } = parts
  try {
    quotas.check(source, calls.length)
    quotas.take(source, calls.length)
    await enqueueCalls(source, calls, headers, isBulk).catch((error: unknown) => {
      quotas.giveBack(source, calls.length)
      throw error
    })
  } catch (error) {
    events.callsNotAccepted(error)
    events.callsCounted(source, toRefusal(error).code, calls.length)
    throw error
  }
  events.callsAccepted(source, calls)
  events.callsCounted(source, 'accepted', calls.length)
}

/** The answer to a request of which at least one call was accepted. Lists that would be empty are left out. */
function successOf(rejected: readonly Rejected[], { warnings, count }: Warnings): string {
  return JSON.stringify({
    success: true,
    rejected: rejected.length > 0 ? rejected : undefined,
    warnings: count > 0 ? warnings : undefined,
    moreWarnings: count > warnings.length ? count - warnings.length : undefined,
  })
}

/** Reads the write key from the body. Clients that cannot set headers, such as beacons, send it there. */
function keyWithin({ writeKey }: Fields): string {
  if (typeof writeKey === 'string') return writeKey
  throw unauthorized(
    'no_write_key',
    'The request has no write key. Send it as the user name of Basic authentication, or as "writeKey" in the body.',
  )
}

function sourceOf(writeKey: string, credentials: Credentials): string {
  const source = credentials(writeKey)
  if (source !== undefined) return source
  throw unauthorized(
    'unknown_write_key',
    'No source in the settings has this write key. Check the key, or add it to the settings.',
  )
}

function unauthorized(code: 'no_write_key' | 'unknown_write_key', message: string): Refusal {
  return new Refusal(401, code, message, { 'WWW-Authenticate': 'Basic realm="hookline"' })
}
