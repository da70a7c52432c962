// The endpoint of a round, a process of its own: it meets each request as the plan says, and keeps a record of
// what it saw, stored and answered. Its chance comes from the seed and the number of the request.
import { closeSync, openSync, writeSync } from 'node:fs'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { clock, watchStalls } from './clock.js'
import { HOSTILE } from './hostile.js'
import { dice } from './prng.js'

const { seed, endpoint: plan, file } = JSON.parse(process.argv[2])
const out = openSync(file, 'a')
const tell = (line) => writeSync(out, `${JSON.stringify({ at: clock(), ...line })}\n`)
watchStalls(tell)

const poison = new Set(plan.poison?.ids)
const isRefused = (id) => plan.refusedEvery !== undefined && id % plan.refusedEvery === 1
const sockets = new Set()
const open = new Set()
let phase = { ...plan.phases[0] }
let lastRequest = 0
let lastSocket = 0

/** What a whole body is met with. */
function meet({ ids, bytes }, chances) {
  if (phase.kind !== 'ok' && chances.chance(phase.share)) return phase
  if (plan.limitBytes !== undefined && bytes > plan.limitBytes)
    return { kind: 'status', status: 413 }
  if (ids.some((id) => poison.has(id))) return { ...plan.poison, isPoison: true }
  return { kind: 'ok' }
}

function headersOf({ retryAfterS, isDate }) {
  if (retryAfterS === undefined) return {}
  const until = new Date(Date.now() + retryAfterS * 1_000).toUTCString()
  return { 'retry-after': isDate ? until : String(retryAfterS) }
}

function raw(text) {
  return ({ socket }, response, seen) => {
    seen.cutAt = clock()
    socket.end(text)
  }
}
function reset({ socket }, response, seen) {
  seen.cutAt = clock()
  socket.resetAndDestroy()
}
const ok = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n'
const withHeaderOf = (bytes) => `${ok}x-large: ${'h'.repeat(bytes)}\r\ncontent-length: 2\r\n\r\n{}`

/** How each kind answers a request whose body has been read. */
const ANSWERS = {
  ok(request, response, seen) {
    const rejected = seen.ids.flatMap((id, index) =>
      isRefused(id) ? [{ index, code: 'refused' }] : [],
    )
    seen.rejects = rejected.map(({ index }) => seen.ids[index])
    seen.isAccepting = true
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ success: true, ...(rejected.length > 0 && { rejected }) }))
  },
  status(request, response, seen, action) {
    seen.status = action.status
    seen.retryAfterS = action.retryAfterS
    seen.isDate = action.isDate
    const headers = headersOf(action)
    if (action.status === 302) headers.location = '/login'
    response.writeHead(action.status, headers)
    response.end(action.isLarge ? 'x'.repeat(2_000_000) : `refused with ${action.status}`)
  },
  hostile(request, response, seen, action, { pick }) {
    const { body, rejects = [], mayReject = [], breaksOff } = pick(HOSTILE)(seen.ids.length)
    seen.breaksOff = breaksOff
    seen.rejects = rejects.map((index) => seen.ids[index])
    seen.mayReject = mayReject.map((index) => seen.ids[index])
    seen.isAccepting = true
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(body)
  },
  'reset before': reset,
  'reset in': reset,
  'reset after': reset,
  down: reset,
  hang: () => undefined,
  garbage: raw('this is not HTTP\r\n\r\n'),
  'stored, reset': reset,
  'stored, hang': () => undefined,
  'stored, endless'(request, response, seen) {
    response.writeHead(200)
    const drip = setInterval(() => response.write('x'), 100)
    response.on('close', () => clearInterval(drip))
    seen.isAccepting = true
  },
  'stored, short'(request, response, seen) {
    seen.isAccepting = true
    raw(`${ok}content-length: 100\r\n\r\n{"succ`)(request, response, seen)
  },
  'stored, bad gzip'(request, response, seen) {
    seen.isAccepting = true
    raw(`${ok}content-encoding: gzip\r\ncontent-length: 12\r\n\r\nthis is not!`)(
      request,
      response,
      seen,
    )
  },
  // More than Node takes by default.
  'stored, large headers'(request, response, seen) {
    seen.isAccepting = true
    raw(withHeaderOf(20_000))(request, response, seen)
  },
  // More than anybody takes.
  'stored, huge headers': raw(withHeaderOf(1_500_000)),
  'stored, garbage': raw('this is not HTTP\r\n\r\n'),
}

