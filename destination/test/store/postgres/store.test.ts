// @module-tag long
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { claimStatement, prepareClaim } from '../../../src/store/postgres/claim.js'
import { ServerClock } from '../../../src/store/postgres/clock.js'
import { Names } from '../../../src/store/postgres/names.js'
import { preparePut } from '../../../src/store/postgres/put.js'
import {
  arrivedStatement,
  prepareSettle,
  settleStatement,
} from '../../../src/store/postgres/settle.js'
import { prepareSweep } from '../../../src/store/postgres/sweep.js'
import type { Tables } from '../../../src/store/postgres/tables.js'
import { Connection, type RunQuery } from '../../../src/store/postgres/connection.js'
import { migrate, MIGRATIONS } from '../../../src/store/postgres/schema.js'
import { parseUrl } from '../../../src/store/postgres/url.js'
import type { StoreError } from '../../../src/store/store-error.js'
import { openStore, type OpenOptions } from '../../../src/store/open.js'
import type { AttemptLog, Delivery, Lane, Settlement } from '../../../src/model/delivery.js'
import { LANES } from '../../../src/store/states.js'
import { LEASE_MS, RETRIED_MS, type Store } from '../../../src/store/store.js'
import { WORKER_TIMEOUT_MS, type Workers } from '../../../src/store/workers.js'
import { rounds } from '../../rounds.js'
import { dice } from '../../simulation/chance.js'
import { newDelivery, settlement } from '../contract.js'
import { refusal, startProxy } from './proxy.js'
import { startServer, unhurried } from './server.js'
import { openStores, storeError } from './stores.js'

// fsync is off, which is faster: no test here simulates a power cut. Deadlocks are found before a time limit ends them.
const server = await startServer({ fsync: 'off', deadlock_timeout: '1ms' })

// Its databases have 15,000 files. A busy disk takes long to delete them.
afterAll(() => server.dispose(), 120_000)

const stores = (count: number, options?: OpenOptions) => openStores(server, count, options)

const ATTEMPT: AttemptLog = {
  url: 'https://a.example.com/',
  code: 'delivered',
  status: 200,
  ms: 1,
  error: null,
  response: '',
}

/** Tries again if the server was not reached: a machine that is busy may need longer than 3 s to open a connection. */
function patient<T extends object>(target: T): T {
  const retried = (act: (...given: unknown[]) => unknown) => {
    return async function again(...given: unknown[]): Promise<unknown> {
      try {
        return await act.apply(target, given)
      } catch (error) {
        const { isUnreachable, isUnsure } = error as StoreError
        if (!isUnreachable || isUnsure) throw error
        return again(...given)
      }
    }
  }
  return new Proxy(target, {
    get: (_, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value === 'function') return retried(value as () => unknown)
      return name === 'workers' ? patient(value as object) : value
    },
  })
}

describe('migrations', () => {
  test('ten that start at once on an empty database make the tables once', async () => {
    const url = await server.database()
    const ten = await Promise.all(Array.from({ length: 10 }, () => openStore(url)))
    await ten[0]?.put([newDelivery({ messageId: 'm' })])
    expect(await ten[9]?.trace('m')).toHaveLength(1)
    expect(await server.query('SELECT version FROM hookline.version', [], url)).toHaveLength(1)
    await Promise.all(ten.map((store) => store.close()))
  })

  test.each(['repeatable read', 'serializable'])(
    'several that start at once, and use the store at once, are not disturbed by the default isolation %s',
    async (isolation) => {
      const urls = [await server.database(), await server.database(), await server.database()]
      for (const url of urls) {
        const { database } = parseUrl(url)
        const text = `ALTER DATABASE ${database} SET default_transaction_isolation = '${isolation}'`
        await server.query(text)
      }
      const [alone = '', ...list] = urls
      const places = list.map((url, n) => ({ name: `s${n}`, url: unhurried(url) }))
      for (const place of [unhurried(alone), places]) {
        const five = await Promise.all(Array.from({ length: 5 }, () => openStore(place)))
        await server.query(
          `CREATE FUNCTION check_isolation() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF current_setting('transaction_isolation') <> 'read committed' THEN RAISE 'not isolated as it should be'; END IF;
             RETURN NEW;
           END $$;
           CREATE TRIGGER check_isolation BEFORE INSERT ON hookline.deliveries FOR EACH ROW EXECUTE FUNCTION check_isolation()`,
          undefined,
          place === places ? list[0] : alone,
        )
        const given = Array.from({ length: 40 }, (_, n) =>
          newDelivery({ source: `source${n}`, messageId: `m${n}` }),
        )
        const put = await Promise.all(five.map((store) => store.put(given)))
        expect(put.flat().filter((id) => id !== undefined)).toHaveLength(40)
        await Promise.all(five.map((store) => store.close()))
      }
    },
  )

  test('one in between that takes no settings does not pass on a default isolation that disturbs a start', async () => {
    const url = await server.database()
    const { database } = parseUrl(url)
    await server.query(
      `ALTER DATABASE ${database} SET default_transaction_isolation = 'repeatable read'`,
    )
    await using proxy = await startProxy(server.port, (first) =>
      first.includes('jit=off')
        ? refusal('0A000', 'RDS Proxy currently doesn’t support command-line options.')
        : undefined,
    )
    const through = unhurried(url.replace(`:${server.port}/`, `:${proxy.port}/`))
    const five = await Promise.all(Array.from({ length: 5 }, () => openStore(through)))
    const given = Array.from({ length: 40 }, (_, n) => newDelivery({ messageId: `m${n}` }))
    const put = await Promise.all(five.map((store) => store.put(given)))
    expect(put.flat().filter((id) => id !== undefined)).toHaveLength(40)
    await Promise.all(five.map((store) => store.close()))
  })

  test('tables of a newer version are left alone', async () => {
    const { all, url } = await stores(1)
    await all[0]?.close()
    await server.query('UPDATE hookline.version SET version = 99', [], url)
    await expect(openStore(url)).rejects.toEqual(storeError('newer', /version 99.*another schema/))
  })

  test('a later version runs its own steps alone, all of them or none', async () => {
    const { all, url } = await stores(1)
    await all[0]?.put([newDelivery({ messageId: 'm' })])
    await all[0]?.close()
    const address = parseUrl(url)
    const connection = new Connection(address)
    const steps = [
      ...MIGRATIONS.map(() => 'never run again'),
      'CREATE TABLE $.more (n int)',
      'CREATE TABLE $.version (n int)',
    ]
    await expect(migrate(connection, address.schema, steps)).rejects.toEqual(
      storeError('failed', /already exists/),
    )
    await migrate(connection, address.schema, steps.slice(0, -1))
    const version = MIGRATIONS.length + 1
    expect(await connection.query('SELECT version FROM hookline.version')).toEqual([{ version }])
    await connection.close()
  })

  test('messages of audiences that a store of version 3 has in the backlog become bulk work', async () => {
    const url = await server.database()
    await fillVersion(3, url)
    await server.query(
      `INSERT INTO hookline.names (name) VALUES ('audience:vip');
       INSERT INTO hookline.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
         SELECT 10 + n, 1, CASE WHEN n = 1 THEN 1 ELSE 6 END, 2, 3, 'm' || n, 'u1', '', '{}' FROM generate_series(1, 4) n;
       INSERT INTO hookline.waiting (id, due_at, destination, attempt, state, leased)
         VALUES (11, 1, 2, 0, 1, false), (12, 1, 2, 0, 1, false), (13, 1, 2, 1, 1, true), (14, 1, 2, 9, 3, false)`,
      undefined,
      url,
    )
    const store = await openStore(url)
    const traces = await Promise.all(['m1', 'm2', 'm3', 'm4'].map((id) => store.trace(id)))
    expect(traces.flat().map(({ state }) => state)).toEqual(['backlog', 'bulk', 'leased', 'dead'])
    await store.close()
  })

  test('a store of version 1 loses the rows that deletions left behind, and nothing else', async () => {
    const url = await server.database()
    await fillVersion(1, url)
    const before = await rowCounts(url)
    await server.query(
      `INSERT INTO hookline.waiting (id, due_at, destination, attempt, state, leased) VALUES (101, 1, 2, 1, 1, false);
       INSERT INTO hookline.done (id, attempt, state) VALUES (102, 1, 4);
       INSERT INTO hookline.attempts SELECT id, 1, 1, 1, 4, 5, 200, 0, NULL, 'of a deleted user'
         FROM generate_series(101, 103) id`,
      undefined,
      url,
    )
    const store = await openStore(url)
    expect(await rowCounts(url)).toEqual(before)
    expect(await store.trace('done')).toMatchObject([{ state: 'done', attempts: [{ attempt: 1 }] }])
    expect(await store.trace('dead')).toMatchObject([{ state: 'dead', attempts: [{ attempt: 1 }] }])
    expect(await store.claim([{ destination: 'crm', lane: 'fresh', limit: 9 }])).toMatchObject([
      { messageId: 'fresh', source: 'web', type: 'track', attempt: 1 },
    ])
    await store.close()
  })

  test('a store of version 2 keeps the numbers of its names', async () => {
    const url = await server.database()
    await fillVersion(2, url)
    const text = 'SELECT id, name FROM hookline.names ORDER BY id'
    const before = await server.query(text, [], url)
    const store = await openStore(url)
    expect(await store.put([newDelivery({ messageId: 'm', destination: 'other' })])).toHaveLength(1)
    const other = { id: expect.any(Number) as unknown, name: 'other' }
    expect(await server.query(text, [], url)).toEqual([...before, other])
    expect(await store.trace('m')).toMatchObject([{ source: 'web', destination: 'other' }])
    expect(await store.trace('fresh')).toMatchObject([{ source: 'web', destination: 'crm' }])
    await store.close()
  })

  test('the statements of the documents lead back to version 7, and the log of attempts stays', async () => {
    const { all, url } = await stores(1)
    const [store] = all as [Store]
    for (const messageId of ['one', 'two', 'none']) {
      const [id] = await store.put([newDelivery({ messageId, state: 'leased' })])
      const log = [{ ...ATTEMPT, error: 'late', response: 'thanks', headers: 'a: b' }, ATTEMPT]
      const logs = { one: log.slice(0, 1), two: log, none: [] }
      const own = { log: logs[messageId as 'one'] }
      await store.settle([settlement({ id: id ?? 0, attempt: 1 }, { state: 'done' }, own)])
    }
    await store.put([newDelivery({ messageId: 'leased', state: 'bulk' })])
    await store.claim([{ destination: 'crm', lane: 'bulk', limit: 1 }])
    await store.put([newDelivery({ messageId: 'waits' })])
    const traces = (of: Store) =>
      Promise.all(['one', 'two', 'none', 'leased', 'waits'].map((id) => of.trace(id)))
    const before = await traces(store)
    expect(before.map((found) => found[0]?.attempts.length)).toEqual([1, 2, 0, 0, 0])
    await store.close()
    expect(await rowCounts(url)).toEqual({ deliveries: 5, waiting: 2, done: 3, attempts: 2 })
    const document = readFileSync(new URL('../../../../docs/operating.md', import.meta.url), 'utf8')
    for (const first of ['UPDATE hookline.waiting', 'INSERT INTO hookline.attempts']) {
      const [, back] = new RegExp(`^\`\`\`sql\\n(${first}[^\`]*)\`\`\`$`, 'm').exec(document) ?? []
      await server.query(back ?? '', undefined, url)
    }
    expect(await columnsOf(url)).toEqual(await columnsOf(await databaseOf(7)))
    expect(await rowCounts(url)).toEqual({ deliveries: 5, waiting: 2, done: 3, attempts: 3 })
    const former = await server.query<{ state: number; leased: boolean }>(
      'SELECT state, leased FROM hookline.waiting ORDER BY id',
      [],
      url,
    )
    expect(former).toEqual([
      { state: 1, leased: true },
      { state: 0, leased: false },
    ])
    const again = await openStore(url)
    expect(await traces(again)).toEqual(before)
    await again.close()
  })

  test('a store of version 8 keeps what waits, is leased, is dead or was replayed', async () => {
    const url = await server.database()
    await fillVersion(8, url)
    const NOW = 1_700_000_000_000
    await server.query(
      `INSERT INTO hookline.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
         SELECT 3 + n, ${NOW - 1_000}, 1, 2, 3, 'm' || n, 'u1', '', '{}' FROM generate_series(1, 4) n;
       INSERT INTO hookline.waiting (id, due_at, first_attempt_at, attempt_at, destination, attempt, state, leased, attempts_before, replayed_at)
         VALUES (4, ${NOW + 20_000}, ${NOW - 10_000}, ${NOW - 10_000}, 2, 1, 1, true, NULL, NULL),
           (5, ${NOW - 1}, ${NOW - 40_000}, ${NOW - 30_001}, 2, 2, 1, true, NULL, NULL),
           (6, ${NOW + 5_000}, ${NOW - 500}, ${NOW - 500}, 2, 1, 1, false, NULL, NULL),
           (7, ${NOW - 300}, NULL, NULL, 2, 3, -1, false, 3, ${NOW - 300})`,
      undefined,
      url,
    )
    let now = NOW
    const store = await openStore(url, { now: () => now })
    const traces = await Promise.all([4, 5, 6, 7, 3].map((id) => store.get(id)))
    expect(traces.map((trace) => trace && [trace.state, trace.dueAt])).toEqual([
      ['leased', NOW + 20_000],
      ['leased', NOW - 1],
      ['backlog', NOW + 5_000],
      ['bulk', NOW - 300],
      ['dead', null],
    ])
    expect(await store.stats()).toMatchObject([
      { fresh: 1, backlog: 1, bulk: 1, leased: 2, dead: 1 },
    ])
    expect(await store.replay([3], false)).toEqual([3])
    const claims = LANES.map((lane) => ({ destination: 'crm', lane, limit: 9 }))
    const claimed = await store.claim(claims)
    expect(claimed.map(({ id, attempt, attemptsBefore }) => [id, attempt, attemptsBefore])).toEqual(
      [
        [1, 1, 0],
        [5, 3, 1],
        [3, 2, 1],
        [7, 4, 3],
      ],
    )
    expect(
      await store.settle([...claimed, { id: 4, attempt: 1 }].map((one) => settlement(one))),
    ).toBe(0)
    now += 5_000
    const left = await store.claim(claims)
    expect(left.map(({ id }) => id)).toEqual([6])
    await store.settle(left.map((one) => settlement(one)))
    expect(await store.stats()).toEqual([])
    await store.close()
  })

  test('a worker of version 8 that still runs gets nothing that is leased already', async () => {
    let now = 1_700_000_000_000
    await using one = await stores(1, { now: () => now })
    const [store] = one.all as [Store]
    await store.put([newDelivery(), newDelivery()])
    const [claimed] = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 1 }])
    const claimOfVersion8 = () =>
      server.query(
        `UPDATE hookline.waiting SET state = 1, leased = true, attempt = attempt + 1, due_at = $1::bigint + ${LEASE_MS}
         WHERE id = ANY (ARRAY (SELECT id FROM hookline.waiting WHERE state = 0 AND due_at <= $1 FOR UPDATE SKIP LOCKED))`,
        [now],
        one.url,
      )
    for (const ms of [0, 1, LEASE_MS]) {
      now += ms
      await expect(claimOfVersion8()).rejects.toThrow(/waiting_lease/)
    }
    expect(claimed && (await store.settle([settlement(claimed)]))).toBe(0)
    await claimOfVersion8()
    expect(
      await store.claim(LANES.map((lane) => ({ destination: 'crm', lane, limit: 9 }))),
    ).toEqual([])
    now += LEASE_MS
    expect(await store.claim([{ destination: 'crm', lane: 'backlog', limit: 9 }])).toMatchObject([
      { id: 2, attempt: 2, attemptsBefore: 1 },
    ])
  })

  test('one who may change nothing opens tables that are up to date', async () => {
    await using one = await stores(1)
    await server.query(
      `CREATE ROLE worker LOGIN PASSWORD 'w'; GRANT USAGE ON SCHEMA hookline TO worker;
       GRANT ALL ON ALL TABLES IN SCHEMA hookline TO worker; GRANT ALL ON ALL SEQUENCES IN SCHEMA hookline TO worker`,
      undefined,
      one.url,
    )
    const store = await openStore(one.url.replace('hookline:secret', 'worker:w'))
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
    await store.close()
    const empty = (await server.database()).replace('hookline:secret', 'worker:w')
    await expect(openStore(empty)).rejects.toEqual(
      storeError('failed', /permission.*GRANT CONNECT, CREATE ON DATABASE/),
    )
  })

  test.each([
    ['belongs to the user', 'CREATE SCHEMA hookline AUTHORIZATION guest'],
    [
      'lets the user create tables',
      'CREATE SCHEMA hookline; GRANT ALL ON SCHEMA hookline TO guest',
    ],
  ])('a schema that somebody else has made gets its tables if it %s', async (_, statement) => {
    const url = await server.database()
    await server.query(
      `DO $$ BEGIN CREATE ROLE guest LOGIN PASSWORD 'g'; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
       ${statement}`,
      undefined,
      url,
    )
    const store = await openStore(url.replace('hookline:secret', 'guest:g'))
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
    await store.close()
  })

  test('a schema that gives the user no rights is refused, with what to grant', async () => {
    const url = await server.database()
    const statement = `CREATE ROLE stranger LOGIN PASSWORD 's'; CREATE SCHEMA hookline`
    await server.query(statement, undefined, url)
    const opening = openStore(url.replace('hookline:secret', 'stranger:s'))
    await expect(opening).rejects.toEqual(
      storeError('failed', /permission denied for schema.*CREATE SCHEMA hookline AUTHORIZATION/),
    )
  })
})

