// The hand-written minimum: what anyone has to do to send these events in batches, and no more. It
// builds the message, makes an id, stringifies once, joins, and posts over kept-alive sockets. It
// doesn't validate, retry, bound its queue or report.
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'

const SOCKETS = 8
const CONTEXT = { library: { name: 'limit', version: '1.0.0' } }

function createPost(endpoint) {
  const { hostname, port } = new URL(endpoint)
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS })
  const authorization = `Basic ${Buffer.from('WRITE_KEY:').toString('base64')}`
  return (body, done) => {
    const sending = request(
      {
        agent,
        hostname,
        port,
        path: '/v1/batch',
        method: 'POST',
        headers: {
          authorization,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
        },
      },
      (response) => {
        response.resume()
        response.on('end', () => {
          done(response.statusCode === 200)
        })
      },
    )
    sending.on('error', () => {
      done(false)
    })
    sending.end(body)
  }
}

const createStubbedPost = (stub) => (body, done) => {
  stub.take(body)
  queueMicrotask(() => {
    done(true)
  })
}

export function create({ endpoint, flushAt, stub }) {
  const post = stub ? createStubbedPost(stub) : createPost(endpoint)
  const waiting = []
  let batch = []
  let pending = 0
  let inFlight = 0
  let lost = 0
  let drained

  function settle(events, isDelivered) {
    inFlight -= 1
    pending -= events
    if (!isDelivered) lost += events
    if (waiting.length > 0) send(waiting.shift())
    if (pending === 0) drained?.()
  }

  function send({ body, events }) {
    inFlight += 1
    post(body, (isDelivered) => {
      settle(events, isDelivered)
    })
  }

  function cut() {
    const body = `{"batch":[${batch.join(',')}],"sentAt":"${new Date().toISOString()}"}`
    const request = { body, events: batch.length }
    batch = []
    if (inFlight < SOCKETS) send(request)
    else waiting.push(request)
  }

  async function flush() {
    if (batch.length > 0) cut()
    if (pending === 0) return
    await new Promise((resolve) => {
      drained = resolve
    })
  }

  return {
    track({ userId, event, properties }) {
      const message = {
        type: 'track',
        messageId: randomUUID(),
        timestamp: new Date().toISOString(),
        userId,
        event,
        properties,
        context: CONTEXT,
      }
      batch.push(JSON.stringify(message))
      pending += 1
      if (batch.length === flushAt) cut()
    },
    pending: () => pending,
    flush,
    close: flush,
    reportedLost: () => lost,
  }
}
