// An Express application that sets the user, the ip and the trace id once for each request.
import { randomUUID } from 'node:crypto'
import express from 'express'
import { Analytics } from 'hookline'
import { createRequestContext } from 'hookline/request-context'

const { PORT = '3000', WRITE_KEY = 'WRITE_KEY' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const analytics = new Analytics(WRITE_KEY, { onInvalid: 'report' })
const request = createRequestContext(analytics)

const app = express()
app.use(express.json())
app.use((req, _res, next) => {
  const context = { ip: req.ip, traceId: req.get('X-Trace-Id') }
  request.run({ anonymousId: req.get('X-Visitor-Id') || randomUUID(), context }, next)
})
app.post('/login', (req, res) => {
  const { userId } = req.body as { userId: string }
  request.set({ userId })
  request.identify({ traits: { lastLogin: new Date() } })
  res.sendStatus(204)
})
app.post('/orders', async (req, res) => {
  const { total } = req.body as { total: number }
  await charge(total)
  res.sendStatus(201)
})

/** Far from the request, and it need not know of it. */
async function charge(total: number) {
  await Promise.resolve()
  request.track({ event: 'Order Completed', properties: { total } })
}

const server = app.listen(Number(PORT), () => {
  console.log(`Listening on http://localhost:${PORT}`)
})

process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
  void analytics.close()
})
