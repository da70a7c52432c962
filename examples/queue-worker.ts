// A worker of a queue acknowledges a job once its call is delivered. With the job's id as the message's, a job that is
// worked on twice is recorded once. Jobs are lines of standard input here: put your queue in their place.
import { createInterface } from 'node:readline'
import { Analytics } from 'hookline'

interface Job {
  id: string
  userId: string
  plan: string
}

const { WRITE_KEY = 'WRITE_KEY' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const analytics = new Analytics(WRITE_KEY, {
  maxRetries: 5, // then the queue tries again
  onFailed: () => undefined, // the callbacks below hear of each loss
})

for await (const line of createInterface(process.stdin)) {
  const { id, userId, plan } = JSON.parse(line) as Job
  const properties = { plan }
  analytics.track({ messageId: id, userId, event: 'Plan Changed', properties }, (error) => {
    console.log(error ? `return ${id}: ${error.code}` : `acknowledge ${id}`)
  })
}
await analytics.close()
