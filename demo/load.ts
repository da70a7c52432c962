import autocannon, { type Request } from 'autocannon'
import type { EndpointState } from './collector.js'

const REQUESTS_PER_SECOND = 500

/** The outage takes seconds 2 to 6: this leaves load for before and after. */
const SECONDS = 10

export const REQUESTS = REQUESTS_PER_SECOND * SECONDS

/** What the application's users saw. */
export interface LoadBooks {
  answered: number
  /** Answered with an error, or not at all. */
  failed: number
  /** The application's latencies in each stretch of the endpoint's state, in milliseconds. */
  readonly stretches: { readonly state: EndpointState; readonly latenciesMs: number[] }[]
}

/** Sends the application's users at a steady rate, and fills the books as it goes. */
export function runLoad(
  url: string,
  endpointState: () => EndpointState,
  books: LoadBooks,
): Promise<void> {
  const options = {
    url,
    connections: 10,
    overallRate: REQUESTS_PER_SECOND,
    amount: REQUESTS,
    requests: VISIT,
    headers: { 'content-type': 'application/json' },
  }
  return new Promise((resolve, reject) => {
    const load = autocannon(options, (error: Error | null, result) => {
      if (error) {
        reject(error)
        return
      }
      books.failed += result.errors
      resolve()
    })
    load.on('response', (_client, status, _bytes, latencyMs) => {
      books.answered++
      if (status >= 400) books.failed++
      const state = endpointState()
      if (books.stretches.at(-1)?.state !== state) books.stretches.push({ state, latenciesMs: [] })
      books.stretches.at(-1)?.latenciesMs.push(latencyMs)
    })
  })
}

let visitors = 0

/** What one user does: looks at the prices, signs up, orders, joins a team. */
const VISIT: Request[] = [
  step('GET', () => ({ path: '/pricing' })),
  step('POST', (id) => ({ path: '/users', body: { id, email: `${id}@example.com`, plan: 'pro' } })),
  step('POST', (userId) => ({ path: '/orders', body: { userId, total: 42 } })),
  step('PUT', (id) => ({ path: `/teams/team-${id.slice(-2)}/members/${id}` })),
]

function step(
  method: 'GET' | 'POST' | 'PUT',
  ask: (userId: string) => { path: string; body?: object },
): Request {
  return {
    method,
    // autocannon keeps one context a connection, and empties it when the steps start over.
    setupRequest: (request, context: { userId?: string }) => {
      const userId = (context.userId ??= `user-${String(++visitors).padStart(4, '0')}`)
      const { path, body } = ask(userId)
      const headers = { ...request.headers, 'x-visitor': `visitor of ${userId}` }
      return { ...request, path, headers, ...(body && { body: JSON.stringify(body) }) }
    },
  }
}
