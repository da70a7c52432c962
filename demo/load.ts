import autocannon, { type Request } from 'autocannon'
import type { Timing } from './stretches.js'

const REQUESTS_PER_SECOND = 500

/** The outages take about 9 seconds. The load has to go on after them. */
const SECONDS = 12

export const REQUESTS = REQUESTS_PER_SECOND * SECONDS

/** The requests of the application's users. */
export interface LoadBooks {
  readonly answered: Timing[]
  /** How many requests got an error, or no answer. */
  failed: number
}

/** Sends requests of many users at a steady rate, and counts their results in the books. */
export function runLoad(url: string, books: LoadBooks): Promise<void> {
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
    load.on('response', (_client, status, _bytes, tookMs) => {
      if (status >= 400) books.failed++
      books.answered.push({ atMs: Date.now() - tookMs, tookMs })
    })
  })
}

let visitors = 0

/** The requests of one user, who looks at the prices, signs up, orders, and joins a team. */
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
    // autocannon keeps one context for each connection, and empties it before the first step.
    setupRequest: (request, context: { userId?: string }) => {
      const userId = (context.userId ??= `user-${String(++visitors).padStart(4, '0')}`)
      const { path, body } = ask(userId)
      const headers = { ...request.headers, 'x-visitor': `visitor of ${userId}` }
      return { ...request, path, headers, ...(body && { body: JSON.stringify(body) }) }
    },
  }
}
