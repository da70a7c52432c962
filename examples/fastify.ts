import fastify from 'fastify'
import { webhook } from 'hookline/fastify'

const { PORT = '3000', WEBHOOK_SECRET } = process.env
const app = fastify()

const receive = webhook({ secret: WEBHOOK_SECRET }, (event) => {
  if (event.type === 'track') console.log(event.userId, 'did', event.event)
})
await app.register(receive, { prefix: '/webhook' })

await app.listen({ port: Number(PORT) })
console.log(`Listening on http://localhost:${PORT}/webhook`)
