// app/webhook/route.ts of a Next.js application. The secret is a function because the build also loads this
// file, and the variable is not set there.
import { webhook } from 'hookline/fetch'

export const POST = webhook({ secret: () => process.env['WEBHOOK_SECRET'] }, (event) => {
  if (event.type === 'track') console.log(event.userId, 'did', event.event)
})
