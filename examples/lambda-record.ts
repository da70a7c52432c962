// Lambda freezes a function after its answer. So the function sends its calls first, and waits for at most one second.
import { Analytics } from 'hookline'

const { WRITE_KEY = 'WRITE_KEY' } = process.env // the client also reads ANALYTICS_ENDPOINT
const analytics = new Analytics(WRITE_KEY)

export async function handler({ userId }: { userId: string }): Promise<{ statusCode: number }> {
  analytics.track({ userId, event: 'Signed Up' })
  await analytics.flush({ timeout: 1000 }) // the next invocation sends the rest
  return { statusCode: 201 }
}