/** A database with the tables of an earlier version. */
async function databaseOf(version: number): Promise<string> {
  const url = await server.database()
  const address = parseUrl(url)
  const connection = new Connection(address)
  await migrate(connection, address.schema, MIGRATIONS.slice(0, version))
  await connection.close()
  return url
}

/** The version of the tables, and their columns. */
const columnsOf = (url: string) =>
  server.query(
    `SELECT version, table_name, column_name, data_type FROM hookline.version, information_schema.columns
     WHERE table_schema = 'hookline' ORDER BY 2, 3`,
    [],
    url,
  )

/** Fills a new store of an earlier version: one delivery is fresh, one is done and one is dead. */
async function fillVersion(version: number, url: string): Promise<void> {
  const address = parseUrl(url)
  const connection = new Connection(address)
  await migrate(connection, address.schema, MIGRATIONS.slice(0, version))
  await connection.close()
  await server.query(
    `INSERT INTO hookline.names (name) VALUES ('web'), ('crm'), ('track'), ('https://a.example.com/'), ('delivered');
     SELECT setval('hookline.ids', 100);
     INSERT INTO hookline.deliveries (id, received_at, source, destination, type, message_id, user_id, event, body)
       VALUES (1, 1, 1, 2, 3, 'fresh', 'u1', '', '{}'), (2, 1, 1, 2, 3, 'done', 'u1', '', '{}'),
         (3, 1, 1, 2, 3, 'dead', 'u1', '', '{}');
     INSERT INTO hookline.waiting (id, due_at, destination, attempt, state, leased)
       VALUES (1, 1, 2, 0, 0, false), (3, 1, 2, 1, 3, false);
     INSERT INTO hookline.done (id, attempt, state) VALUES (2, 1, 4);
     INSERT INTO hookline.attempts SELECT id, 1, 1, 1, 4, 5, 200, 0, NULL, '' FROM generate_series(2, 3) id`,
    undefined,
    url,
  )
}

/** The number of rows in each table that has rows of deliveries. */
async function rowCounts(url: string): Promise<Record<string, number> | undefined> {
  const tables = ['deliveries', 'waiting', 'done', 'attempts']
  const counts = tables.map((table) => `(SELECT count(*)::int FROM hookline.${table}) AS ${table}`)
  return (await server.query<Record<string, number>>(`SELECT ${counts.join()}`, [], url))[0]
}

/** Waits until a statement on a database waits for a lock. */
async function someoneWaits(url: string): Promise<void> {
  await vi.waitUntil(async () => {
    const rows = await server.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      [],
      url,
    )
    return rows.length > 0
  }, 60_000)
}

async function purge(store: Store, user = 'u1'): Promise<number> {
  let purged = 0
  for (let from: number | undefined = 0; from !== undefined;) {
    const part = await store.purgeUser(user, from)
    purged += part.purged
    from = part.next
  }
  return purged
}

describe('a deletion of a user', () => {
  const NOTHING = { deliveries: 0, waiting: 0, done: 0, attempts: 0 }

  const log = [{ post: 0, url_n: 1, code_n: 1, status: 500, ms: 1, error: null, response: 'of u1' }]

  const settleAs = (outcome: object) => (id: number | undefined) => ({
    text: settleStatement('hookline'),
    values: [null, JSON.stringify([{ n: 0, id, attempt: 1, log, ...outcome }]), '["web"]'],
  })

  test.each([
    ['done', settleAs({ state: 4, delay: 0 })],
    ['to be tried again', settleAs({ state: 1, delay: 1_000 })],
    ['dead', settleAs({ state: 3, delay: 0, reason: 'gone' })],
    [
      'done after a single request',
      (id: number | undefined) => ({
        text: arrivedStatement('hookline'),
        values: [null, '["web"]', [id], [1], [1], [1], [200], [1], ['of u1']],
      }),
    ],
  ])(
    'leaves nothing of a message that is settled as %s at the same time',
    async (_, toStatement) => {
      await using one = await stores(1)
      const [store] = one.all as [Store]
      const [id] = await store.put([newDelivery({ user: 'u1', state: 'leased' })])
      const settler = new Connection(parseUrl(one.url))
      let purging: Promise<number> | undefined
      await settler.transact(async (query) => {
        const { text, values } = toStatement(id)
        expect(await query(text, values)).toHaveLength(1)
        purging = purge(store)
        await someoneWaits(one.url)
      })
      expect(await purging).toBe(1)
      expect(await rowCounts(one.url)).toEqual(NOTHING)
      await settler.close()
    },
  )

  test('leaves nothing of a message that is replayed at the same time', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    const [id] = await store.put([newDelivery({ user: 'u1', state: 'leased' })])
    await store.settle([
      { id: id ?? 0, attempt: 1, next: { state: 'done' }, refusedBy: [], log: [] },
    ])
    const replayer = new Connection(parseUrl(one.url))
    let purging: Promise<number> | undefined
    await replayer.transact(async (query) => {
      await query(
        `WITH taken AS (DELETE FROM hookline.done RETURNING id)
         INSERT INTO hookline.waiting (id, due_at, destination, attempt, state, leased)
         SELECT id, 1, 1, 1, 1, false FROM taken`,
      )
      purging = purge(store)
      await someoneWaits(one.url)
    })
    expect(await purging).toBe(1)
    expect(await rowCounts(one.url)).toEqual(NOTHING)
    await replayer.close()
  })

  test('ends, and refuses a settlement, though the message waits in no table any more', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    const [id] = await store.put([newDelivery({ user: 'u1', state: 'leased' })])
    await server.query('DELETE FROM hookline.waiting', [], one.url)
    expect(await purge(store)).toBe(1)
    expect(await rowCounts(one.url)).toEqual(NOTHING)
    const late = { id: id ?? 0, attempt: 1, refusedBy: [], log: [] }
    expect(await store.settle([{ ...late, next: { state: 'done' } }])).toBe(1)
  })
})

