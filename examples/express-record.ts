// An Express application that records what its users do, and sends all queued calls before it stops.
import express from 'express'
import { Analytics } from 'hookline'

const { PORT = '3000', WRITE_KEY = 'WRITE_KEY' } = process.env // the client also reads ANALYTICS_ENDPOINT
const analytics = new Analytics(WRITE_KEY, {
  onInvalid: 'report', // an invalid event must not make a request fail
  onFailed: ({ error, messages }) => {
    console.error(`${messages.length} calls were lost:`, error.message)
  },
})

const app = express()
app.post('/orders/:userId', express.json(), (request, response) => {
  const { userId } = request.params
  const { total } = request.body as { total: number }
  analytics.track({ userId, event: 'Order Completed', properties: { total } })
  response.sendStatus(201)
})

const server = app.listen(Number(PORT), () => {
  console.log(`Listening on http://localhost:${PORT}/orders`)
})

process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
  void analytics.close()
})