/** Messages are named m0, m1 and so on. */
function read(request, chunks) {
  const wire = Buffer.concat(chunks)
  const isGzip = request.headers['content-encoding'] === 'gzip'
  const body = isGzip ? gunzipSync(wire) : wire
  const { batch } = JSON.parse(body)
  return {
    ids: batch.map(({ messageId }) => Number(messageId.slice(1))),
    bytes: body.length,
    isGzip,
  }
}

async function serve(request, response, seen, chances) {
  if (phase.kind === 'reset before' && chances.chance(phase.share)) {
    seen.action = phase.kind
    reset(request, response, seen)
    return
  }
  const chunks = []
  for await (const chunk of request) {
    chunks.push(chunk)
    if (phase.kind !== 'reset in' || !chances.chance(phase.share)) continue
    seen.action = phase.kind
    reset(request, response, seen)
    return
  }
  seen.readAt = clock()
  Object.assign(seen, read(request, chunks))
  const action = meet(seen, chances)
  seen.action = action.kind
  seen.isPoison = action.isPoison
  await sleep(action.latencyMs ?? plan.latencyMs + Math.round(plan.msPerMessage * seen.ids.length))
  const isStored =
    action.kind === 'ok' || action.kind === 'hostile' || action.kind.startsWith('stored')
  if (request.socket.destroyed && !(isStored && plan.storesWhatWasAborted)) return
  if (isStored) seen.storedAt = clock()
  if (!request.socket.destroyed) ANSWERS[action.kind](request, response, seen, action, chances)
}

const server = createServer((request, response) => {
  const { socket } = request
  const seen = {
    kind: 'request',
    n: (lastRequest += 1),
    socket: socket.number,
    nth: (socket.requests = (socket.requests ?? 0) + 1),
    port: socket.remotePort,
    from: clock(),
    phase: phase.kind,
    method: request.method,
    retryCount: request.headers['x-retry-count'],
    isTold: false,
  }
  open.add(seen)
  const end = () => {
    seen.until ??= clock()
  }
  response.on('finish', () => {
    if (!socket.destroyed) seen.isTold = true
    end()
  })
  const chances = dice(Math.imul(seed, 1_000) + seen.n)
  const closed = new Promise((resolve) => response.on('close', resolve)).then(end)
  const served = serve(request, response, seen, chances).catch((error) => {
    if (!socket.destroyed) seen.problem = String(error)
    socket.destroy()
  })
  void Promise.all([closed, served]).then(() => {
    open.delete(seen)
    tell(seen)
  })
})
server.keepAliveTimeout = 60_000
server.on('connection', (socket) => {
  socket.number = lastSocket += 1
  sockets.add(socket)
  socket.on('close', () => sockets.delete(socket))
  socket.on('error', () => undefined)
})

function enter(next) {
  phase = next
  tell({ kind: 'phase', phase: next.kind })
  if (next.kind === 'down') {
    server.close()
    for (const socket of sockets) socket.resetAndDestroy()
  } else if (!server.listening) server.listen(port, '127.0.0.1')
}

let port = 0
const orders = {
  begin: () => {
    for (const next of plan.phases) setTimeout(() => enter(next), next.atMs)
  },
  stop: () => {
    for (const seen of open) tell({ ...seen, isOpen: true })
    closeSync(out)
    process.exit(0)
  },
}
process.on('message', (order) => orders[order]())
process.on('disconnect', () => process.exit(0))
server.listen(0, '127.0.0.1', () => {
  ;({ port } = server.address())
  process.send(port)
})