describe('a settlement that the server does not take', () => {
  async function leased(count: number, parameters = '', through = (url: string) => url) {
    const url = await server.database()
    const store = await openStore(through(url) + parameters)
    const ids = await store.put(
      Array.from({ length: count }, (_, n) => newDelivery({ messageId: `m${n}`, state: 'leased' })),
    )
    const settlements = ids.map((id) =>
      settlement({ id: id ?? 0, attempt: 1 }, { state: 'done' }, { log: [ATTEMPT] }),
    )
    const done = async () => (await server.query('SELECT FROM hookline.done', [], url)).length
    const told: Settlement[] = []
    store.onSettled((taken) => told.push(...taken))
    return { url, store, settlements, done, told, [Symbol.asyncDispose]: () => store.close() }
  }

  /** Makes the server refuse the rows that `when` selects, as it does with values beyond a limit. */
  const refuse = (url: string, table: string, when: string) =>
    server.query(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded', MESSAGE = 'too large'; END $$;
       CREATE TRIGGER refuse BEFORE INSERT ON hookline.${table} FOR EACH ROW WHEN (${when}) EXECUTE FUNCTION refuse()`,
      undefined,
      url,
    )

  test('is written without its log, and the others with theirs', async () => {
    await using opened = await leased(80)
    const { url, store, settlements, done } = opened
    await refuse(url, 'done', 'NEW.id = 7 AND NEW.code IS NOT NULL')
    expect(await store.settle(settlements)).toBe(0)
    expect(await done()).toBe(80)
    expect((await store.get(7))?.attempts).toEqual([])
    expect((await store.get(8))?.attempts).toHaveLength(1)
  })

  test('is refused if it fails without its log too, and the others are written', async () => {
    await using opened = await leased(80)
    const { url, store, settlements, done } = opened
    await refuse(url, 'done', 'NEW.id IN (7, 70)')
    expect(await store.settle(settlements)).toBe(2)
    expect(await done()).toBe(78)
    expect(await store.get(7)).toMatchObject({ state: 'leased' })
  })

  test('waits alone while another session has its row locked, and is then written', async () => {
    await using opened = await leased(80, '?statement_timeout=700')
    const { url, store, settlements, done, told } = opened
    const locker = new Connection(parseUrl(url))
    await locker.transact(async (query) => {
      await query('SELECT FROM hookline.waiting WHERE id = 7 FOR UPDATE')
      expect(await store.settle(settlements)).toBe(0)
      expect(await done()).toBe(79)
      expect(told).toHaveLength(79)
      const [id] = await store.put([newDelivery({ state: 'leased' })])
      expect(await store.settle([settlement({ id: id ?? 0, attempt: 1 })])).toBe(0)
      expect(await done()).toBe(80)
    })
    await vi.waitUntil(async () => (await done()) === 81, 60_000)
    await vi.waitUntil(() => told.length === 81, 60_000)
    expect(told.at(-1)?.id).toBe(7)
    await locker.close()
  })

  test.each<[string, Settlement['next']]>([
    ['delivered', { state: 'done' }],
    ['a dead letter', { state: 'dead', reason: 'no' }],
  ])('is taken when it is given again, if the answer was lost: %s', async (_, next) => {
    await using proxy = await startProxy(server.port)
    const through = (url: string) => url.replace(`:${server.port}/`, `:${proxy.port}/`)
    await using opened = await leased(80, '', through)
    const { url, store, told } = opened
    const [first, ...others] = opened.settlements.map((one) => ({ ...one, next }))
    // The names of the log are known after the first one, so that the others take a single statement.
    if (first) await store.settle([first])
    proxy.stopReading()
    const all = [...others, settlement({ id: 4_711, attempt: 1 }, next)]
    const failing = expect(store.settle(all)).rejects.toMatchObject({ isUnreachable: true })
    const leasedRows = () => server.query('SELECT FROM hookline.waiting WHERE leased', [], url)
    await expect.poll(leasedRows).toEqual([])
    proxy.leadTo(server.port)
    await failing
    expect(told).toEqual([first])
    expect(await store.settle(all)).toBe(1)
    expect(told).toHaveLength(80)
    expect(new Set(told)).toEqual(new Set([first, ...others]))
    expect(await store.settle(others)).toBe(79)
  })

  test('does not count once another worker has claimed the delivery meanwhile', async () => {
    await using opened = await leased(2, '?statement_timeout=700')
    const { url, store, settlements, done, told } = opened
    const locker = new Connection(parseUrl(url))
    await locker.transact(async (query) => {
      await query('UPDATE hookline.waiting SET attempt = 2 WHERE id = 1')
      expect(await store.settle(settlements)).toBe(0)
    })
    await locker.close()
    await store.close()
    expect(await done()).toBe(1)
    expect(told.map(({ id }) => id)).toEqual([2])
    const row = { id: '1', attempt: 2, leased: true }
    expect(await server.query('SELECT id, attempt, leased FROM hookline.waiting', [], url)).toEqual(
      [row],
    )
  })

  test('is written at the latest when the store closes', async () => {
    await using opened = await leased(2, '?statement_timeout=700')
    const { url, store, settlements, done } = opened
    const locker = new Connection(parseUrl(url))
    await locker.transact(async (query) => {
      await query('SELECT FROM hookline.waiting WHERE id = 1 FOR UPDATE')
      await store.settle(settlements)
    })
    await locker.close()
    await store.close()
    expect(await done()).toBe(2)
  })
})

describe('a claim and settlements that are wanted at the same time', () => {
  const COUNT = 50
  const CLAIM = [{ destination: 'crm', lane: 'fresh' as const, limit: COUNT }]

  /** As many leased messages as due ones. */
  async function filled(parameters = '') {
    const url = await server.database()
    const store = await openStore(url + parameters)
    const put = (state: 'leased' | 'fresh') =>
      store.put(Array.from({ length: COUNT }, () => newDelivery({ state })))
    const ids = await put('leased')
    await put('fresh')
    const settlements = ids.map((id, n) =>
      // Each kind has a statement of its own.
      n % 2 === 0
        ? settlement({ id: id ?? 0, attempt: 1 }, { state: 'done' }, { log: [ATTEMPT] })
        : settlement({ id: id ?? 0, attempt: 1 }, { state: 'dead', reason: 'gone' }),
    )
    return { url, store, settlements, [Symbol.asyncDispose]: () => store.close() }
  }

  test('are in one transaction', async () => {
    await using opened = await filled()
    const { url, store, settlements } = opened
    const [refused, claimed] = await Promise.all([store.settle(settlements), store.claim(CLAIM)])
    expect([refused, claimed.length]).toEqual([0, COUNT])
    const writers = await server.query(
      `SELECT xmin::text, count(*)::int FROM (
         SELECT xmin FROM hookline.done UNION ALL SELECT xmin FROM hookline.waiting
       ) written GROUP BY 1`,
      [],
      url,
    )
    expect(writers).toEqual([{ xmin: expect.any(String) as unknown, count: 2 * COUNT }])
  })

  test('do not fail because of a settlement that the server refuses', async () => {
    await using opened = await filled()
    const { url, store, settlements } = opened
    await server.query('ALTER TABLE hookline.done ADD CHECK (id <> 7)', undefined, url)
    const [refused, claimed] = await Promise.all([store.settle(settlements), store.claim(CLAIM)])
    expect([refused, claimed.length]).toEqual([1, COUNT])
    expect(await store.get(7)).toMatchObject({ state: 'leased' })
    expect(await store.get(8)).toMatchObject({ state: 'dead' })
    expect(await store.get(9)).toMatchObject({ state: 'done', attempts: [{ attempt: 1 }] })
  })

  test('do not wait for each other while another session has the row of one locked', async () => {
    await using opened = await filled('?statement_timeout=2000')
    const { url, store, settlements } = opened
    const locker = new Connection(parseUrl(url))
    await locker.transact(async (query) => {
      await query('SELECT FROM hookline.waiting WHERE id = 7 FOR UPDATE')
      let isSettled = false
      const settling = store.settle(settlements).finally(() => {
        isSettled = true
      })
      expect(await store.claim(CLAIM)).toHaveLength(COUNT)
      expect(isSettled).toBe(false)
      expect(await settling).toBe(0)
      expect(await store.stats()).toMatchObject([{ fresh: 0, leased: COUNT + 1 }])
    })
    await locker.close()
    await vi.waitUntil(async () => (await store.get(7))?.state === 'done', 60_000)
  })

  test.each(Array.from({ length: rounds(1) }, (_, n) => n + 1))(
    'never deadlock with anything else that changes messages, lose nothing and leave nothing of deleted users (seed %i)',
    async (seed) => {
      const { random, between, pick, chance } = dice(seed)
      const [WORKERS, PUTS, PER_PUT, STEPS] = [4, 6, 100, 12]
      const RETENTION_MS = 86_400_000
      const users = Array.from({ length: 8 }, (_, n) => `u${n}`)
      const [deleted, kept] = [users.slice(0, 5), users.slice(5)]
      const destinations = ['a', 'b', 'discarded']
      let clock = 1_700_000_000_000
      await using opened = await stores(WORKERS, { now: () => clock })
      const { url } = opened
      const all = opened.all.map(patient)
      const ids: number[] = []
      /** The messages of users that are not deleted, whose destination is not emptied, and which are not old. */
      const mustStay = new Set<number>()
      const put = async (isOld: boolean) => {
        const messages = Array.from({ length: PER_PUT }, () => {
          const state = pick(['fresh', 'backlog', 'bulk'] as const)
          return newDelivery({ destination: pick(destinations), user: pick(users), state })
        })
        const added = await pick(all).put(messages)
        added.forEach((id = 0, n) => {
          ids.push(id)
          const { user = '', destination } = messages[n] ?? {}
          const isKept = kept.includes(user) && destination !== 'discarded' && !isOld
          if (isKept) mustStay.add(id)
        })
      }
      for (let n = 0; n < PUTS; n++) await put(true)
      clock += 2 * RETENTION_MS
      for (let n = 0; n < PUTS; n++) await put(false)

      let underWay = 0
      let isOver = false
      const claimed = new Set<string>()
      const settle = async (store: Store, deliveries: Delivery[]) => {
        if (chance(0.5)) await new Promise((resolve) => setTimeout(resolve, between(0, 10)))
        const settlements = deliveries.map((own) => {
          const log = Array.from({ length: between(0, 2) }, () => ATTEMPT)
          if (chance(0.3)) return settlement(own, { state: 'backlog', delayMs: 0 }, { log })
          return chance(0.2)
            ? settlement(own, { state: 'dead', reason: 'gone' }, { log })
            : settlement(own, { state: 'done' }, { log })
        })
        await store.settle(settlements.toSorted(() => random() - 0.5))
        underWay -= deliveries.length
      }
      const work = async (store: Store) => {
        const settling: Promise<void>[] = []
        for (;;) {
          underWay++
          const deliveries = await store.claim(
            destinations.flatMap((destination) =>
              LANES.map((lane) => ({ destination, lane, limit: between(1, 20) })),
            ),
          )
          underWay += deliveries.length - 1
          for (const { id, attempt } of deliveries) {
            expect(claimed).not.toContain(`${id} ${attempt}`)
            claimed.add(`${id} ${attempt}`)
          }
          const half = between(0, deliveries.length)
          settling.push(
            settle(store, deliveries.slice(half)),
            settle(store, deliveries.slice(0, half)),
          )
          if (deliveries.length === 0 || chance(0.3)) await Promise.all(settling)
          if (deliveries.length === 0 && isOver && underWay === 0) return
        }
      }
      /** Does something again and again, beside all the others. */
      const disturb = async (what: (store: Store) => Promise<unknown>) => {
        for (let n = 0; n < STEPS; n++) {
          await new Promise((resolve) => setTimeout(resolve, between(0, 20)))
          await what(pick(all))
        }
      }
      const someIds = () => Array.from({ length: 50 }, () => pick(ids))
      const working = all.map(work)
      await Promise.all([
        ...deleted.map(async (user) => {
          await new Promise((resolve) => setTimeout(resolve, between(0, 150)))
          // The same deletion may be asked of two processes.
          await Promise.all([pick(all), pick(all)].map((store) => purge(store, user)))
        }),
        ...Array.from({ length: 2 }, () => disturb((store) => store.discard('discarded', 30))),
        ...Array.from({ length: 2 }, () => disturb((store) => store.sweep(RETENTION_MS, 50))),
        ...Array.from({ length: 3 }, () => disturb((store) => store.replay(someIds(), true))),
        // Leases run out, so that settlements come too late, and processes count each other as gone.
        disturb(async () => {
          clock += pick([1_000, WORKER_TIMEOUT_MS, LEASE_MS + 1])
          await Promise.all(all.map(async ({ shared }) => shared?.workers.heartbeat()))
        }),
      ])
      isOver = true
      await Promise.all(working)

      const left = await server.query<{ id: string; user: string; isEnded: boolean }>(
        `SELECT id, user_id AS user,
           done.id IS NOT NULL AND w.id IS NULL OR done.id IS NULL AND w.state = 3 AND NOT w.leased AS "isEnded"
         FROM (SELECT id FROM hookline.deliveries UNION SELECT id FROM hookline.waiting
           UNION SELECT id FROM hookline.done UNION SELECT delivery FROM hookline.attempts) ids
           LEFT JOIN hookline.deliveries USING (id)
           LEFT JOIN hookline.done USING (id) LEFT JOIN hookline.waiting w USING (id)`,
        [],
        url,
      )
      expect(left.filter(({ isEnded }) => !isEnded)).toEqual([])
      expect(left.filter(({ user }) => !kept.includes(user))).toEqual([])
      const leftIds = new Set(left.map(({ id }) => Number(id)))
      expect([...mustStay].filter((id) => !leftIds.has(id))).toEqual([])
      // The server's processes report their deadlocks when they end.
      await Promise.all(all.map((store) => store.close()))
      expect(
        await server.query('SELECT deadlocks::int FROM pg_stat_database WHERE datname = $1', [
          parseUrl(url).database,
        ]),
      ).toEqual([{ deadlocks: 0 }])
    },
  )
})

test('names of any length are told apart, and one that exists is found', async () => {
  await using two = await stores(2)
  const [here, there] = two.all as [Store, Store]
  const start = `https://a.example.com/${randomBytes(9_000).toString('hex')}`
  const urls = [`${start}1`, `${start}2`]
  for (const store of [here, there]) {
    const [id] = await store.put([newDelivery({ state: 'leased', source: start })])
    const log = urls.map((url) => ({ ...ATTEMPT, url }))
    expect(
      await store.settle([settlement({ id: id ?? 0, attempt: 1 }, { state: 'done' }, { log })]),
    ).toBe(0)
    expect(await store.get(id ?? 0)).toMatchObject({
      source: start,
      attempts: urls.map((url) => ({ url })),
    })
    const names = [`${start}${id}`, `${start}${id}2`]
    await store.shared?.workers.noteDown([{ endpoint: `${start}${id}`, forMs: 0 }], 1_000, 2_000)
    expect(await store.shared?.workers.tryProbes(names, 1_000, 2_000)).toEqual([1_000, undefined])
  }
})

describe('processes that go on while the numbers of names change', () => {
  const AUDIENCE_MESSAGE = { source: 'web', destination: 'zeta', before: '{"u":', after: '}' }

  /** Uses every statement that has names, for `destination`, and expects what one of `stores` reads and writes. */
  async function useAll([one, two]: Store[], destination: string): Promise<void> {
    const claims = [{ destination, lane: 'fresh' as Lane, limit: 9 }]
    const messageId = `${destination}-${randomBytes(4).toString('hex')}`
    await one?.put([newDelivery({ messageId, destination, source: `from-${destination}` })])
    const claimed = (await two?.claim(claims)) ?? []
    expect(claimed).toMatchObject([
      { messageId, destination, source: `from-${destination}`, type: 'track' },
    ])
    const log = [{ ...ATTEMPT, url: `https://${destination}.example.com/` }]
    const next = { state: 'dead', reason: 'refused' } as const
    expect(await two?.settle(claimed.map((own) => settlement(own, next, { log })))).toBe(0)
    expect(await one?.trace(messageId)).toMatchObject([
      { destination, source: `from-${destination}`, attempts: [{ url: log[0]?.url }] },
    ])
    const findings = await one?.find({ destination, messageId }, undefined, 9)
    expect(findings?.deliveries).toMatchObject([{ destination, lastCode: 'delivered' }])
    const copies = (await one?.copyOut(0, 999)) ?? []
    const own = copies.filter((copy) => copy.messageId === messageId)
    expect(await two?.copiesOf(own)).toEqual(own)
    expect(await two?.copyIn(own)).toEqual([false])
    const endpoint = `https://${destination}/`
    await one?.shared?.workers.noteDown([{ endpoint, forMs: 0 }], 1_000, 1_000)
    expect(await two?.shared?.workers.tryProbes([endpoint], 1_000, 1_000)).toEqual([1_000])
    await one?.shared?.workers.endProbes([endpoint])
    expect(await two?.shared?.workers.tryProbes([endpoint], 1_000, 1_000)).toEqual([undefined])
  }

  /** Notices and the deletion of a user. */
  async function useUser([one, two]: Store[], user: string): Promise<void> {
    const deletion = newDelivery({ user, type: 'delete', destination: 'acme', messageId: user })
    await one?.put([deletion, newDelivery({ user, destination: 'acme' })])
    const sync = await one?.beginSync('vip', [{ name: 'zeta', enabled: true }])
    if (sync) expect(await one?.join(sync, [user], [AUDIENCE_MESSAGE])).toBe(1)
    const notices = await two?.claim([{ destination: 'zeta', lane: 'bulk', limit: 9 }])
    expect(notices).toMatchObject([{ destination: 'zeta', source: 'web', type: 'identify' }])
    let purged = 0
    for (let from: number | undefined = 0; from !== undefined;) {
      const part: { purged: number; next: number | undefined } | undefined = await two?.purgeUser(
        user,
        from,
      )
      purged += part?.purged ?? 0
      from = part?.next
    }
    expect(purged).toBe(3)
    expect(await one?.hasUser(user)).toBe(false)
    expect(await one?.trace(user)).toMatchObject([{ type: 'delete', destination: 'acme' }])
  }

  test('send nothing to another customer after a restore', async () => {
    await using two = await stores(2)
    await useAll(two.all, 'acme')
    await useAll(two.all, 'zeta')
    await useUser(two.all, 'bob')
    await server.query(
      `UPDATE hookline.names SET name = name || '!';
       UPDATE hookline.names SET name = left(other.name, -1) FROM hookline.names other
         WHERE other.id = (SELECT max(id) + 1 FROM hookline.names) - names.id;
       DELETE FROM hookline.waiting; DELETE FROM hookline.deliveries; DELETE FROM hookline.attempts;
       DELETE FROM hookline.done; DELETE FROM hookline.members; DELETE FROM hookline.probes`,
      undefined,
      two.url,
    )
    await useAll(two.all, 'acme')
    await useAll(two.all, 'zeta')
    await useUser(two.all, 'bob')
  })

  test('lose nothing after a restore from before the names were added', async () => {
    await using two = await stores(2)
    const before = await server.query<{ name: string }>(
      'SELECT name FROM hookline.names',
      [],
      two.url,
    )
    expect(before).toEqual([])
    await useAll(two.all, 'acme')
    await useUser(two.all, 'bob')
    const tables = 'names, waiting, deliveries, attempts, done, members, probes'
    const truncate = `TRUNCATE ${tables.replaceAll(/\w+/g, (name) => `hookline.${name}`)} RESTART IDENTITY`
    await server.query(truncate, [], two.url)
    await useUser(two.all, 'bob')
    await server.query(truncate, [], two.url)
    await useAll(two.all, 'zeta')
    await useAll(two.all, 'acme')
  })

  test('say that the schema is gone, and use the one that is made in its place', async () => {
    await using two = await stores(2)
    await useAll(two.all, 'acme')
    await server.query('DROP SCHEMA hookline CASCADE', [], two.url)
    await expect(two.all[0]?.put([newDelivery()])).rejects.toEqual(
      storeError('failed', /tables are missing: restart/),
    )
    const third = await openStore(two.url)
    await third.put([newDelivery({ destination: 'first', source: 'first' })])
    await useAll([two.all[0] as Store, third], 'zeta')
    await useAll([third, two.all[1] as Store], 'acme')
    await third.close()
  })
})

test('a put that the server does not take fails alone', async () => {
  await using one = await stores(1)
  const [store] = one.all as [Store]
  await server.query(
    `ALTER TABLE hookline.deliveries ADD CHECK (message_id <> 'bad')`,
    undefined,
    one.url,
  )
  const put = (messageId: string) => store.put([newDelivery({ messageId })])
  const all = await Promise.allSettled([put('a'), put('bad'), put('b')])
  expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

describe('prepared statements', () => {
  /** One connection of the server, and what a store has of it. */
  async function connect() {
    const address = parseUrl(`${await server.database()}?connections=1`)
    const connection = new Connection(address)
    await migrate(connection, address.schema)
    return Object.assign(connection, { [Symbol.asyncDispose]: () => connection.close() })
  }

  interface Prepared {
    name: string
    statement: string
    generic: number
  }

  const preparedOf = ({ query }: Connection) =>
    query<Prepared>(
      'SELECT name, statement, generic_plans::int AS generic FROM pg_prepared_statements',
    )

  test('keep their plans: put, claim and settle are not planned each time', async () => {
    await using connection = await connect()
    const { query, prepared, preparedAll, transact } = connection
    const schema = '"hookline"'
    const names = new Names(connection, schema)
    const tables: Tables = {
      query,
      prepared,
      preparedAll,
      transact,
      schema,
      names,
      now: () => null,
      clock: new ServerClock(),
    }
    const put = preparePut(tables)
    const claim = prepareClaim(tables, () => undefined)
    const { settle } = prepareSettle(tables, () => undefined)
    // The server plans the first five for their values.
    for (let round = 0; round < 10; round++) {
      await put(Array.from({ length: 5 + 50 * (round % 2) }, () => newDelivery()))
      const claimed = await claim([{ destination: 'crm', lane: 'fresh', limit: 100 }])
      const settlements = claimed.map((own) =>
        settlement(own, { state: 'done' }, { log: [ATTEMPT] }),
      )
      expect(new Set(await settle(settlements))).toEqual(new Set(['taken']))
    }
    const statements = await preparedOf(connection)
    expect(statements).toHaveLength(4)
    for (const { statement, generic } of statements)
      expect({ statement, generic }).toEqual({ statement, generic: 5 })
  })

  const TEXT = 'SELECT $1::int + 1 AS n'
  const ask = (connection: Connection) => connection.prepared<{ n: number }>(TEXT, [1])

  /** Whether one more statement is not prepared. */
  async function isGivenUp(connection: Connection): Promise<boolean> {
    const text = `${TEXT}, 2 AS m`
    expect(await connection.prepared(text, [1])).toEqual([{ n: 2, m: 2 }])
    return (await preparedOf(connection)).every(({ statement }) => statement !== text)
  }

  // A server in between may give each transaction another connection of the server.
  test('are given up where the connection of the server does not have them', async () => {
    await using connection = await connect()
    expect(await ask(connection)).toEqual([{ n: 2 }])
    await connection.query('DEALLOCATE ALL')
    expect(await Promise.all([ask(connection), ask(connection)])).toEqual([[{ n: 2 }], [{ n: 2 }]])
    expect(await isGivenUp(connection)).toBe(true)
  })

  test('are given up where the connection of the server has those of another process', async () => {
    await using other = await connect()
    await ask(other)
    const [{ name } = { name: '' }] = await preparedOf(other)
    await using connection = await connect()
    await connection.query(`PREPARE ${name} (int) AS ${TEXT}`)
    expect(await Promise.all([ask(connection), ask(connection)])).toEqual([[{ n: 2 }], [{ n: 2 }]])
    expect(await isGivenUp(connection)).toBe(true)
  })
})

describe('the sweep', () => {
  const DAY = 86_400_000
  const SLICE = 1_000

  /** Sweeps as the retention does in one go. */
  async function sweepAll(store: Store): Promise<void> {
    while ((await store.sweep(DAY, SLICE)) === SLICE);
  }

  async function filled(state: 'skipped' | 'fresh', count: number) {
    let now = 1_700_000_000_000
    const opened = await stores(1, { now: () => now })
    const [store] = opened.all as [Store]
    for (let left = count; left > 0; left -= SLICE) {
      await store.put(Array.from({ length: Math.min(left, SLICE) }, () => newDelivery({ state })))
    }
    now += DAY + 1
    return Object.assign(opened, { store, now })
  }

  test.each([1, 1_000, 2_500])(
    'deletes all that is old although %i settled rows without a delivery come first',
    async (count) => {
      await using opened = await filled('skipped', 4_000)
      const { store, url } = opened
      await server.query('DELETE FROM hookline.deliveries WHERE id <= $1', [count], url)
      await sweepAll(store)
      expect(await rowCounts(url)).toEqual({ deliveries: 0, waiting: 0, done: 0, attempts: 0 })
    },
  )

  test.each([1, 1_000])(
    'buries all that is old although %i waiting rows without a delivery come first',
    async (count) => {
      await using opened = await filled('fresh', 3_000)
      const { store, url } = opened
      await server.query('DELETE FROM hookline.deliveries WHERE id <= $1', [count], url)
      await sweepAll(store)
      expect(await store.stats()).toMatchObject([{ fresh: 0, dead: 3_000 - count }])
      expect(await store.claim([{ destination: 'crm', lane: 'fresh', limit: 1 }])).toEqual([])
    },
  )

  test.each(['skipped', 'fresh'] as const)(
    'passes what was put while the clock of the server was ahead (%s)',
    async (state) => {
      await using opened = await filled(state, 3_000)
      const { store, url, now } = opened
      await server.query(
        'UPDATE hookline.deliveries SET received_at = $1 WHERE id <= 1500',
        [now + DAY],
        url,
      )
      await sweepAll(store)
      const left = { deliveries: 1_500, waiting: 0, done: 1_500, attempts: 0 }
      if (state === 'skipped') expect(await rowCounts(url)).toEqual(left)
      else expect(await store.stats()).toMatchObject([{ fresh: 1_500, dead: 1_500 }])
    },
  )

  test('goes on beside other calls', async () => {
    await using opened = await stores(1)
    expect(opened.all[0]?.sweepsAside).toBe(true)
  })

  test('looks again at a message that has to stay, and not at the dead letters behind it', async () => {
    let now = 1_700_000_000_000
    await using opened = await stores(1, { now: () => now })
    const [store] = opened.all as [Store]
    const [id = 0] = await store.put([newDelivery({ state: 'backlog' })])
    await store.put(Array.from({ length: 1_999 }, () => newDelivery()))
    now += DAY
    const claimed = await store.claim([{ destination: 'crm', lane: 'backlog', limit: 1 }])
    await store.settle(claimed.map((one) => settlement(one, { state: 'backlog', delayMs: 1 })))
    now += 1
    const connection = new Connection(parseUrl(opened.url))
    let read = 0
    const query: RunQuery = async (text, values) => {
      const rows = await connection.query(text, values)
      read += rows.length
      return rows as never[]
    }
    const sweep = prepareSweep({ query, schema: '"hookline"', now: () => now })
    const sweepOnce = async () => {
      let changed = 0
      for (let last = SLICE; last === SLICE; changed += last) last = await sweep(DAY, SLICE)
      return changed
    }
    expect(await sweepOnce()).toBe(1_999)
    read = 0
    expect(await sweepOnce()).toBe(0)
    expect(read).toBeLessThan(100)
    now += RETRIED_MS
    expect(await sweepOnce()).toBe(1)
    expect(await store.get(id)).toMatchObject({ state: 'dead' })
    await connection.close()
  })

  test('passes more dead letters than one query does, and finds what waits behind them', async () => {
    await using opened = await filled('fresh', 6_001)
    const { store, url, now } = opened
    const died = 'UPDATE hookline.waiting SET state = 3, due_at = $1 WHERE id <= 6000'
    await server.query(died, [now], url)
    await sweepAll(store)
    expect(await store.stats()).toMatchObject([{ fresh: 0, dead: 6_001 }])
  })

  test('keeps what was delivered after a replay, and deletes what is old behind it', async () => {
    let now = 1_700_000_000_000
    await using opened = await stores(1, { now: () => now })
    const [store] = opened.all as [Store]
    const put = (state: 'fresh' | 'skipped', length: number) =>
      store.put(Array.from({ length }, () => newDelivery({ state })))
    const settleAll = async (lane: Lane, next: Settlement['next']) => {
      for (let count = 1; count > 0;) {
        const claimed = await store.claim([{ destination: 'crm', lane, limit: 1_200 }])
        await store.settle(claimed.map((one) => settlement(one, next)))
        count = claimed.length
      }
    }
    const ids = (await put('fresh', 1_200)).map((id) => id ?? 0)
    await put('skipped', 10)
    await settleAll('fresh', { state: 'dead', reason: 'refused' })
    now += DAY
    expect(await store.replay(ids, false)).toHaveLength(1_200)
    await settleAll('backlog', { state: 'done' })
    now += 1
    await sweepAll(store)
    expect(await rowCounts(opened.url)).toMatchObject({ deliveries: 1_200, done: 1_200 })
    now += DAY
    await sweepAll(store)
    expect(await rowCounts(opened.url)).toMatchObject({ deliveries: 0, done: 0 })
  })
})

describe('several processes', () => {
  test('each delivery is claimed by one of those that ask at once', async () => {
    await using six = await stores(6)
    await six.all[0]?.put(Array.from({ length: 300 }, () => newDelivery()))
    const claims = await Promise.all(
      six.all.flatMap((store) =>
        Array.from({ length: 5 }, () =>
          store.claim([{ destination: 'crm', lane: 'fresh', limit: 10 }]),
        ),
      ),
    )
    const ids = claims.flat().map(({ id }) => id)
    expect(ids).toHaveLength(300)
    expect(new Set(ids).size).toBe(300)
  })

  test('the same messages put by all of them at once, in any order, are stored once', async () => {
    await using four = await stores(4)
    const deliveries = Array.from({ length: 400 }, () => newDelivery())
    const put = await Promise.all(
      four.all.map((store, i) => store.put(i % 2 ? deliveries.toReversed() : deliveries)),
    )
    expect(put.flat().filter((id) => id !== undefined)).toHaveLength(400)
  })

  test('a delivery whose id is taken, as after a restore, is an error and never a duplicate', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    await store.put([newDelivery()])
    await server.query("SELECT setval('hookline.ids', 1, false)", [], one.url)
    await expect(store.put([newDelivery()])).rejects.toEqual(storeError('failed', /./))
  })

  test('who settles late, after another has claimed it, is refused', async () => {
    let now = 1_700_000_000_000
    await using two = await stores(2, { now: () => now })
    const [late, other] = two.all as [Store, Store]
    await late.put([newDelivery({ messageId: 'm', state: 'backlog' })])
    const [first] = await late.claim([{ destination: 'crm', lane: 'backlog', limit: 1 }])
    now += LEASE_MS
    const [second] = await other.claim([{ destination: 'crm', lane: 'backlog', limit: 1 }])
    expect(second).toMatchObject({ id: first?.id, attempt: 2 })
    expect(first && (await late.settle([settlement(first)]))).toBe(1)
    expect(await late.trace('m')).toMatchObject([{ state: 'leased' }])
    expect(second && (await other.settle([settlement(second)]))).toBe(0)
  })

  test('a put is told to the others, unless it is leased already', async () => {
    await using two = await stores(2)
    const [here, there] = two.all as [Store, Store]
    const own: string[] = []
    here.shared?.onPut((destination) => own.push(destination))
    const heard: string[] = []
    there.shared?.onPut((destination: string, lane: Lane) => heard.push(`${lane} ${destination}`))
    // The first notifications may be sent before the other store listens.
    await vi.waitUntil(async () => {
      await here.put([newDelivery({ destination: 'leased', state: 'leased' })])
      await here.put([newDelivery({ destination: 'c\0m', state: 'backlog' })])
      await here.put([newDelivery({ destination: 'list', state: 'bulk' })])
      return heard.length > 1
    }, 60_000)
    expect(new Set(heard)).toEqual(new Set(['backlog c\0m', 'bulk list']))
    expect(own).toEqual([])
  })

  test('a change of records is told to the others, and not to the process that made it', async () => {
    await using two = await stores(2)
    const [here, there] = two.all as [Store, Store]
    let [own, heard] = [0, 0]
    here.shared?.onRecords(() => own++)
    there.shared?.onRecords(() => heard++)
    let version = 0
    // The first notifications may be sent before the other store listens.
    await vi.waitUntil(async () => {
      const change = { kind: 'source', name: 'web', version, body: '{}' }
      version = (await here.writeRecords([change]))[0] ?? 0
      return heard > 0
    }, 60_000)
    await vi.waitUntil(async () => {
      const change = { kind: 'source', name: 'web', version, body: '{}' }
      version = (await there.writeRecords([change]))[0] ?? 0
      return own > 0
    }, 60_000)
    const heardBefore = heard
    await expect(
      here.writeRecords([{ kind: 'source', name: 'web', version: 0, body: '{}' }]),
    ).rejects.toMatchObject({ code: 'conflict' })
    expect(heard).toBe(heardBefore)
  })

  test('records that several processes change at once have versions in the order of their commits', async () => {
    await using three = await stores(3)
    const seen: number[] = []
    let isWriting = true
    const follow = async (store: Store) => {
      let at = 0
      for (;;) {
        const isLast = !isWriting
        const { records, revision } = await store.records(at, 1_000)
        seen.push(...records.map(({ version }) => version))
        at = revision
        if (isLast) return
      }
    }
    const following = follow(three.all[2] as Store)
    const write = async (store: Store, writer: string) => {
      for (let i = 0; i < 100; i++) {
        const names = [`${writer}-${i}-a`, `${writer}-${i}-b`]
        await store.writeRecords(
          names.map((name) => ({ kind: 'source', name, version: 0, body: '{}' })),
        )
      }
    }
    await Promise.all(
      three.all.slice(0, 2).flatMap((store, i) => [write(store, `x${i}`), write(store, `y${i}`)]),
    )
    isWriting = false
    await following
    // A version that became visible after a higher one would have been passed over.
    expect(seen).toEqual(Array.from({ length: 800 }, (_, i) => i + 1))
  })

  test('a notification that another program sends on the channel changes nothing', async () => {
    await using two = await stores(2)
    const [here, there] = two.all as [Store, Store]
    const heard: string[] = []
    there.shared?.onPut((destination, lane) => heard.push(`${lane} ${destination}`))
    const isHeard = () =>
      vi.waitUntil(async () => {
        await here.put([newDelivery()])
        return heard.length > 0
      }, 60_000)
    await isHeard()
    heard.length = 0
    const foreign = ['hello', '', 'null', '7', '{}', '[]', '["x","fresh"]', '["x","fresh",7]']
    foreign.push(
      '["x","record"]',
      '[null]',
      '["x","dead","crm"]',
      '["x","__proto__","crm"]',
      '["x",["fresh"],"crm"]',
    )
    for (const payload of foreign) {
      await server.query(`SELECT pg_notify('hookline_put_hookline', $1)`, [payload], two.url)
    }
    // Notifications come in the order in which they were sent, so that this one is the last.
    await isHeard()
    expect(new Set(heard)).toEqual(new Set(['fresh crm']))
  })

  test('a notification of a deletion is only believed if the messages are deleted', async () => {
    await using two = await stores(2)
    const [here, there] = two.all as [Store, Store]
    const removed: unknown[] = []
    there.onRemoved((ids) => removed.push(...ids))
    const [kept] = await here.put([newDelivery({ state: 'leased' })])
    const deleted: unknown[] = []
    await vi.waitUntil(async () => {
      deleted.push(...(await here.put([newDelivery({ state: 'leased', user: 'bob' })])))
      for (const what of [[kept], [String(kept)], [null, 0.5, {}], {}, 7]) {
        const payload = JSON.stringify(['x', 'removed', what])
        await server.query(`SELECT pg_notify('hookline_put_hookline', $1)`, [payload], two.url)
      }
      await here.purgeUser('bob', 0)
      return removed.some((id) => deleted.includes(id))
    }, 60_000)
    expect(removed.filter((id) => !deleted.includes(id))).toEqual([])
  })

  test('they count each other, without those that have been silent or left', async () => {
    let now = 1_700_000_000_000
    await using three = await stores(3, { now: () => now })
    const [one, two, three_] = three.all as [Store, Store, Store]
    expect(await one.shared?.workers.heartbeat()).toBe(1)
    expect(await two.shared?.workers.heartbeat()).toBe(2)
    expect(await one.shared?.workers.heartbeat()).toBe(2)
    now += WORKER_TIMEOUT_MS - 1
    expect(await three_.shared?.workers.heartbeat()).toBe(3)
    now += 1
    expect(await one.shared?.workers.heartbeat()).toBe(2)
    await three_.close()
    expect(await one.shared?.workers.heartbeat()).toBe(1)
  })

  test('leave when they close, though their first heartbeat is under way', async () => {
    await using two = await stores(2)
    const [one, other] = two.all as [Store, Store]
    const locking = new pg.Client(two.url)
    await locking.connect()
    await locking.query('BEGIN; LOCK TABLE hookline.workers')
    const heartbeat = one.shared?.workers.heartbeat()
    const closing = one.close()
    await locking.query('SELECT pg_sleep(0.1); ROLLBACK')
    await locking.end()
    expect(await heartbeat).toBe(1)
    await closing
    expect(await other.shared?.workers.heartbeat()).toBe(1)
  })

  test('those that join at once take no more than if they joined one by one', async () => {
    const most = 1 + 1 / 2 + 1 / 3 + 1 / 4
    for (let round = 0; round < 5; round++) {
      await using four = await stores(4)
      const counts = await Promise.all(
        four.all.map(async (one) => one.shared?.workers.heartbeat() ?? 0),
      )
      const shares = counts.reduce((sum, count) => sum + 1 / count, 0)
      expect(shares, counts.join()).toBeLessThan(most + 0.001)
    }
  })

  test('one of all has the permission to probe an endpoint, until it runs out or the endpoint is healthy', async () => {
    let now = 1_700_000_000_000
    await using ten = await stores(10, { now: () => now })
    const probes = async (endpoint = 'https://a.example.com/') =>
      (
        await Promise.all(
          ten.all.map(
            async (store) => await store.shared?.workers.tryProbes([endpoint], 1_000, 3_000),
          ),
        )
      )
        .flat()
        .filter((holdMs) => holdMs !== 0)
    const nobody = Array.from(ten.all, () => undefined)
    expect(await probes()).toEqual(nobody)
    for (const endpoint of ['https://a.example.com/', 'https://b.example.com/']) {
      await ten.all[0]?.shared?.workers.noteDown([{ endpoint, forMs: 0 }], 1_000, 3_000)
    }
    expect(await probes()).toEqual([1_000])
    expect(await probes()).toEqual([])
    expect(await probes('https://b.example.com/')).toEqual([1_000])
    for (const [heldMs, nextMs] of [
      [1_000, 2_000],
      [2_000, 3_000],
      [3_000, 3_000],
    ] as const) {
      now += heldMs - 1
      expect(await probes()).toEqual([])
      now += 1
      expect(await probes()).toEqual([nextMs])
    }
    await ten.all[3]?.shared?.workers.endProbes(['https://a.example.com/'])
    expect(await probes()).toEqual(nobody)
    const again = { endpoint: 'https://a.example.com/', forMs: 0 }
    await ten.all[5]?.shared?.workers.noteDown([again], 1_000, 3_000)
    expect(await probes()).toEqual([1_000])
  })

  test('they tell and ask of many endpoints at once, in any order', async () => {
    let now = 1_700_000_000_000
    await using four = await stores(4, { now: () => now })
    const all = four.all.map((store) => store.shared?.workers) as Workers[]
    const endpoints = Array.from({ length: 300 }, (_, n) => `crm https://${n}.example.com/`)
    const orders = all.map((_, n) => (n % 2 ? endpoints.toReversed() : endpoints))
    const times = [1_000, 30_000] as const
    for (let round = 0; round < 20; round++) {
      await Promise.all(
        all.map(async (workers, n) => {
          const order = orders[n] ?? []
          const down = order.map((endpoint) => ({ endpoint, forMs: 0 }))
          await workers.noteDown(down, ...times)
          await workers.tryProbes(order, ...times)
          await workers.endProbes(order)
        }),
      )
    }
    const [first] = all as [Workers]
    const down = endpoints.slice(0, 200).map((endpoint, n) => ({ endpoint, forMs: n % 2 }))
    await first.noteDown(down, ...times)
    const answers = await Promise.all(
      all.map((workers, n) => workers.tryProbes(orders[n] ?? [], ...times)),
    )
    const held = answers.map((holds, n) => (n % 2 ? holds.toReversed() : holds))
    for (const n of endpoints.keys()) {
      const own = held.map((holds) => holds[n])
      // Each endpoint is permitted to one worker.
      if (n < 200) expect(own.toSorted()).toEqual(n % 2 ? [0, 0, 0, 0] : [0, 0, 0, 1_000])
      else expect(own).toEqual(all.map(() => undefined))
    }
    now += 1_000
    await first.endProbes(endpoints.slice(0, 199))
    expect(await first.findDown(30_000)).toEqual([{ endpoint: endpoints[199], forMs: 0 }])
  })

  test('an endpoint that one has found down is found by the others until it is healthy, or nobody asks any more', async () => {
    let now = 1_700_000_000_000
    await using two = await stores(2, { now: () => now })
    const [one, other] = two.all.map((store) => store.shared?.workers) as [Workers, Workers]
    const found = async () => (await other.findDown(30_000)).map(({ forMs }) => forMs)
    const [endpoint, times] = ['crm\0 https://a.example.com/', [1_000, 30_000]] as const
    expect(await found()).toEqual([])
    await one.noteDown([{ endpoint, forMs: 5_000 }], ...times)
    await other.noteDown([{ endpoint, forMs: 1_000 }], ...times)
    expect(await other.findDown(30_000)).toEqual([{ endpoint, forMs: 5_000 }])
    expect(await other.tryProbes([endpoint], ...times)).toEqual([0])
    now += 5_000
    expect(await found()).toEqual([0])
    expect(await other.tryProbes([endpoint], ...times)).toEqual([1_000])
    // The permissions go on to grow, and last as long as before.
    now += 1_000
    await one.noteDown([{ endpoint, forMs: 200 }], ...times)
    now += 200
    expect(await one.tryProbes([endpoint], ...times)).toEqual([2_000])
    expect(await found()).toEqual([2_000])
    await one.endProbes([endpoint])
    expect(await found()).toEqual([])
    await one.noteDown([{ endpoint, forMs: 0 }], ...times)
    now += 30_000
    expect(await found()).toEqual([])
    await one.noteDown([{ endpoint, forMs: 1_000 }], ...times)
    expect(await found()).toEqual([1_000])
  })

  test('an outage whose end nobody recorded does not make the probes of the next one rarer', async () => {
    let now = 1_700_000_000_000
    await using one = await stores(1, { now: () => now })
    const [endpoint, times] = ['https://a.example.com/', [1_000, 30_000]] as const
    await one.all[0]?.shared?.workers.noteDown([{ endpoint, forMs: 0 }], ...times)
    const probe = async () =>
      (await one.all[0]?.shared?.workers.tryProbes([endpoint], ...times))?.[0]
    for (const holdMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
      expect(await probe()).toBe(holdMs)
      now += holdMs
    }
    now += 29_999
    expect(await probe()).toBe(30_000)
    now += 30_000 + 30_000
    expect(await probe()).toBe(1_000)
    now += 1_000
    expect(await probe()).toBe(2_000)
  })
})

test('a claim goes by indexes and sorts nothing that waits, whatever the planner knows of the tables', async () => {
  await using one = await stores(1)
  const url = one.url
  await one.all[0]?.put([newDelivery()])
  await server.query(
    `INSERT INTO hookline.deliveries
       SELECT nextval('hookline.ids'), 1, source, destination, type, 'm' || n, 'u', '', NULL, repeat('x', 300)
       FROM hookline.deliveries, generate_series(1, 30000) n;
     INSERT INTO hookline.waiting SELECT id, 1 + id % 100, NULL, NULL, destination, 0, 0, false
       FROM hookline.deliveries WHERE received_at = 1`,
    undefined,
    url,
  )
  // The steps that choose what to lease of the rows that were found leave out fewer than 100.
  const claims = [0, 1].map((state) => ({ name: 'crm', state, count: 90, start: 0, n: state + 1 }))
  const plan = async (): Promise<string> => {
    const rows = await server.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) ${claimStatement('hookline')}`,
      [null, JSON.stringify(claims)],
      url,
    )
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  for (const known of ['nothing', 'all']) {
    if (known === 'all')
      await server.query('ANALYZE hookline.waiting, hookline.deliveries', [], url)
    const text = await plan()
    expect(text).not.toMatch(/Seq Scan/)
    expect(text).toMatch(/Index Scan using waiting_due on waiting \(actual rows=(45|90)/)
    // The only sort is the one of the rows that were found.
    expect(text.match(/Sort Key/g)).toHaveLength(1)
    expect(text).not.toMatch(/Removed by (Join )?Filter: \d{3,}/)
  }
})

describe('claims that follow each other', () => {
  const SECOND = 1_000

  /** A store with a clock of its own, whose lane has been claimed in part: it has a start. */
  async function claimed(count: number) {
    let now = 1_700_000_000_000
    const opened = await stores(1, { now: () => now })
    const [store] = opened.all as [Store]
    const putAt = async (at: number, ...messageIds: string[]) => {
      const before = now
      now = at
      await store.put(messageIds.map((messageId) => newDelivery({ messageId })))
      now = before
    }
    const claim = async (limit: number) =>
      (await store.claim([{ destination: 'crm', lane: 'fresh', limit }])).map(
        ({ messageId }) => messageId,
      )
    await putAt(now, ...Array.from({ length: count }, (_, n) => `m${n}`))
    expect(await claim(count - 1)).toHaveLength(count - 1)
    const advance = (ms: number) => {
      now += ms
    }
    return Object.assign(opened, { now, putAt, claim, advance })
  }

  test('find what became visible late, in the order in which it was due', async () => {
    await using opened = await claimed(3)
    await opened.putAt(opened.now - SECOND, 'late')
    expect(await opened.claim(3)).toEqual(['late', 'm2'])
  })

  test('find what was due long before, once nothing else is left or a second is over, and say so', async () => {
    await using opened = await claimed(3)
    const { now, putAt, claim } = opened
    await putAt(now - 60 * SECOND, 'old', 'older')
    expect(await claim(1)).toEqual(['m2'])
    expect(await claim(1)).toEqual(['old'])
    await putAt(now, 'new')
    const clock = vi.spyOn(performance, 'now')
    const at = performance.now()
    try {
      clock.mockReturnValue(at + SECOND)
      expect(await claim(9)).toEqual(['older', 'new'])
    } finally {
      clock.mockRestore()
    }
  })

  test('find leases that have run out in a lane that is never empty, and put them into the backlog', async () => {
    await using opened = await claimed(3)
    const { now, putAt, claim, advance, all } = opened
    const [store] = all as [Store]
    const told = new Set<string>()
    store.shared?.onPut((_, lane) => told.add(lane))
    advance(LEASE_MS)
    await putAt(now + LEASE_MS, 'n1', 'n2', 'n3')
    const clock = vi.spyOn(performance, 'now')
    const at = performance.now()
    try {
      clock.mockReturnValue(at + SECOND)
      expect(await claim(2)).toEqual(['m2', 'n1'])
      expect([...told]).toEqual(['backlog'])
    } finally {
      clock.mockRestore()
    }
    const lapsed = await store.claim([{ destination: 'crm', lane: 'backlog', limit: 9 }])
    expect(lapsed).toMatchObject([
      { messageId: 'm0', attempt: 2, attemptsBefore: 1, dueForMs: 0 },
      { messageId: 'm1', attempt: 2, attemptsBefore: 1, dueForMs: 0 },
    ])
  })

  test('do not read the entries of all that was claimed before', async () => {
    await using opened = await claimed(2)
    const { url } = opened
    await server.query('ALTER TABLE hookline.waiting SET (autovacuum_enabled = off)', [], url)
    // A transaction that stays open keeps the server from removing the entries.
    const reader = new Connection(parseUrl(url))
    await reader.transact(async (query) => {
      await query('SELECT pg_current_xact_id(), count(*) FROM hookline.waiting')
      await server.query(
        `INSERT INTO hookline.waiting (id, due_at, destination, attempt, state, leased)
           SELECT 1000 + n, n, destination, 0, 0, false
           FROM (SELECT destination FROM hookline.waiting LIMIT 1) one, generate_series(1, 20000) n;
         DELETE FROM hookline.waiting WHERE id > 1000`,
        undefined,
        url,
      )
      const buffersOf = async (start: number) => {
        const claims = [{ name: 'crm', state: 0, count: 1, start, n: 1 }]
        const [row] = await server.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
          `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${claimStatement('hookline')}`,
          [null, JSON.stringify(claims)],
          url,
        )
        return row?.['QUERY PLAN'][0].Plan['Shared Hit Blocks'] ?? 0
      }
      expect(await buffersOf(0)).toBeGreaterThan(100)
      expect(await buffersOf(opened.now - SECOND)).toBeLessThan(50)
    })
    await reader.close()
  })
})

/** A step of a plan, as `EXPLAIN (ANALYZE, FORMAT JSON)` describes it. */
interface PlanNode {
  'Shared Hit Blocks': number
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Join Filter'?: number
  Plans?: PlanNode[]
}

/** The most rows that one step of a plan reads. */
function mostRows(node: PlanNode): number {
  const read =
    node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Join Filter'] ?? 0)
  return Math.max(read * node['Actual Loops'], ...(node.Plans ?? []).map(mostRows))
}

describe('many settlements while the planner believes that nothing waits', () => {
  const COUNT = 3_000

  /** Leases deliveries of which the planner does not know: it last looked while the rows of others were deleted. */
  async function leasedUnknown() {
    const url = await server.database()
    const store = await openStore(url)
    const lease = (prefix: string) =>
      store.put(
        Array.from({ length: COUNT }, (_, n) =>
          newDelivery({ messageId: `${prefix}${n}`, state: 'leased' }),
        ),
      )
    await server.query('ALTER TABLE hookline.waiting SET (autovacuum_enabled = off)', [], url)
    await lease('gone')
    await server.query('DELETE FROM hookline.waiting', [], url)
    await server.query('ANALYZE hookline.waiting', [], url)
    const ids = (await lease('m')) as number[]
    return { url, store, ids, [Symbol.asyncDispose]: () => store.close() }
  }

  const log = [{ post: 0, url_n: 1, code_n: 1, status: 500, ms: 1, error: null, response: '' }]
  const settleAs = (state: number) => (ids: number[]) => ({
    text: settleStatement('hookline'),
    values: [
      null,
      JSON.stringify(ids.map((id, n) => ({ n, id, attempt: 1, state, delay: 0, log }))),
      '["web"]',
    ],
  })
  const arrive = (ids: number[]) => {
    const ones = ids.map(() => 1)
    const values = [
      null,
      '["web"]',
      ...[ids, ones, ones, ones, ones, ones, ids].map((list) => `{${list.join()}}`),
    ]
    return { text: arrivedStatement('hookline'), values }
  }

  test.each([
    ['done', settleAs(4)],
    ['to be tried again', settleAs(1)],
    ['done after a single request', arrive],
  ])('read each row once, if they are %s', async (_, toStatement) => {
    await using opened = await leasedUnknown()
    const { url, ids } = opened
    const { text, values } = toStatement(ids)
    const literals = values.map((value) => (value === null ? 'NULL' : `'${value}'`))
    const connection = new Connection(parseUrl(url))
    // The planner does not know how many there are, as it does not for the store's statements.
    const plan = await connection.transact(async (query) => {
      await query('SET LOCAL plan_cache_mode = force_generic_plan')
      await query(`PREPARE settling AS ${text}`)
      const [row] = await query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE settling (${literals.join()})`,
      )
      return row?.['QUERY PLAN'][0].Plan
    })
    await connection.close()
    expect(mostRows(plan as PlanNode)).toBe(COUNT)
  })

  test('that do not fit into one statement are all accepted, and again after a failure', async () => {
    await using opened = await leasedUnknown()
    const { url, store, ids } = opened
    const settlements = ids.map((id) => settlement({ id, attempt: 1 }))
    await server.query(
      `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'no room'; END $$;
       CREATE TRIGGER fail BEFORE INSERT ON hookline.done FOR EACH ROW WHEN (NEW.id = ${ids.at(-1)})
         EXECUTE FUNCTION fail()`,
      undefined,
      url,
    )
    await expect(store.settle(settlements)).rejects.toEqual(storeError('full', /no room/))
    await server.query('DROP TRIGGER fail ON hookline.done', [], url)
    expect(await store.settle(settlements)).toBe(0)
    expect(await store.settle(settlements)).toBe(COUNT)
    expect(await server.query('SELECT FROM hookline.done', [], url)).toHaveLength(COUNT)
  })
})

