// Opens the store of a destination from outside: to fill it before a run, and to count its messages afterwards.
import { randomUUID } from 'node:crypto'
import { buildEvent } from '../event.js'
import { destination } from './libraries.js'

/** The messages of one round. Several rounds are under way, so that the store is never idle. */
const ROUND = 1_000
const ROUNDS_AT_ONCE = 4

async function open(path) {
  const { openStore } = await import(new URL('dist/store/open.js', destination).href)
  return openStore(`sqlite:${path}`)
}

export const toDelivery = (name, seq, state) => {
  const { userId, event, properties } = buildEvent(seq)
  const timestamp = new Date().toISOString()
  const context = { library: { name: 'hookline', version: '0.1.0' } }
  return {
    messageId: randomUUID(),
    source: 'elsewhere',
    destination: name,
    type: 'track',
    user: userId,
    body: JSON.stringify({
      version: 1,
      type: 'track',
      userId,
      event,
      properties,
      timestamp,
      context,
    }),
    state,
  }
}

/** A settlement as after an answer 503. */
const toFailure = (id, url, delayMs) => ({
  id,
  attempt: 1,
  next: { state: 'backlog', delayMs },
  refusedBy: [],
  log: [{ url, code: 'server_error', status: 503, ms: 12, error: 'answered 503', response: '' }],
})

/**
 * Makes a store with messages for one destination, which wait for their retry. If `delayMs` is undefined, they are in the
 * backlog because the destination was down, and all of them are due.
 */
export async function fillStore(path, { name, url, count, delayMs }) {
  const store = await open(path)
  let seq = 0
  const lane = async () => {
    while (seq < count) {
      const from = seq
      seq = Math.min(count, seq + ROUND)
      const state = delayMs === undefined ? 'backlog' : 'leased'
      const deliveries = Array.from({ length: seq - from }, (_, i) =>
        toDelivery(name, from + i, state),
      )
      const ids = await store.put(deliveries)
      if (delayMs !== undefined) await store.settle(ids.map((id) => toFailure(id, url, delayMs)))
    }
  }
  await Promise.all(Array.from({ length: ROUNDS_AT_ONCE }, lane))
  await store.close()
}

/** How many messages a store has that are not delivered. */
export async function countUndelivered(path) {
  const store = await open(path)
  const stats = await store.stats()
  await store.close()
  return stats.reduce(
    (sum, { fresh, backlog, leased, dead }) => sum + fresh + backlog + leased + dead,
    0,
  )
}
