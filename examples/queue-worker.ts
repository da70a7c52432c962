// A queue worker that acknowledges a job when its call is delivered. It uses the job's id as the message id, so that a
// job that runs twice is recorded once. The jobs here are lines of standard input; use your queue instead.
import { createInterface } from 'node:readline'
import { Analytics } from 'hookline'

interface Job {
  id: string
  userId: string
  plan: string
}

const { WRITE_KEY = 'WRITE_KEY' } = process.env // the client also reads ANALYTICS_ENDPOINT
const analytics = new Analytics(WRITE_KEY, {
  maxRetries: 5, // after that, the queue retries the job
  onFailed: () => undefined, // the callbacks below are told of each loss
})

for await (const line of createInterface(process.stdin)) {
  const { id, userId, plan } = JSON.parse(line) as Job
  const properties = { plan }
  analytics.track({ messageId: id, userId, event: 'Plan Changed', properties }, (error) => {
    console.log(error ? `return ${id}: ${error.code}` : `acknowledge ${id}`)
  })
}
await analytics.close()