describe('a claim of more than is read at once', () => {
  /** Puts `count` messages for each destination and counts the lanes that the store reports. */
  async function put(count: number, destinations: string[], body = '{}') {
    const url = await server.database()
    let now = 1_000_000
    const store = await openStore(unhurried(url), { now: () => now })
    for (const destination of destinations) {
      await store.put(Array.from({ length: count }, () => newDelivery({ destination, body })))
    }
    const told: string[] = []
    store.shared?.onPut((destination) => told.push(destination))
    const claim = async (limit = count): Promise<Record<string, number>> => {
      told.length = 0
      const claimed = await store.claim(
        destinations.map((destination) => ({ destination, lane: 'fresh', limit })),
      )
      expect(claimed.every((delivery) => delivery.body === body)).toBe(true)
      const counts = destinations.map((name) => [
        name,
        claimed.filter(({ destination }) => destination === name).length,
      ])
      return Object.fromEntries(counts.filter(([, number]) => number !== 0)) as never
    }
    return {
      url,
      store,
      told,
      claim,
      advance: (ms: number) => {
        now += ms
      },
      [Symbol.asyncDispose]: () => store.close(),
    }
  }

  test('has so many rows that its locks are short, and each lane has its turn', async () => {
    await using waiting = await put(900, ['a', 'b', 'c'])
    const { claim, told } = waiting
    expect(await claim()).toEqual({ a: 900, b: 900, c: 200 })
    expect(told).toEqual(['c'])
    await waiting.store.put([newDelivery({ destination: 'a', body: '{}' })])
    expect(await claim(100)).toEqual({ a: 1, c: 100 })
    // Both got all that they asked for before, so that they were not searched from their beginnings.
    expect(told).toEqual(['a', 'b'])
    expect(await claim(100)).toEqual({ c: 100 })
    expect(told).toEqual([])
  })

  test('begins with the lane that got nothing the last time', async () => {
    await using waiting = await put(1_100, ['a', 'b', 'c'])
    const { claim, told } = waiting
    expect(await claim()).toEqual({ a: 1_100, b: 900 })
    expect(told).toEqual(['b', 'c'])
    await waiting.store.put(
      Array.from({ length: 800 }, () => newDelivery({ destination: 'a', body: '{}' })),
    )
    expect(await claim()).toEqual({ a: 700, b: 200, c: 1_100 })
    expect(told).toEqual(['a'])
  })

  test('has so many bytes that they fit into memory', async () => {
    const body = JSON.stringify('x'.repeat(3 * 1_048_576))
    await using waiting = await put(4, ['a', 'b', 'c'], body)
    const { claim, told } = waiting
    expect(await claim()).toEqual({ a: 4, b: 2 })
    expect(told).toEqual(['b', 'c'])
    expect(await claim()).toEqual({ b: 2, c: 4 })
    expect(await claim()).toEqual({})
    expect(told).toEqual([])
  })

  test('loses nothing if the bodies cannot be read after the lease', async () => {
    await using waiting = await put(3, ['a'])
    const { store, url, claim, advance } = waiting
    const rename = (from: string, to: string) =>
      server.query(`ALTER TABLE hookline.deliveries RENAME ${from} TO ${to}`, [], url)
    await rename('trace_parent', 'gone')
    await expect(claim()).rejects.toEqual(storeError('failed', /trace_parent/))
    await rename('gone', 'trace_parent')
    expect(await claim()).toEqual({})
    advance(LEASE_MS)
    expect(await claim()).toEqual({})
    const again = await store.claim([{ destination: 'a', lane: 'backlog', limit: 9 }])
    expect(again).toMatchObject([{ attempt: 2 }, { attempt: 2 }, { attempt: 2 }])
  })

  test('keeps no row locked for a process that reads no answer', async () => {
    await using waiting = await put(
      2_000,
      ['a'],
      JSON.stringify(randomBytes(4_000).toString('hex')),
    )
    const { url } = waiting
    const proxy = await startProxy(server.port)
    const store = await openStore(url.replace(`:${server.port}/`, `:${proxy.port}/`), {
      now: () => 1_000_000,
    })
    expect(await store.claim([{ destination: 'a', lane: 'backlog', limit: 1 }])).toEqual([])
    proxy.stopReading()
    const claiming = store.claim([{ destination: 'a', lane: 'fresh', limit: 2_000 }])
    claiming.catch(() => undefined)
    const unlocked = 'SELECT FROM hookline.waiting WHERE leased FOR UPDATE SKIP LOCKED'
    await vi.waitUntil(async () => (await server.query(unlocked, [], url)).length === 2_000, 4_000)
    await proxy[Symbol.asyncDispose]()
    await expect(claiming).rejects.toEqual(storeError('failed', /./))
    await store.close()
  })
})

