// Opens the store of a destination from outside: to fill it before a run, and to count its messages afterwards.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, open as openFile } from 'node:fs/promises'
import { buildEvent } from '../event.js'
import { destination } from './libraries.js'

/** The messages of one round. Several rounds are under way, so that the store is never idle. */
const ROUND = 1_000
const ROUNDS_AT_ONCE = 4

async function open(path, options) {
  const { openStore } = await import(new URL('dist/store/open.js', destination).href)
  return openStore(`sqlite:${path}`, options)
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

const FAILURE = { code: 'server_error', status: 503, error: 'answered 503', response: '' }
const SUCCESS = { code: 'delivered', status: 200, error: null, response: '' }

const NEXT = {
  backlog: ({ delayMs }) => ({ state: 'backlog', delayMs }),
  done: () => ({ state: 'done' }),
  dead: () => ({ state: 'dead', reason: 'refused' }),
}

/** The settlement of the first attempt. */
const toSettlement = (id, { url, state = 'backlog', delayMs }) => ({
  id,
  attempt: 1,
  next: NEXT[state]({ delayMs }),
  refusedBy: [],
  log: [{ url, ms: 12, ...(state === 'done' ? SUCCESS : FAILURE) }],
})

/**
 * Makes a store with messages for one destination: they wait for their retry, or they are `done` or `dead`. If `delayMs` and
 * `state` are undefined, they are in the backlog because the destination was down, and all of them are due. They arrived `ageMs` ago.
 */
export async function fillStore(path, { name, url, count, delayMs, state, ageMs = 0 }) {
  const isSettled = delayMs !== undefined || state !== undefined
  const store = await open(path, { now: () => Date.now() - ageMs })
  let seq = 0
  const lane = async () => {
    while (seq < count) {
      const from = seq
      seq = Math.min(count, seq + ROUND)
      const deliveries = Array.from({ length: seq - from }, (_, i) =>
        toDelivery(name, from + i, isSettled ? 'leased' : 'backlog'),
      )
      const ids = await store.put(deliveries)
      if (isSettled) await store.settle(ids.map((id) => toSettlement(id, { url, state, delayMs })))
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

/** Copies a file, and writes out the kernel's cache, because the kernel would otherwise write it during the measurement. */
export async function copySynced(from, to) {
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  const file = await openFile(to, 'r+')
  await file.sync()
  await file.close()
}
