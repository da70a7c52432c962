// The same application in every runtime: it records a call, and receives it again as a webhook of the destination.
import { Analytics } from 'hookline'
import { webhook, type WebhookEvent } from 'hookline/fetch'
import { createRequestContext } from 'hookline/request-context'

export interface Env {
  ENDPOINT: string
  SECRET: string
}

export type App = (request: Request) => Promise<Response>

const WRITE_KEY = 'matrix-write-key'

export function createApp({ ENDPOINT, SECRET }: Env): App {
  const received: WebhookEvent[] = []
  const receive = webhook({ secret: SECRET }, (event) => {
    received.push(event)
  })

  async function record(): Promise<Response> {
    const analytics = new Analytics(WRITE_KEY, { endpoint: ENDPOINT })
    const request = createRequestContext(analytics)
    await request.run({ userId: 'u1' }, async () => {
      await new Promise((resolve) => setTimeout(resolve, 1))
      request.track({ event: 'There And Back', properties: { total: 42 } })
    })
    const flushed = await analytics.flush()
    await analytics.close()
    return Response.json(flushed)
  }

  return async (request) => {
    switch (new URL(request.url).pathname) {
      case '/record':
        return record()
      case '/webhook':
        return receive(request)
      case '/received':
        return Response.json(received)
      default:
        return new Response('ready')
    }
  }
}
