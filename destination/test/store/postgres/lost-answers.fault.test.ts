// The store has written something, but its answer was lost. Each result of an attempt is told once, and none that the store does not
// have. The charts count no request twice.
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { Settler } from '../../../src/deliver/settler.js'
import type { Outcome } from '../../../src/model/outcome.js'
import type { AttemptLog, DeliveryId, Settlement } from '../../../src/model/delivery.js'
import { Tally } from '../../../src/observe/tally.js'
import { openStore } from '../../../src/store/open.js'
import { EXPIRED } from '../../../src/store/states.js'
import type { Store } from '../../../src/store/store.js'
import { rounds } from '../../rounds.js'
import { dice } from '../../simulation/chance.js'
import { newDelivery, settlement } from '../contract.js'
import { startProxy } from './proxy.js'
import { startServer } from './server.js'

// fsync is off, which is faster: no test here simulates a power cut.
const server = await startServer({ fsync: 'off' })

afterAll(() => server.dispose())

/** The driver gives up a statement 2 s after this. */
const HURRIED = '?statement_timeout=700'

/** In ms: until then, the driver has given up a commit, and what followed has met its locks. */
const GIVEN_UP_MS = 5_000

const delivered: AttemptLog = {
  ...{ url: 'https://a.example.com/', code: 'delivered', status: 200, ms: 1, error: null },
  response: '',
}
const refused: AttemptLog = { ...delivered, code: 'client_error', status: 400, error: 'no' }

/** Results of all kinds, each of which the store writes by another statement or to another table. */
const KINDS: ((id: DeliveryId) => Settlement)[] = [
  (id) => settlement({ id, attempt: 1 }, { state: 'done' }, { log: [delivered] }),
  (id) => settlement({ id, attempt: 1 }, { state: 'done' }, { log: [refused, delivered] }),
  (id) => settlement({ id, attempt: 1 }, { state: 'dead', reason: 'no' }, { log: [refused] }),
  (id) =>
    settlement({ id, attempt: 1 }, { state: 'backlog', delayMs: 300_000 }, { log: [refused] }),
]

/** Puts leased deliveries and returns the result of each. */
async function resultsOf(store: Store, count: number): Promise<Settlement[]> {
  const deliveries = Array.from({ length: count }, (_, n) =>
    newDelivery({ source: `source${n}`, state: 'leased' }),
  )
  const ids = await store.put(deliveries)
  return ids.flatMap((id, n) => (id === undefined ? [] : (KINDS[n % KINDS.length]?.(id) ?? [])))
}

/** Opens a store and settles by it as a process does. `told` has the ids of all results that were told. */
async function settling(...[places]: Parameters<typeof openStore>) {
  const store = await openStore(places)
  const told: DeliveryId[] = []
  let refusals = 0
  const ignore = () => undefined
  const settler = new Settler(store, {
    messagesEnded: ignore,
    settleFailed: ignore,
    settleRecovered: ignore,
    settlementsRefused: (count) => {
      refusals += count
    },
  })
  store.onSettled((taken) => told.push(...taken.map(({ id }) => id)))
  // The names are known after the first results, so that the others need no statement but their own.
  const before = await resultsOf(store, 4)
  for (const one of before) settler.add(one)
  await settler.drain()
  await expect.poll(() => told).toHaveLength(before.length)
  return { store, settler, told, before, refusals: () => refusals }
}

