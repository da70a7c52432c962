// A Fastify application that sets the user, the ip and the trace id once for each request.
import { randomUUID } from 'node:crypto'
import fastify from 'fastify'
import { Analytics } from 'hookline'
import { createRequestContext } from 'hookline/request-context'

const { PORT = '3000', WRITE_KEY = 'WRITE_KEY' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const analytics = new Analytics(WRITE_KEY, { onInvalid: 'report' })
const request = createRequestContext(analytics)

interface Headers {
  'x-visitor-id'?: string
  'x-trace-id'?: string
}

const app = fastify()
app.addHook<{ Headers: Headers }>('onRequest', (req, _reply, done) => {
  const context = { ip: req.ip, traceId: req.headers['x-trace-id'] }
  request.run({ anonymousId: req.headers['x-visitor-id'] || randomUUID(), context }, done)
})
app.post<{ Body: { userId: string } }>('/login', (req, reply) => {
  request.set({ userId: req.body.userId })
  request.identify({ traits: { lastLogin: new Date() } })
  return reply.code(204).send()
})
app.post<{ Body: { total: number } }>('/orders', async (req, reply) => {
  await charge(req.body.total)
  return reply.code(201).send()
})

/** Far from the request, and it need not know of it. */
async function charge(total: number) {
  await Promise.resolve()
  request.track({ event: 'Order Completed', properties: { total } })
}

await app.listen({ port: Number(PORT) })
console.log(`Listening on http://localhost:${PORT}`)

process.once('SIGTERM', () => {
  void app.close()
  void analytics.close()
})