// The server can do this only where the system has the option TCP_USER_TIMEOUT.
test.runIf(process.platform === 'linux')(
  'the server ends the connection of a process that takes no answer after 10 s',
  async () => {
    const connection = new Connection(parseUrl(await server.database()))
    expect(await connection.query('SHOW tcp_user_timeout')).toEqual([{ tcp_user_timeout: '10000' }])
    await connection.close()
  },
)

test('just-in-time compilation is off on each connection although the server has it on, beside the PGOPTIONS of the user', async () => {
  const url = await server.database()
  await server.query(`ALTER DATABASE ${parseUrl(url).database} SET jit = on`)
  vi.stubEnv('PGOPTIONS', '-c work_mem=7MB')
  const connection = new Connection(parseUrl(url))
  const listener = connection.createClient()
  await listener.connect()
  const text = `SELECT current_setting('jit') AS jit, current_setting('work_mem') AS memory`
  const settings = [{ jit: 'off', memory: '7MB' }]
  expect(await connection.query(text)).toEqual(settings)
  expect(await connection.transactAlone((query) => query(text))).toEqual(settings)
  expect((await listener.query(text)).rows).toEqual(settings)
  await Promise.all([listener.end(), connection.close()])
  vi.unstubAllEnvs()
})

describe('after the clock of the server was hours ahead, and was set back', () => {
  const HOUR = 3_600_000
  const DAY = 24 * HOUR

  test('an endpoint is probed, and workers that ended do not count', async () => {
    let time = Date.now()
    await using both = await openStores(server, 2, { now: () => time })
    const [store, gone] = both.all as [Required<Store>, Required<Store>]
    const [endpoint, other] = ['crm http://a/', 'crm http://b/']
    await store.shared.workers.heartbeat()

    time += 5 * 3_600_000
    await gone.shared.workers.heartbeat()
    const down = [endpoint, other].map((name) => ({ endpoint: name, forMs: 4_000 }))
    await gone.shared.workers.noteDown(down, 1_000, 30_000)

    time -= 5 * 3_600_000
    expect(await store.shared.workers.heartbeat()).toBe(1)
    expect(await store.shared.liveWorkers()).toBe(0)
    expect(await store.shared.workers.findDown(30_000)).toContainEqual({ endpoint, forMs: 0 })
    expect(await store.shared.workers.tryProbes([endpoint], 1_000, 30_000)).toEqual([1_000])
    expect(await store.shared.workers.tryProbes([endpoint], 1_000, 30_000)).toEqual([0])
    await store.shared.workers.noteDown([{ endpoint: other, forMs: 2_000 }], 1_000, 30_000)
    expect(await store.shared.workers.findDown(30_000)).toContainEqual({
      endpoint: other,
      forMs: 2_000,
    })
  })

  /** Stores of two processes, on a server whose clock is ahead by so much, and is set back then. */
  async function ahead(hours: number) {
    let time = Date.now() + hours * HOUR
    const both = await openStores(server, 2, { now: () => time })
    const pass = (ms: number) => {
      time += ms
    }
    const setBack = () => {
      pass(-hours * HOUR)
    }
    const [store, other] = both.all as [Store, Store]
    const claim = async (lane: Lane, by = store) =>
      by.claim([{ destination: 'crm', lane, limit: 9 }])
    return Object.assign(both, { store, other, pass, setBack, claim })
  }

  const namesOf = (deliveries: Delivery[]) => deliveries.map(({ messageId }) => messageId)

  test('what was leased is claimed after the usual time, and may be settled until then', async () => {
    await using opened = await ahead(5)
    const { store, other, pass, setBack, claim } = opened
    await store.put(['lost', 'held'].map((messageId) => newDelivery({ messageId })))
    pass(-5 * HOUR)
    await store.put([newDelivery({ messageId: 'waits' })])
    pass(5 * HOUR)
    const [waits, lost, held] = (await claim('fresh')) as [Delivery, Delivery, Delivery]
    await store.put([newDelivery({ messageId: 'stored leased', state: 'leased' })])
    setBack()

    // Nobody holds what was put while the clock was ahead.
    expect(await store.due()).toEqual([{ destination: 'crm', lane: 'fresh' }])
    expect(await claim('fresh', other)).toEqual([])
    await other.sweep(DAY, 9)
    expect(await claim('backlog', other)).toEqual([])
    expect(await store.settle([settlement(held)])).toBe(0)
    pass(LEASE_MS)
    const again = await claim('backlog', other)
    expect(new Set(namesOf(again))).toEqual(new Set(['waits', 'lost', 'stored leased']))
    expect(again).toContainEqual(
      expect.objectContaining({ messageId: 'waits', attempt: 2, attemptsBefore: 1 }),
    )
    expect(await store.settle([settlement(lost), settlement(waits)])).toBe(2)
    expect(await other.settle(again.map((one) => settlement(one)))).toBe(0)
  })

  test('what waited for a retry, or was new, is due at the next sweep', async () => {
    await using opened = await ahead(5)
    const { store, pass, setBack, claim } = opened
    await store.put([newDelivery({ messageId: 'failed' })])
    const [failed] = (await claim('fresh')) as [Delivery]
    await store.settle([settlement(failed, { state: 'backlog', delayMs: 900_000 })])
    await store.put(['n1', 'n2'].map((messageId) => newDelivery({ messageId })))
    setBack()
    expect(await store.sweep(DAY, 2)).toBe(2)
    expect(await store.sweep(DAY, 2)).toBe(1)
    expect(namesOf(await claim('fresh'))).toEqual(['n1', 'n2'])
    const [retried] = (await claim('backlog')) as [Delivery]
    expect(retried).toMatchObject({ messageId: 'failed', attempt: 2, attemptsBefore: 0 })
    // Its window begins again: the time of its first attempt says nothing.
    await store.settle([settlement(retried, { state: 'backlog', delayMs: 1_000 })])
    pass(1_000)
    expect(await claim('backlog')).toMatchObject([{ attempt: 3, sinceFirstMs: 1_000 }])
  })

  test('a step of some minutes ends no lease, and makes no retry due', async () => {
    await using opened = await ahead(0.1)
    const { store, pass, setBack, claim } = opened
    await store.put(['failed', 'leased'].map((messageId) => newDelivery({ messageId })))
    const [failed] = (await claim('fresh')) as [Delivery, Delivery]
    // The longest wait, with its jitter.
    await store.settle([settlement(failed, { state: 'backlog', delayMs: 1_080_000 })])
    setBack()
    expect(await store.sweep(DAY, 9)).toBe(0)
    expect(await store.due()).toEqual([])
    expect([...(await claim('fresh')), ...(await claim('backlog'))]).toEqual([])
    pass(0.1 * HOUR + LEASE_MS)
    expect(await claim('fresh')).toEqual([])
    expect(namesOf(await claim('backlog'))).toEqual(['leased'])
    pass(1_080_000)
    expect(namesOf(await claim('backlog'))).toContain('failed')
  })

  test('what is being moved to another server stays where it is', async () => {
    await using opened = await ahead(0)
    const { store, url, claim } = opened
    await store.put([newDelivery()])
    await server.query(
      `UPDATE hookline.waiting SET leased = true, due_at = due_at + ${2 ** 42}`,
      [],
      url,
    )
    expect(await store.sweep(DAY, 9)).toBe(0)
    expect(await store.due()).toEqual([])
    expect(await claim('fresh')).toEqual([])
  })
})
