// The application, written as a customer would write it.
import express, { type Express, type Request } from 'express'
import type { Analytics } from 'hookline'

/** The tracking plan. The compiler checks each `track` against it. */
export interface Plan {
  'Signed Up': { plan: string }
  'Order Completed': { total: number; currency: string }
}

/** The part of the client that the application uses. */
export type Recorder = Pick<Analytics<Plan>, 'identify' | 'track' | 'page' | 'group'>

export function createApp(analytics: Recorder): Express {
  const app = express()
  app.use(express.json())

  app.get('/pricing', (request, response) => {
    const { originalUrl: url, path } = request
    analytics.page({
      anonymousId: visitorOf(request),
      category: 'Docs',
      name: 'Pricing',
      properties: { url, path },
      context: { ip: request.ip, userAgent: request.get('user-agent') },
    })
    response.send('<h1>Pricing</h1>')
  })

  app.post('/users', (request: Request<object, unknown, NewUser>, response) => {
    const { id: userId, email, plan } = request.body
    const anonymousId = visitorOf(request)
    analytics.identify({ userId, anonymousId, traits: { email, plan } })
    analytics.track({ userId, anonymousId, event: 'Signed Up', properties: { plan } })
    response.status(201).json({ userId })
  })

  app.post('/orders', (request: Request<object, unknown, NewOrder>, response) => {
    const { userId, total } = request.body
    analytics.track({ userId, event: 'Order Completed', properties: { total, currency: 'EUR' } })
    response.status(201).json({ total })
  })

  app.put('/teams/:groupId/members/:userId', (request, response) => {
    const { groupId, userId } = request.params
    analytics.group({ userId, groupId, traits: { plan: 'team' } })
    response.status(204).end()
  })

  return app
}

interface NewUser {
  id: string
  email: string
  plan: string
}

interface NewOrder {
  userId: string
  total: number
}

function visitorOf(request: Pick<Request, 'get'>): string {
  return request.get('x-visitor') ?? 'unknown'
}
