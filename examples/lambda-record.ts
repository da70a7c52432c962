// A function is frozen as soon as it has answered: what it recorded is sent before, and no longer than a second.
import { Analytics } from 'hookline'

const { WRITE_KEY = 'WRITE_KEY' } = process.env // and ANALYTICS_ENDPOINT, which the client reads
const analytics = new Analytics(WRITE_KEY)

export async function handler({ userId }: { userId: string }): Promise<{ statusCode: number }> {
  analytics.track({ userId, event: 'Signed Up' })
  await analytics.flush({ timeout: 1000 }) // what is left goes with the next call of the function
  return { statusCode: 201 }
}