/** Makes commits hang until `release` is called, as they do while a synchronous standby is away. */
async function hangCommits(): Promise<{
  release: () => Promise<void>
  hanging: () => Promise<number>
}> {
  const setStandby = async (name: string) => {
    await server.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
    await server.query('SELECT pg_reload_conf()')
  }
  const hangingOf = async (name: string) => {
    const text = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = $1`
    return (await server.query(text, [name])).length
  }
  await setStandby('none')
  // Until the server has read its settings again, it waits for nobody.
  const trying = new pg.Client({ connectionString: server.url(), application_name: 'trying' })
  await trying.connect()
  let commit = Promise.resolve<unknown>(undefined)
  while ((await hangingOf('trying')) === 0) {
    const text = `SELECT pg_logical_emit_message(true, 'test', 'a commit')`
    commit = trying.query(text)
    await Promise.race([commit, setTimeout(200)])
  }
  return {
    hanging: () => hangingOf('hookline-destination'),
    release: async () => {
      await setStandby('')
      await commit
      await trying.end()
      await expect.poll(() => hangingOf('hookline-destination')).toBe(0)
    },
  }
}

/** Whether a client runs a prepared statement, as those that settle are. */
const isPrepared = (data: Buffer) => /hookline_[0-9a-f]{32}/.test(data.toString('latin1'))

const sorted = (ids: DeliveryId[]) => ids.toSorted((a, b) => a - b)
const idsOf = (settlements: Settlement[]) => sorted(settlements.map(({ id }) => id))

/** The ids of what is not leased any more. */
async function settledIn(urls: readonly string[]): Promise<DeliveryId[]> {
  const text = `SELECT id::float8 FROM hookline.done
    UNION ALL SELECT id::float8 FROM hookline.waiting WHERE NOT leased`
  const rows = await Promise.all(
    urls.map((url) => server.query<{ id: DeliveryId }>(text, undefined, url)),
  )
  return sorted(rows.flat().map(({ id }) => id))
}

test.each([
  ['one server', 1],
  ['each of two servers', 2],
])(
  'commits that were given up, and succeed while they are repeated: on %s',
  async (_, count) => {
    const urls = [await server.database(), await server.database()].slice(0, count)
    const [only = '', ...others] = urls
    const places = urls.map((url, n) => ({ name: `s${n}`, url: url + HURRIED }))
    const opened = await settling(others.length > 0 ? places : only + HURRIED)
    const { store, settler, told, before, refusals } = opened
    const results = [...before, ...(await resultsOf(store, 80))]
    const { release, hanging } = await hangCommits()
    for (const one of results.slice(before.length)) settler.add(one)
    await expect.poll(hanging).toBeGreaterThan(0)
    await setTimeout(GIVEN_UP_MS)
    expect(told).toHaveLength(before.length)
    await release()
    await expect.poll(() => sorted(told)).toEqual(idsOf(results))
    await settler.drain()
    await store.close()
    expect(sorted(told)).toEqual(idsOf(results))
    expect(await settledIn(urls)).toEqual(idsOf(results))
    expect(refusals()).toBe(0)
  },
  120_000,
)

test('commits that were given up, and have succeeded when the store closes', async () => {
  const url = await server.database()
  const { store, settler, told, before, refusals } = await settling(url + HURRIED)
  const results = [...before, ...(await resultsOf(store, 80))]
  const { release, hanging } = await hangCommits()
  for (const one of results.slice(before.length)) settler.add(one)
  await expect.poll(hanging).toBeGreaterThan(0)
  // All of them wait for the rows to be free.
  await settler.drain()
  expect(told).toHaveLength(before.length)
  await release()
  await store.close()
  expect(sorted(told)).toEqual(idsOf(results))
  expect(await settledIn([url])).toEqual(idsOf(results))
  expect(refusals()).toBe(0)
})

test('results whose rows were locked, and are written once these are free', async () => {
  const url = await server.database()
  let isWatching = false
  await using proxy = await startProxy(server.port, undefined, (data) => {
    // The server looks for locked rows first. The results follow as a prepared statement.
    if (isWatching && isPrepared(data)) proxy.stopReading()
  })
  const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
  const { store, settler, told, before } = await settling(through + HURRIED)
  const results = [...before, ...(await resultsOf(store, 40))]
  const locker = new pg.Client(url)
  await locker.connect()
  await locker.query('BEGIN; SELECT FROM hookline.waiting WHERE leased FOR UPDATE')
  for (const one of results.slice(before.length)) settler.add(one)
  await settler.drain()
  expect(told).toHaveLength(before.length)
  isWatching = true
  await locker.query('ROLLBACK')
  await locker.end()
  const leased = () => server.query('SELECT FROM hookline.waiting WHERE leased', undefined, url)
  await expect.poll(leased).toEqual([])
  expect(told).toHaveLength(before.length)
  isWatching = false
  proxy.leadTo(server.port)
  await expect.poll(() => sorted(told)).toEqual(idsOf(results))
  await store.close()
  expect(sorted(told)).toEqual(idsOf(results))
})

test('results of which one of two servers has not told anything yet when the store closes', async () => {
  const urls = [await server.database(), await server.database()]
  let isWatching = false
  await using proxy = await startProxy(server.port, undefined, (data) => {
    if (isWatching && isPrepared(data)) proxy.stopReading()
  })
  const places = urls.map((url, n) => ({
    name: `s${n}`,
    url: n === 0 ? url : url.replace(`:${server.port}/`, `:${proxy.port}/`),
  }))
  const { store, settler, told, before } = await settling(places)
  const results = [...before, ...(await resultsOf(store, 40))]
  isWatching = true
  for (const one of results.slice(before.length)) settler.add(one)
  await settler.drain()
  await expect.poll(() => settledIn(urls)).toEqual(idsOf(results))
  const closing = store.close()
  expect(told.length).toBeLessThan(results.length)
  isWatching = false
  proxy.leadTo(server.port)
  await closing
  expect(sorted(told)).toEqual(idsOf(results))
})

test('a commit that was given up fails, and a sweep makes dead letters of the messages: the worker counts none', async () => {
  const url = await server.database()
  await using proxy = await startProxy(server.port)
  const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
  const { store, told, before } = await settling(through + HURRIED)
  const results = (await resultsOf(store, 40)).filter(({ next }) => next.state === 'dead')
  proxy.silence()
  await expect(store.settle(results)).rejects.toMatchObject({ isUnreachable: true })
  proxy.fix()
  await server.query(
    `UPDATE hookline.waiting SET due_at = 1, lease_until = 2, first_attempt_at = 1 WHERE leased;
     UPDATE hookline.deliveries SET received_at = 1`,
    undefined,
    url,
  )
  const other = await openStore(url)
  let expired = 0
  await other.sweep(3_600_000, 1_000, (_, count) => {
    expired += count
  })
  await other.close()
  expect(expired).toBeGreaterThanOrEqual(results.length)
  expect(await store.settle(results)).toBe(results.length)
  await store.close()
  expect(told).toHaveLength(before.length)
})

test('a retry that is claimed again before the store has found out that it has the result', async () => {
  const url = await server.database()
  await using proxy = await startProxy(server.port)
  const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
  const { store, told, before } = await settling(through + HURRIED)
  const [id = 0] = await store.put([newDelivery({ state: 'leased' })])
  const retry = { state: 'backlog', delayMs: 100 } as const
  const result = settlement({ id, attempt: 1 }, retry, { log: [refused] })
  proxy.stopReading()
  await expect(store.settle([result])).rejects.toMatchObject({ isUnreachable: true })
  proxy.leadTo(server.port)
  const other = await openStore(url)
  expect(await other.claim([{ destination: 'crm', lane: 'backlog', limit: 1 }])).toMatchObject([
    { id, attempt: 2 },
  ])
  expect(await store.settle([result])).toBe(0)
  expect(told).toEqual([...idsOf(before), id])
  await Promise.all([store.close(), other.close()])
})

test('a result that is refused once its row is free is counted with the next answer', async () => {
  const url = await server.database()
  const { store, told } = await settling(url + HURRIED)
  const settleOne = async () => {
    const [id = 0] = await store.put([newDelivery({ state: 'leased' })])
    return store.settle([settlement({ id, attempt: 1 })])
  }
  const [id = 0] = await store.put([newDelivery({ state: 'leased' })])
  const locker = new pg.Client(url)
  await locker.connect()
  await locker.query('BEGIN')
  await locker.query('SELECT FROM hookline.waiting WHERE id = $1 FOR UPDATE', [id])
  expect(await store.settle([settlement({ id, attempt: 1 })])).toBe(0)
  expect(await settleOne()).toBe(0)
  // As a claim of another worker does.
  await locker.query('UPDATE hookline.waiting SET attempt = 2 WHERE id = $1', [id])
  await locker.query('COMMIT')
  await locker.end()
  await expect.poll(settleOne).toBe(1)
  expect(await settleOne()).toBe(0)
  await store.close()
  expect(told).not.toContain(id)
})

describe('a sweep that makes dead letters', () => {
  const RETENTION_MS = 3_600_000

  /** A store with 50 messages that are too old. `told` says how many dead letters its sweeps have told of. */
  async function sweeping(url: string, through = url) {
    const store = await openStore(through + HURRIED)
    await store.put(Array.from({ length: 50 }, () => newDelivery()))
    await server.query('UPDATE hookline.deliveries SET received_at = 1', undefined, url)
    let told = 0
    const sweep = () =>
      store.sweep(RETENTION_MS, 1_000, (_, count) => {
        told += count
      })
    return { store, sweep, told: () => told }
  }

  const isBurying = (data: Buffer) => data.toString('latin1').includes(`reason = '${EXPIRED}',`)

  test('tells of them later, once, if the answer was lost', async () => {
    const url = await server.database()
    await using proxy = await startProxy(server.port, undefined, (data) => {
      if (isBurying(data)) proxy.stopReading()
    })
    const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const { store, sweep, told } = await sweeping(url, through)
    await expect(sweep()).rejects.toMatchObject({ isUnsure: true })
    expect(told()).toBe(0)
    proxy.leadTo(server.port)
    await sweep()
    expect(told()).toBe(50)
    await sweep()
    expect(told()).toBe(50)
    await store.close()
  })

  test('tells of them once the commit that was given up has succeeded', async () => {
    const url = await server.database()
    const { store, sweep, told } = await sweeping(url)
    const { release, hanging } = await hangCommits()
    await expect(sweep()).rejects.toMatchObject({ isUnsure: true })
    expect(await hanging()).toBe(1)
    await sweep()
    expect(told()).toBe(0)
    await release()
    await sweep()
    expect(told()).toBe(50)
    await store.close()
  })

  test('does not tell of those that another process has made dead letters', async () => {
    const url = await server.database()
    await using proxy = await startProxy(server.port, undefined, (data) => {
      if (isBurying(data)) proxy.silence()
    })
    const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const { store, sweep, told } = await sweeping(url, through)
    await expect(sweep()).rejects.toMatchObject({ isUnsure: true })
    proxy.fix()
    const other = await openStore(url)
    expect(await other.sweep(RETENTION_MS, 1_000)).toBe(50)
    await other.close()
    await sweep()
    expect(told()).toBe(0)
    await store.close()
  })
})

test.each(Array.from({ length: rounds(2) }, (_, seed) => seed + 1))(
  'connections that are cut at random, and rows that are locked at random (seed %i)',
  async (seed) => {
    const { between, chance } = dice(seed)
    const url = await server.database()
    await using proxy = await startProxy(server.port)
    const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const { store, settler, told, before, refusals } = await settling(through + HURRIED)
    const locker = new pg.Client(url)
    await locker.connect()
    const results = [...before]
    for (let round = 0; round < 40; round++) {
      // A put whose answer was lost is of no interest here.
      const some = await resultsOf(store, between(1, 40)).catch(() => [])
      results.push(...some)
      if (chance(0.3)) {
        const [from, to] = [between(0, 30), between(0, 30)]
        await locker.query(
          `BEGIN; SELECT FROM hookline.waiting WHERE id % 31 BETWEEN ${from} AND ${to} FOR UPDATE`,
        )
      }
      for (const one of some) settler.add(one)
      await setTimeout(between(0, 30))
      if (chance(0.2)) proxy.stopReading()
      if (chance(0.5)) proxy.leadTo(server.port)
      await setTimeout(between(0, chance(0.1) ? 1_500 : 30))
      await locker.query('ROLLBACK')
    }
    proxy.leadTo(server.port)
    await locker.end()
    await settler.drain()
    await expect.poll(() => sorted(told)).toEqual(idsOf(results))
    await store.close()
    expect(sorted(told)).toEqual(idsOf(results))
    expect(await settledIn([url])).toEqual(idsOf(results))
    expect(refusals()).toBe(0)
  },
  120_000,
)

describe('the charts', () => {
  /** Saves one request to have the row, and returns what counts and saves another one. */
  async function charts(url: string) {
    const store = await openStore(url)
    const tally = new Tally(store, () => [])
    const count = () => {
      const outcome = { code: 'delivered', ms: 1 } as Outcome
      tally.attempted({ destination: 'crm' }, [{ url: 'https://a.example.com/', outcome }])
      return tally.save()
    }
    await count()
    return { store, tally, count }
  }

  const deliveredIn = (url: string) =>
    server.query<{ sum: number }>(
      'SELECT sum(delivered)::int FROM hookline.history WHERE at > 0 GROUP BY bucket_ms',
      undefined,
      url,
    )

  test('count a request once although another session has locked a row that is too old', async () => {
    const url = await server.database()
    const { store, tally, count } = await charts(url + HURRIED)
    await server.query(
      `INSERT INTO hookline.history SELECT (h).* FROM (
         SELECT jsonb_populate_record(h, '{"at": 0}') AS h FROM hookline.history h
       ) old`,
      undefined,
      url,
    )
    const locker = new pg.Client(url)
    await locker.connect()
    await locker.query('BEGIN; SELECT FROM hookline.history WHERE at = 0 FOR UPDATE')
    await count()
    await tally.save()
    await locker.query('ROLLBACK')
    await locker.end()
    await tally.stop()
    await store.close()
    expect(await deliveredIn(url)).toEqual([{ sum: 2 }, { sum: 2 }, { sum: 2 }])
  })

  test('count no request twice if the answer to it is lost', async () => {
    const url = await server.database()
    let isWatching = false
    await using proxy = await startProxy(server.port, undefined, (data) => {
      if (isWatching && data.includes('hookline_')) proxy.stopReading()
    })
    const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const { store, tally, count } = await charts(through + HURRIED)
    isWatching = true
    await count()
    isWatching = false
    proxy.leadTo(server.port)
    await tally.stop()
    await store.close()
    expect(await deliveredIn(url)).toEqual([{ sum: 2 }, { sum: 2 }, { sum: 2 }])
  })

  test('count later what happened while the server could not be reached', async () => {
    const url = await server.database()
    const { store, tally, count } = await charts(url + HURRIED)
    await server.stop('fast')
    await count()
    await server.start()
    await tally.stop()
    await store.close()
    expect(await deliveredIn(url)).toEqual([{ sum: 2 }, { sum: 2 }, { sum: 2 }])
  })
})
