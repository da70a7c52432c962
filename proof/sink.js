// One scripted server at the end of every way: it meets each request as it is told to, and keeps which messages it
// stored, when, on which connection, and whether their signature held.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'

/** Checks a signature like a receiver. It does not use the code that is proved. */
export function isSigned(secret, body, signature = '') {
  const wanted = createHmac('sha1', secret).update(body).digest()
  const given = Buffer.from(signature, 'hex')
  return given.length === wanted.length && timingSafeEqual(given, wanted)
}

/**
 * How a request is met:
 *
 * - `'ok'`: stored, 200; `{ lateMs }`: the same, later
 * - `{ status, headers }`: not stored
 * - `'reset before'`, `'reset in'`, `'reset after'`: the connection ends; nothing is stored
 * - `'stored, reset'`, `'stored, cut reply'`: stored, and the client can't know
 * - `'silence'`: read and never answered; `'garbage'`: answered with what is no HTTP
 *
 * @param {(body: Buffer, headers: object, path: string) => string[]} idsIn the messages of a request
 * @param {string} [secret] what requests are to be signed with
 */
export async function startSink({ idsIn, secret, meet = () => 'ok' }) {
  /** Every stored message, with its arrivals in order. */
  const arrivals = new Map()
  const sockets = new Set()
  const counts = { requests: 0, stored: 0, forged: 0 }
  let lastSocket = 0
  let port = 0
  const sink = { arrivals, counts, meet }

  function store(ids, request) {
    const { socket } = request
    const arrival = {
      path: request.url,
      socket: socket.number,
      request: ++socket.requests,
      at: Date.now(),
    }
    for (const id of ids) {
      counts.stored += 1
      const own = arrivals.get(id)
      if (own) own.push(arrival)
      else arrivals.set(id, [arrival])
    }
    return arrival
  }

  async function serve(request, response) {
    counts.requests += 1
    const { socket } = request
    if (request.method !== 'POST') return response.end('a page') // a redirect was followed
    socket.requests ??= 0
    const early = sink.meet({ path: request.url, socket, response })
    if (early === 'reset before') return socket.resetAndDestroy()
    const chunks = []
    for await (const chunk of request) {
      if (early === 'reset in') return socket.resetAndDestroy()
      chunks.push(chunk)
    }
    const body = Buffer.concat(chunks)
    const ids = idsIn(body, request.headers, request.url)
    const { headers } = request
    const action = sink.meet({ path: request.url, socket, response, headers, body, ids })
    if (secret !== undefined && !isSigned(secret, body, request.headers['x-signature']))
      counts.forged += 1

    const isStored =
      action === 'ok' || action.lateMs !== undefined || String(action).startsWith('stored')
    const arrival = isStored ? store(ids, request) : undefined
    if (action.lateMs !== undefined)
      await new Promise((resolve) => setTimeout(resolve, action.lateMs))
    if (action === 'silence') return
    if (action === 'garbage') return socket.end('this is not HTTP\r\n\r\n')
    if (action === 'stored, cut reply') {
      response.writeHead(200, { 'content-length': 100 })
      response.write('{"succ', () => socket.destroy())
      return
    }
    if (String(action).includes('reset')) return socket.resetAndDestroy()
    if (socket.destroyed) return
    response.writeHead(action.status ?? 200, {
      'content-type': 'application/json',
      ...action.headers,
    })
    response.end('{"success":true}', () => {
      if (arrival) arrival.answeredAt = Date.now()
    })
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy()) // the other side was killed
  })
  server.keepAliveTimeout = 120_000
  server.on('connection', (socket) => {
    socket.number = ++lastSocket
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => undefined)
  })
  sink.open = async () => {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    port = server.address().port
    sink.port = port
    sink.url = `http://127.0.0.1:${port}`
  }
  sink.drop = () => {
    for (const socket of sockets) socket.resetAndDestroy()
  }
  sink.shut = async () => {
    const closed = once(server, 'close')
    server.close()
    sink.drop()
    await closed
  }
  /** The number of duplicate arrivals. */
  sink.duplicated = () => counts.stored - arrivals.size
  await sink.open()
  return sink
}
