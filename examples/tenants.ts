// One application, many customers, each with a write key of its own. A client is made when its tenant is first seen; each
// has its queue and its backoff, so that one customer's trouble delays nobody else.
import { createServer } from 'node:http'
import { Analytics } from 'hookline'

const { PORT = '3000', WRITE_KEYS = '{}' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const writeKeys = new Map(Object.entries(JSON.parse(WRITE_KEYS) as Record<string, string>))
const clients = new Map<string, Analytics>()

function analyticsOf(tenant: string): Analytics | undefined {
  const writeKey = writeKeys.get(tenant)
  if (writeKey === undefined) return undefined
  let client = clients.get(tenant)
  if (!client) {
    client = new Analytics(writeKey, {
      maxQueueBytes: 4 * 1024 * 1024, // each: with a thousand tenants, all of them together count
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
