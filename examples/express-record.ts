// An Express application that records what its users do, and loses nothing when it is stopped.
import express from 'express'
import { Analytics } from 'hookline'

const { PORT = '3000', WRITE_KEY = 'WRITE_KEY' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const analytics = new Analytics(WRITE_KEY, {
  onInvalid: 'report', // an event with a mistake in it is no reason to fail a request
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
