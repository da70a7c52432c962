// One application with many customers, each with its own write key. The first request of a tenant creates its client. Each
// client has its own queue and backoff, so that a problem of one customer does not delay the others.
import { createServer } from 'node:http'
import { Analytics } from 'hookline'

const { PORT = '3000', WRITE_KEYS = '{}' } = process.env // the client also reads ANALYTICS_ENDPOINT
const writeKeys = new Map(Object.entries(JSON.parse(WRITE_KEYS) as Record<string, string>))
const clients = new Map<string, Analytics>()

function analyticsOf(tenant: string): Analytics | undefined {
  const writeKey = writeKeys.get(tenant)
  if (writeKey === undefined) return undefined
  let client = clients.get(tenant)
  if (!client) {
    client = new Analytics(writeKey, {
      maxQueueBytes: 4 * 1024 * 1024, // for each client: a thousand tenants can need a thousand times as much
      context: { tenant },
    })
    clients.set(tenant, client)
  }
  return client
}

const server = createServer((request, response) => {
  const tenant = request.url?.split('/')[1] ?? ''
  const analytics = analyticsOf(tenant)
  analytics?.track({ userId: 'u1', event: 'Opened' })
  response.writeHead(analytics ? 204 : 404).end()
})
server.listen(Number(PORT), () => {
  console.log(`Listening on http://localhost:${PORT}/`)
})

process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
  for (const client of clients.values()) void client.close()
})
