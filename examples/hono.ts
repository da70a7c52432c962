import { serve } from '@hono/node-server' // needed on Node only; on other runtimes use: export default app
import { Hono } from 'hono'
import { env } from 'hono/adapter'
import { webhook } from 'hookline/hono'

interface App {
  Bindings: { WEBHOOK_SECRET: string }
}

const app = new Hono<App>()

app.post(
  '/webhook',
  webhook<App>({ secret: (c) => env(c).WEBHOOK_SECRET }, (event) => {
    if (event.type === 'track') console.log(event.userId, 'did', event.event)
  }),
)

serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000) }, ({ port }) => {
  console.log(`Listening on http://localhost:${port}/webhook`)
})
