// A script for cron: it records calls, prints the result, and exits with 1 if a message was lost.
import { Analytics } from 'hookline'

const { WRITE_KEY = 'WRITE_KEY' } = process.env // the client also reads ANALYTICS_ENDPOINT
const analytics = new Analytics(WRITE_KEY, { gzip: true })

const users = [
  { userId: 'u1', plan: 'pro', seats: 12 },
  { userId: 'u2', plan: 'free', seats: 1 },
]
for (const { userId, ...traits } of users) analytics.identify({ userId, traits })

const { delivered, failed } = await analytics.close({ timeout: 60_000 })
console.log(`${delivered} delivered, ${failed} lost`)
process.exitCode = failed > 0 ? 1 : 0
