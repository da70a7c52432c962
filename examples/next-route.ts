// app/webhook/route.ts of a Next.js application. The secret comes from a function because a build, where
// it is not set, loads this file too.
import { webhook } from 'hookline/fetch'

export const POST = webhook({ secret: () => process.env['WEBHOOK_SECRET'] }, (event) => {
  if (event.type === 'track') console.log(event.userId, 'did', event.event)
})
