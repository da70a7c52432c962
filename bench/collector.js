// The loopback collector. It runs in a separate process, so that no subject is charged for its CPU and memory.
//
// While the clock runs it does no more than keep each body; it decodes and counts when asked for its
// report. Commands come over the IPC channel: `up` listens, `refuse` closes the port, `reset` accepts
// connections and resets each at once, `report` answers what has arrived.
import { createServer } from 'node:http'
import { account } from './decode.js'

const ANSWERS = {
  // Amplitude reads the result from the body.
  '/2/httpapi': JSON.stringify({ code: 200, events_ingested: 0 }),
}
const ANSWER = JSON.stringify({ success: true })

const sockets = new Set()
const bodies = []
const attemptsAt = []
const seen = { requests: 0, bytes: 0, sockets: 0, lastArrivalAt: 0 }
let isResetting = false
let port = 0

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)
    bodies.push(body)
    seen.requests += 1
    seen.bytes += body.length
    seen.lastArrivalAt = Date.now()
    response.setHeader('content-type', 'application/json')
    response.end(ANSWERS[request.url] ?? ANSWER)
  })
})
// If the server closed a socket that a client is about to reuse, the fault would be counted for the client.
server.keepAliveTimeout = 120_000
server.on('connection', (socket) => {
  if (isResetting) {
    attemptsAt.push(Date.now())
    socket.resetAndDestroy()
    return
  }
  sockets.add(socket)
  seen.sockets = Math.max(seen.sockets, sockets.size)
  socket.on('close', () => sockets.delete(socket))
})

const listen = () =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      port = server.address().port
      resolve()
    })
  })

const disconnect = () => {
  for (const socket of sockets) socket.resetAndDestroy()
}

const COMMANDS = {
  async up() {
    isResetting = false
    if (!server.listening) await listen()
    return { endpoint: `http://127.0.0.1:${port}` }
  },
  async refuse() {
    const closed = new Promise((resolve) => server.close(resolve))
    disconnect()
    await closed
  },
  reset() {
    isResetting = true
    disconnect()
  },
  report({ expected }) {
    return { ...seen, attemptsAt, ...account(bodies, expected) }
  },
}

process.on('message', async ({ id, command, ...args }) => {
  process.send({ id, answer: (await COMMANDS[command](args)) ?? null })
})
process.on('disconnect', () => process.exit())
