// Starts a PostgreSQL with a million messages that wait for their retry, and measures workers and bare `pg` on it.
import { tsImport } from 'tsx/esm/api'
import { destination, library } from './libraries.js'
import { toDelivery } from './store.js'

const pg = library('pg')
const dist = new URL('dist/', destination)
const load = (file, from = dist) => import(new URL(`store/${file}`, from).href)

/** The messages of one put. Several puts are under way, so that the server is never idle. */
const ROUND = 500
const ROUNDS_AT_ONCE = 4

/** The most messages that a worker claims at once. */
const CLAIM = 256

/** The settings of a production server, except for the size. The module counts the calls of each statement. */
const SETTINGS = {
  shared_buffers: '512MB',
  max_wal_size: '4GB',
  shared_preload_libraries: 'pg_stat_statements',
}

/** @returns a database to measure in */
export async function startPostgres() {
  const given = process.env.BENCH_POSTGRES_URL
  if (given) return { url: given, dispose: async () => undefined }
  const file = new URL('../../destination/test/store/postgres/server.ts', import.meta.url).href
  const { startServer } = await tsImport(file, import.meta.url)
  const server = await startServer(SETTINGS)
  return { url: await server.database(), dispose: () => server.dispose() }
}

async function openStore(url, from) {
  const { openStore } = await load('open.js', from)
  return openStore(url)
}

export async function run(url, text, values) {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query(text, values)).rows
  } finally {
    await client.end()
  }
}

/**
 * Adds messages that were tried once and wait for 25 minutes or more. The server generates them itself, which is faster. They do
 * not wait for hours: the store takes that for a fault of the clock, and makes them due.
 *
 * @param from - The URL of the compiled destination that makes the tables.
 */
export async function fillDelayed(url, count, from) {
  const store = await openStore(url, from)
  const { body } = toDelivery('other', 0, 'fresh')
  await store.put([{ ...toDelivery('crm', 0, 'skipped'), reason: 'its names are known' }])
  await store.close()
  await run(
    url,
    `WITH added AS (
       INSERT INTO hookline.deliveries (id, received_at, source, destination, type, message_id, user_id, event,
         body)
       SELECT nextval('hookline.ids'), 1e3 * extract(epoch FROM now()), source, destination, type,
         gen_random_uuid()::text, 'user' || n % 50000, '', $1
       FROM (SELECT * FROM hookline.deliveries LIMIT 1) one, generate_series(1, $2::int) n
       RETURNING id, received_at, destination
     )
     INSERT INTO hookline.waiting (id, due_at, first_attempt_at, attempt_at, destination, attempt, state, leased)
     SELECT id, received_at + 1500000 + id % 200000, received_at, received_at, destination, 1, 1, false FROM added`,
    [body, count],
  )
  await run(url, 'VACUUM ANALYZE hookline.waiting, hookline.deliveries')
  await run(url, 'CHECKPOINT')
}

/** Makes all delayed messages due now. */
export async function makeReady(url) {
  await run(
    url,
    `UPDATE hookline.waiting SET state = 0, due_at = due_at - 86400000 WHERE due_at > 1e3 * extract(epoch FROM now())`,
  )
  await run(url, 'VACUUM ANALYZE hookline.waiting')
  await run(url, 'CHECKPOINT')
}

/** Puts fresh messages for a destination, as collectors do. */
export async function putFresh(url, count) {
  const store = await openStore(url)
  let seq = 0
  const lane = async () => {
    while (seq < count) {
      const from = seq
      seq = Math.min(count, seq + ROUND)
      await store.put(
        Array.from({ length: seq - from }, (_, i) => toDelivery('crm', from + i, 'fresh')),
      )
    }
  }
  await Promise.all(Array.from({ length: ROUNDS_AT_ONCE }, lane))
  await store.close()
}

/**
 * Counts the messages of claims and of settlements from now on.
 *
 * @returns {Promise<() => Promise<{ perClaim?: number, perSettle?: number }>>} neither is given if the server has no
 *   `pg_stat_statements`
 */
export async function countRounds(url) {
  try {
    await run(url, 'CREATE EXTENSION IF NOT EXISTS pg_stat_statements')
    await run(url, 'SELECT pg_stat_statements_reset()')
  } catch {
    return async () => ({})
  }
  const perCall = (part) =>
    `(SELECT sum(rows)::float8 / sum(calls) FROM pg_stat_statements WHERE query LIKE '%${part}%')`
  return async () => {
    const [counts] = await run(
      url,
      `SELECT ${perCall('WITH claims AS')} AS "perClaim", ${perCall('SELECT id FROM done')} AS "perSettle"`,
    )
    return counts
  }
}

/** Only claims and settles fresh messages, with the statements of the store: no names, no HTTP, no log. */
export async function drainBare(url) {
  const [{ claimStatement, contentStatement }, { arrivedStatement }] = await Promise.all([
    load('postgres/claim.js'),
    load('postgres/settle.js'),
  ])
  const clients = [new pg.Client(url), new pg.Client(url)]
  await Promise.all(clients.map((client) => client.connect()))
  const [claims, settles] = clients
  const names = '["crm"]'
  const claim = JSON.stringify([{ name: 'crm', state: 0, count: CLAIM, start: 0, n: 1 }])
  const prepared = (client, name, text, values) => client.query({ name, text, values })
  let settling = Promise.resolve()
  let count = 0
  const begin = performance.now()
  for (;;) {
    const { rows } = await prepared(claims, 'claim', claimStatement('hookline'), [null, claim])
    if (rows.length === 0) break
    const arrays = [
      rows.map(({ id }) => id),
      rows.map(({ attempt }) => attempt),
      ...[1, 1, 200, 1].map((same) => rows.map(() => same)),
    ].map((numbers) => `{${numbers.join()}}`)
    await prepared(claims, 'content', contentStatement('hookline'), arrays.slice(0, 1))
    count += rows.length
    const values = [null, names, ...arrays, rows.map(() => '')]
    settling = settling.then(() =>
      prepared(settles, 'settle', arrivedStatement('hookline'), values),
    )
  }
  await settling
  const seconds = (performance.now() - begin) / 1000
  await Promise.all(clients.map((client) => client.end()))
  return count / seconds
}

/** Connects, and warms up the hot functions. */
const WARM_UP_CLAIMS = 10

/** How long claims take, in ms, each of what was due the longest. */
export async function measureClaims(url, count) {
  const store = await openStore(url)
  const times = []
  for (let n = 0; n < WARM_UP_CLAIMS + count; n += 1) {
    const begin = performance.now()
    const claimed = await store.claim([{ destination: 'crm', lane: 'fresh', limit: CLAIM }])
    times.push(performance.now() - begin)
    if (claimed.length < CLAIM) throw new Error(`a claim got ${claimed.length} of ${CLAIM}`)
    void store.settle(
      claimed.map(({ id, attempt }) => ({
        id,
        attempt,
        next: { state: 'done' },
        refusedBy: [],
        log: [],
      })),
    )
  }
  await store.close()
  return times.slice(WARM_UP_CLAIMS)
}
