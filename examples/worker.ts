// A Cloudflare Worker gets its secrets with each request. Set this one with `npx wrangler secret put WEBHOOK_SECRET`.
import { webhook } from 'hookline/fetch'

interface Env {
  WEBHOOK_SECRET: string
}

export default {
  fetch: webhook<[env: Env]>({ secret: (_request, env) => env.WEBHOOK_SECRET }, (event) => {
    if (event.type === 'track') console.log(event.userId, 'did', event.event)
  }),
}
