// The endpoints of a round, in a thread of their own. They meet each request as they are told, and record it.
import { parentPort, workerData } from 'node:worker_threads'
import { clock } from '../random/clock.js'
import { isSigned, startSink } from '../sink.js'

const records = []
/** Messages with this event fail until the round is over. */
const POISON = '"event":"poison"'
let isCalm = false
/** The longest time in which an endpoint answers in the end, so that a backlog does not take minutes. */
const CALM_MS = 20

/** How an endpoint meets a request for which no other rule holds. */
function fateOf(endpoint, body) {
  const { mode, latencyMs } = endpoint
  const ok = latencyMs > 0 ? { lateMs: isCalm ? Math.min(latencyMs, CALM_MS) : latencyMs } : 'ok'
  if (isCalm) return ok
  if (body?.includes(POISON)) return { status: 500 }
  if (mode.kind === 'throttle') return takes(endpoint) ? ok : refusal(429, mode)
  if (mode.kind === 'ok' || Math.random() >= mode.share) return ok
  if (mode.kind === 'status') return refusal(mode.status, mode)
  if (mode.kind === 'late') return { lateMs: mode.ms }
  return mode.kind
}

const refusal = (status, { retryAfter }) => ({
  status,
  headers: retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
})

function takes(endpoint) {
  const second = Math.floor(clock() / 1_000)
  if (endpoint.second !== second) Object.assign(endpoint, { second, taken: 0 })
  endpoint.taken += 1
  return endpoint.taken <= endpoint.mode.perSecond
}

function begin(number, path, response) {
  const record = { endpoint: number, destination: path.slice(1), at: clock(), endAt: Infinity }
  // What it was sent when it ends: the destination counts a request until it has read the answer.
  response.once('finish', () => (record.isWhole = true))
  response.once('close', () => (record.endAt = clock()))
  records.push(record)
  return record
}

function read(record, endpoint, { headers, body }) {
  const text = body.toString()
  const { type, userId, traits } = JSON.parse(text)
  record.id = decodeURIComponent(headers['x-message-id'])
  record.attempt = Number(headers['x-attempt'])
  if (type === 'delete') record.deleted = userId
  const [[trait, isMember] = []] = Object.entries(traits ?? {})
  if (typeof isMember === 'boolean') record.change = { trait, userId, isMember }
  record.secret = endpoint.secrets.find((secret) => isSigned(secret, body, headers['x-signature']))
}

/** Called twice for each request: before and after its body is read. The answer is decided once. */
function meetAt(endpoint, number) {
  const met = new WeakMap()
  return ({ path, response, headers, body }) => {
    const own = met.get(response) ?? { record: begin(number, path, response) }
    met.set(response, own)
    if (!body) {
      own.fate = fateOf(endpoint)
      return own.fate
    }
    read(own.record, endpoint, { headers, body })
    const isKnown = own.record.secret !== undefined && own.record.secret === endpoint.secret
    own.fate = isKnown ? decided(own, endpoint, body) : { status: 401 }
    own.record.fate = typeof own.fate === 'string' ? own.fate : (own.fate.status ?? 'ok')
    return own.fate
  }
}

const decided = (own, endpoint, body) => (body.includes(POISON) ? fateOf(endpoint, body) : own.fate)

const endpoints = await Promise.all(
  workerData.map(async ({ latencyMs, secret }, number) => {
    // The receiver knows one secret at a time. Requests may be signed with any of `secrets`.
    const endpoint = { mode: { kind: 'ok' }, latencyMs, secret, secrets: [secret] }
    endpoint.sink = await startSink({ idsIn: () => [], meet: meetAt(endpoint, number) })
    return endpoint
  }),
)

async function change(endpoint, mode) {
  const isClosed = endpoint.mode.kind === 'closed'
  endpoint.mode = mode
  if (mode.kind === 'closed' && !isClosed) await endpoint.sink.shut()
  if (mode.kind !== 'closed' && isClosed) await endpoint.sink.open()
}

const ORDERS = {
  mode: ({ endpoint, mode }) => change(endpoints[endpoint], mode),
  'new secret': ({ endpoint, secret }) => (endpoints[endpoint].secret = secret),
  'may be signed': ({ endpoint, secret }) => endpoints[endpoint].secrets.push(secret),
  calm: async () => {
    isCalm = true
    await Promise.all(endpoints.map((endpoint) => change(endpoint, { kind: 'ok' })))
  },
  records: () => records,
}

// One order after the other, because an endpoint that opens must have closed before.
let last = Promise.resolve()
parentPort.on('message', ({ number, order, ...given }) => {
  last = last.then(async () =>
    parentPort.postMessage({ number, answer: await ORDERS[order](given) }),
  )
})
parentPort.postMessage({ urls: endpoints.map(({ sink }) => sink.url) })
