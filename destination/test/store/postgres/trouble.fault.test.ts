// What a store does while its server fails, is away, or refuses.
import { setTimeout } from 'node:timers/promises'
import { afterAll, describe, expect, test } from 'vitest'
import { startDestination } from '../../../src/destination.js'
import { Connection } from '../../../src/store/postgres/connection.js'
import { migrate, MIGRATIONS } from '../../../src/store/postgres/schema.js'
import { parseUrl } from '../../../src/store/postgres/url.js'
import { openStore } from '../../../src/store/open.js'
import { openPostgres } from '../../../src/store/postgres/store.js'
import type { Copy, NewDelivery } from '../../../src/model/delivery.js'
import type { Store } from '../../../src/store/store.js'
import { SHARES } from '../../../src/store/shares.js'
import { StoreError } from '../../../src/store/store-error.js'
import { destination, freePort, post, settingsFor, silent, track } from '../../run.js'
import { newDelivery, settlement } from '../contract.js'
import { refusal, startProxy } from './proxy.js'
import { startServer, type Server } from './server.js'
import { openStores, storeError } from './stores.js'

// fsync is off, which is faster: no test here simulates a power cut.
const server = await startServer({ fsync: 'off' })

afterAll(() => server.dispose())

const stores = (count: number) => openStores(server, count)

/** A server that writes to its disk late enough to lose, in a crash, what did not wait for that. */
const startLateServer = () =>
  startServer({ wal_writer_delay: '10s', wal_writer_flush_after: '1GB' })

/** From now on, commits do not wait for the disk, unless they ask for it. */
async function turnOffWaiting(late: Server): Promise<void> {
  await late.query('ALTER SYSTEM SET synchronous_commit = off')
  await late.query('SELECT pg_reload_conf()')
  const isOff = async () => (await late.query('SHOW synchronous_commit'))[0]
  await expect.poll(isOff).toEqual({ synchronous_commit: 'off' })
}

describe('when the server is in trouble', () => {
  test('a full disk is told as such, and what goes on is taken again', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    await server.query(
      `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'No space left on device'; END $$;
       CREATE TRIGGER full_disk BEFORE INSERT ON hookline.deliveries EXECUTE FUNCTION full_disk()`,
      undefined,
      one.url,
    )
    await expect(store.put([newDelivery()])).rejects.toEqual(storeError('full', /make room/))
    await server.query('DROP TRIGGER full_disk ON hookline.deliveries', undefined, one.url)
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
  })

  test('connections that are cut fail what is under way, and are made again', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    await store.put([newDelivery({ messageId: 'before' })])
    await server.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookline-destination'`,
    )
    // Only the first call may notice that an idle connection was cut.
    await store.trace('before').catch(() => undefined)
    expect(await store.trace('before')).toHaveLength(1)
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
  })

  test('what was done already is answered once it is on the standby, also after a restart', async () => {
    const primary = await startServer({ fsync: 'off' })
    const url = await primary.database()
    const store = await openPostgres(url, undefined, false, true)
    const settings = new Connection(parseUrl(url))
    const setStandby = async (name: string) => {
      await settings.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
      await settings.query('SELECT pg_reload_conf()')
    }
    const waiting = async () => {
      const text = `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
      const rows = await settings.query<{ pid: number }>(text)
      return rows.map(({ pid }) => pid)
    }
    await store.put([newDelivery()]) // writes the names
    const [copy] = (await store.copyOut(0, 1)) as [Copy]
    await setStandby('none')
    // Until the server has read its settings again, it waits for nobody.
    let count = 0
    let given: NewDelivery[] = []
    let first: Promise<unknown> = Promise.resolve()
    while ((await waiting()).length === 0) {
      given = [newDelivery({ messageId: `m${count++}` })]
      first = store.put(given).catch((error: unknown) => error)
      await Promise.race([first, setTimeout(200)])
    }
    for (const pid of await waiting())
      await settings.query('SELECT pg_terminate_backend($1)', [pid])
    expect(await first).toBeInstanceOf(StoreError)
    expect(await waiting()).toEqual([])

    const again = [
      store.put(given),
      store.copyIn([{ ...copy, messageId: `m${count - 1}` }]),
      store.asServer?.knows(given) ?? Promise.reject(new Error('It is no server.')),
      store.purgeUser('nobody', 0),
    ]
    await expect.poll(waiting).toHaveLength(again.length)
    await setStandby('')
    expect(await Promise.all(again)).toEqual([
      ...[[undefined], [false], [true]],
      { purged: 0, next: undefined },
    ])
    await Promise.all([store.close(), settings.close()])
    await primary.dispose()
  })

  test('a commit whose wait for the standby was cancelled is not answered as done', async () => {
    // A setting of the server, the database or the role may hide warnings.
    const primary = await startServer({ fsync: 'off', client_min_messages: 'error' })
    const url = await primary.database()
    const store = await openStore(url)
    await store.put([newDelivery()]) // writes the names
    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (nobody)'`)
    await primary.query('SELECT pg_reload_conf()')
    const waiting = `FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = '${new URL(url).pathname.slice(1)}'`
    const cancelled = new Set<number>()
    // Until the server has read its settings again, it waits for nobody.
    let given: NewDelivery[] = []
    let result: unknown
    while (cancelled.size === 0) {
      given = [newDelivery()]
      const put = store.put(given).catch((error: unknown) => error)
      while ((result = await Promise.race([put, setTimeout(50)])) === undefined) {
        const text = `SELECT pid, pg_cancel_backend(pid) ${waiting}`
        for (const { pid } of await primary.query<{ pid: number }>(text)) cancelled.add(pid)
      }
    }
    expect(result).toEqual(storeError('failed', /wait for a synchronous standby was cancelled/))
    expect(result).toMatchObject({ isUnreachable: true, isUnsure: true })
    const isThere = () =>
      primary.query('SELECT FROM pg_stat_activity WHERE pid = ANY ($1::int[])', [[...cancelled]])
    await expect.poll(isThere).toEqual([])

    await primary.query(`ALTER SYSTEM SET synchronous_standby_names = ''`)
    await primary.query('SELECT pg_reload_conf()')
    expect(await store.put(given)).toEqual([undefined])
    await store.close()
    await primary.dispose()
  })

  test('a cancelled wait for the standby is in the log, though it is not the first that fails', async () => {
    const primary = await startServer({ fsync: 'off' })
    const url = await primary.database()
    const setStandby = async (name: string) => {
      await primary.query(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`)
      await primary.query('SELECT pg_reload_conf()')
    }
    const errors: unknown[] = []
    const log = { ...silent, error: (details: object) => void errors.push(details) }
    const crm = destination([{ url: 'http://127.0.0.1:9/' }])
    const settings = settingsFor([crm], { store: `${url}?statement_timeout=500` })
    const running = await startDestination(settings, log, 'collector')
    expect((await post(running, [track('m1')])).status).toBe(200)
    await setStandby('FIRST 1 (nobody)')
    const timeout = 60_000
    const send = () => post(running, [track(crypto.randomUUID())])
    // Until the server has read its settings again, it waits for nobody. Then no answer comes in time.
    await expect.poll(async () => (await send()).status, { timeout }).toBe(503)
    expect(errors).toMatchObject([
      { error: expect.stringContaining('stopped answering') as string },
    ])

    const cancel = () =>
      primary.query(
        `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`,
      )
    const sendAndCancel = async () => {
      const refused = send()
      while (!(await Promise.race([refused, setTimeout(50)]))) await cancel()
      return [(await refused).status, errors.length]
    }
    await expect.poll(sendAndCancel, { timeout }).toEqual([503, 2])
    const told = expect.stringMatching(/standby was cancelled.*bring a standby back/) as string
    expect(errors.slice(1)).toEqual([{ error: told }])
    await setStandby('')
    await cancel()
    await running.close()
    await primary.dispose()
  })

  test('what was answered is on disk, though synchronous_commit was turned off meanwhile', async () => {
    const late = await startLateServer()
    const url = await late.database()
    const store = await openStore(url)
    await store.put([newDelivery({ messageId: 'dead' }), newDelivery({ messageId: 'done' })])
    const crash = async () => {
      await late.stop('immediate')
      await late.start()
      // Only the first call may notice that a connection was cut.
      for (let i = 0; i < 5; i++) await store.ping().catch(() => undefined)
    }
    const stateOf = async (messageId: string) => (await store.trace(messageId))[0]?.state

    await turnOffWaiting(late)
    await crash()

    await store.put([newDelivery({ messageId: 'put' })])
    await crash()
    expect(await stateOf('put')).toBe('fresh')

    const leased = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 10 }])
    expect(leased).toHaveLength(3)
    await store.settle(leased.map((one) => settlement(one, { state: 'dead', reason: 'x' })))
    await crash()
    expect(await stateOf('put')).toBe('dead')

    await store.replay(
      leased.map(({ id }) => id),
      false,
    )
    await crash()
    expect(await stateOf('put')).toBe('backlog')

    await store.writeRecords([{ kind: 'k', name: 'n', version: 0, body: '{}', entry: '{}' }])
    await crash()
    expect((await store.records(0, 10)).records).toHaveLength(1)

    await Promise.all([store.close(), late.dispose()])
  })

  test('each step of a move of shares is on disk, though synchronous_commit was turned off', async () => {
    const late = await startLateServer()
    const url = await late.database()
    const store = await openPostgres(url, undefined, false, true)
    if (!store.asServer) throw new Error('no server')
    const { moving } = store.asServer
    const share = 1
    const sharesOf = (what: string, table: string) =>
      late.query(`SELECT ${what} FROM hookline.${table} WHERE share = ${share}`, undefined, url)
    await turnOffWaiting(late)
    /** What the server has after a step and a crash. */
    const after = async (step: Promise<unknown>) => {
      await step
      await late.stop('immediate')
      await late.start()
      // Only the first calls may notice that a connection was cut.
      for (let i = 0; i < 5; i++) await store.ping().catch(() => undefined)
      const [directory] = await sharesOf('server, next, epoch::int', 'shares')
      const [own] = await sharesOf('epoch::int', 'own_shares')
      const [former] = await sharesOf('server, up_to::int', 'former_shares')
      return { directory, own, former }
    }
    await store.asServer.found(['a'])
    const divided = { directory: { server: 0, next: null, epoch: 1 } }
    expect(await after(store.asServer.divide(Array<number>(SHARES).fill(0)))).toEqual(divided)
    const first = { ...divided, own: { epoch: 1 } }
    expect(await after(moving.grant([{ share, epoch: 1 }]))).toEqual(first)
    const isIntended = { ...first, directory: { server: 0, next: 1, epoch: 1 } }
    expect(await after(moving.intend([{ share, epoch: 0 }], 1))).toEqual(isIntended)
    expect(await after(moving.giveUp([{ share, epoch: 1 }]))).toEqual(first)
    expect(await after(moving.intend([{ share, epoch: 0 }], 1))).toEqual(isIntended)
    const { directory } = isIntended
    expect(await after(moving.withdraw([{ share, epoch: 1 }]))).toEqual({ directory })
    const handed = {
      directory: { server: 1, next: null, epoch: 2 },
      former: { server: 0, up_to: null },
    }
    expect(await after(moving.handOver([{ share, epoch: 1 }]))).toEqual(handed)
    const finished = { ...handed, former: { server: 0, up_to: 7 } }
    expect(await after(moving.finish([share], 0, 7))).toEqual(finished)
    await store.close()
    await late.dispose()
  })

  test('a full queue of notifications stops no put, though a session of another database fills it', async () => {
    const small = await startServer({ fsync: 'off', max_notify_queue_pages: '64' })
    const [url, elsewhere] = [await small.database(), await small.database()]
    const [store, other] = [await openStore(url), await openStore(url)]
    // The queue keeps what a listener has not read. A listener does not read while its transaction is open.
    const neighbour = new Connection(parseUrl(elsewhere))
    const listener = neighbour.createClient()
    await listener.connect()
    await listener.query('LISTEN others')
    await listener.query('BEGIN')
    const fill = `SELECT pg_notify('others', repeat('x', 7000) || n) FROM generate_series(1, 50) n`
    const fillAll = async () => {
      for (;;) await neighbour.query(fill)
    }
    await expect(fillAll()).rejects.toThrow(/too many notifications/)

    expect(await store.put([newDelivery({ messageId: 'm1' })])).toEqual([expect.any(Number)])
    expect(await store.put([newDelivery({ messageId: 'm2' })])).toEqual([expect.any(Number)])
    expect(await other.claim([{ destination: 'crm', lane: 'fresh', limit: 9 }])).toMatchObject([
      { messageId: 'm1' },
      { messageId: 'm2' },
    ])
    await listener.end()
    await Promise.all([store.close(), other.close(), neighbour.close()])
    await small.dispose()
  })

  test('a statement that is not answered in time rejects, and the rest goes on', async () => {
    await using one = await stores(1)
    const store = await openStore(`${one.url}?statement_timeout=1000`)
    const locker = new Connection(parseUrl(one.url))
    await locker.transact(async (query) => {
      await query('LOCK TABLE hookline.deliveries')
      await expect(store.put([newDelivery()])).rejects.toEqual(storeError('failed', /lock|slow/))
    })
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
    await Promise.all([locker.close(), store.close()])
  })

  test('a statement that somebody cancels says so, and is no sign of a slow server', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    const locker = new Connection(parseUrl(one.url))
    await locker.transact(async (query) => {
      await query('LOCK TABLE hookline.deliveries')
      const put = store.put([newDelivery()]).catch((error: unknown) => error)
      const cancel = () =>
        server.query(
          `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`,
          [],
          one.url,
        )
      await expect.poll(cancel).toHaveLength(1)
      const error = await put
      expect(error).toEqual(storeError('failed', /user request: somebody cancelled it/))
      expect(error).toMatchObject({ mayPass: true })
    })
    await locker.close()
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
  })

  test('statements of one transaction each have their time', async () => {
    const connection = new Connection(parseUrl(`${server.url()}?statement_timeout=1000`))
    const texts = ['a', 'b', 'c', 'd', 'e'].map((name) => `SELECT '${name}' FROM pg_sleep(0.7)`)
    const all = connection.preparedAll(texts.map((text) => ({ text })))
    expect(await all).toHaveLength(texts.length)
    const slow = connection.preparedAll([{ text: 'SELECT 1' }, { text: 'SELECT pg_sleep(3)' }])
    await expect(slow).rejects.toEqual(storeError('failed', /statement timeout.*too slow/))
    await connection.close()
  })

  test('a server that goes silent within a transaction is noticed', async () => {
    await using proxy = await startProxy(server.port)
    const url = server.url().replace(`:${server.port}/`, `:${proxy.port}/`)
    const connection = new Connection(parseUrl(`${url}?statement_timeout=1000`))
    await connection.query('SELECT')
    const all = connection.preparedAll([{ text: 'SELECT 1' }, { text: 'SELECT pg_sleep(0.5)' }])
    await setTimeout(200)
    proxy.silence()
    await expect(all).rejects.toMatchObject({ isUnreachable: true, isUnsure: true })
    proxy.fix()
    expect(await connection.query('SELECT 1 AS one')).toEqual([{ one: 1 }])
    await connection.close()
  })

  test('a server that has gone silent is noticed, and another connection is made', async () => {
    const url = await server.database()
    await using proxy = await startProxy(server.port)
    const through = url.replace(`:${server.port}/`, `:${proxy.port}/`)
    const store = await openStore(`${through}?statement_timeout=1000`)
    await Promise.all(Array.from({ length: 5 }, (_, n) => store.trace(`${n}`)))
    proxy.silence()
    const failed = storeError('failed', /stopped answering|cut/)
    await Promise.all([
      expect(store.put([newDelivery()])).rejects.toEqual(failed),
      expect(store.stats()).rejects.toEqual(failed),
    ])
    proxy.fix()
    // The next put waits for none of the five connections that went silent.
    expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
    await store.close()
  })

  test.each([
    ['PgBouncer', 'statement_timeout', '08P01', 'unsupported startup parameter: statement_timeout'],
    ['PgBouncer 1.20', 'jit=off', '08P01', 'unsupported startup parameter in options: jit'],
    ['RDS Proxy', 'jit=off', '0A000', 'RDS Proxy currently doesn’t support command-line options.'],
  ])(
    'one in between that takes no settings, as %s, does without them',
    async (_, text, ...says) => {
      const url = await server.database()
      await using proxy = await startProxy(server.port, (first) =>
        first.includes(text) ? refusal(...says) : undefined,
      )
      const store = await openStore(url.replace(`:${server.port}/`, `:${proxy.port}/`))
      expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
      await store.close()
    },
  )

  test('one in between that refuses what every connection needs is asked twice, not for ever', async () => {
    const url = await server.database()
    let connections = 0
    await using proxy = await startProxy(server.port, () => {
      connections++
      return refusal('08P01', 'unsupported startup parameter: application_name')
    })
    const opening = openStore(url.replace(`:${server.port}/`, `:${proxy.port}/`))
    await expect(opening).rejects.toEqual(
      storeError('failed', /application_name.*ignore_startup_parameters/),
    )
    expect(connections).toBe(2)
  })

  test.each([
    ['pgbouncer cannot connect to server', true],
    ['server login has been failing, try again later (server_login_retry)', true],
    ['query_wait_timeout', true],
    ['unsupported startup parameter: application_name', false],
    ['no such database: hookline', false],
    ['password authentication failed', false],
  ])('PgBouncer says that %j, and waiting for the server helps: %s', async (message, helps) => {
    const url = await server.database()
    await using proxy = await startProxy(server.port, () => refusal('08P01', message))
    const opening = openStore(url.replace(`:${server.port}/`, `:${proxy.port}/`))
    await expect(opening).rejects.toMatchObject({ isUnreachable: helps })
  })

  test('while it is away every call says so, and once it is back they work again', async () => {
    await using one = await stores(1)
    const [store] = one.all as [Store]
    await store.put([newDelivery({ messageId: 'm' })])
    await server.stop('fast')
    try {
      const failed = storeError('failed', /cut|nothing listens there|stopping|ECONN/)
      await expect(store.put([newDelivery()])).rejects.toEqual(failed)
      await expect(store.claim([{ destination: 'crm', lane: 'fresh', limit: 1 }])).rejects.toEqual(
        failed,
      )
      await expect(openStore(one.url)).rejects.toEqual(storeError('failed', /start the server/))
    } finally {
      await server.start()
    }
    expect(await store.trace('m')).toHaveLength(1)
  })
})

test.each([
  {
    lack: 'has no right on the sequence of the ids',
    cause: 'REVOKE ALL ON SEQUENCE hookline.ids FROM helper',
    error: /permission denied for sequence ids: .*all rights on the tables and sequences/,
    remedy: 'GRANT USAGE ON SEQUENCE hookline.ids TO helper',
  },
  {
    lack: 'lacks the index of the messages',
    cause: 'DROP INDEX hookline.deliveries_message',
    error: /unique index .* was dropped.* CREATE UNIQUE INDEX deliveries_message/,
    remedy:
      'CREATE UNIQUE INDEX deliveries_message ON hookline.deliveries (message_id, source, destination)',
  },
])('a process that $lack is not ready, and does not start', async ({ cause, error, remedy }) => {
  await using one = await stores(1)
  const run = (text: string) => server.query(text, [], one.url)
  await run(
    `DO $$ BEGIN CREATE ROLE helper LOGIN PASSWORD 'h'; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
     GRANT USAGE ON SCHEMA hookline TO helper; GRANT ALL ON ALL TABLES IN SCHEMA hookline TO helper;
     GRANT USAGE ON ALL SEQUENCES IN SCHEMA hookline TO helper`,
  )
  const url = one.url.replace('hookline:secret', 'helper:h')
  const store = await openStore(url)
  await store.ping()
  await run(cause)
  const failed = storeError('failed', error)
  await expect(store.put([newDelivery()])).rejects.toEqual(failed)
  await expect(store.ping()).rejects.toEqual(failed)
  const settings = settingsFor([], { store: url })
  await expect(startDestination(settings, silent)).rejects.toEqual(failed)
  await run(remedy)
  await store.ping()
  await (await startDestination(settings, silent)).close()
  expect(await store.put([newDelivery()])).toEqual([expect.any(Number)])
  await store.close()
})

test('a connection that is cut while it is checked fails its call, and nothing else', async () => {
  await using proxy = await startProxy(server.port)
  const address = parseUrl(server.url().replace(`:${server.port}/`, `:${proxy.port}/`))
  const connection = new Connection(address)
  const checking = new Promise<void>((resolve) => {
    connection.checkEach(async (query) => {
      resolve()
      await query('SELECT pg_sleep(5)')
    })
  })
  const asked = expect(connection.query('SELECT 1')).rejects.toMatchObject({ isUnreachable: true })
  await checking
  proxy.leadTo(server.port)
  await asked
  await connection.close()
})

test('no connection to a silent server stays open once all are closed', async () => {
  await using proxy = await startProxy(server.port)
  const address = parseUrl(server.url().replace(`:${server.port}/`, `:${proxy.port}/`))
  const connection = new Connection(address)
  const listener = connection.createClient()
  await Promise.all([connection.query('SELECT 1'), listener.connect()])
  const sockets = () =>
    process.getActiveResourcesInfo().filter((type) => type === 'TCPSocketWrap').length
  const before = sockets()
  proxy.silence()
  void listener.end()
  await connection.close()
  // The proxy has both ends of its own open still.
  await expect.poll(sockets).toBe(before - 2)
})

test('a server that stops answering while the connections are closed is nothing to report', async () => {
  await using proxy = await startProxy(server.port)
  const address = parseUrl(server.url().replace(`:${server.port}/`, `:${proxy.port}/`))
  const connection = new Connection({ ...address, statementTimeoutMs: 100 })
  await connection.query('SELECT 1')
  proxy.silence()
  // As a notification that is under way at a stop. It is given up after 2.1 s, and a connection that says nothing a second after the end.
  const asked = expect(connection.query('SELECT 1')).rejects.toMatchObject({ isUnreachable: true })
  await setTimeout(1_500)
  // A rejection that nobody handles fails the run, and would end a process.
  await Promise.all([asked, connection.close()])
  await expect(connection.query('SELECT 1')).rejects.toEqual(storeError('failed', /closed/))
})

test('an upgrade waits for a long transaction, and holds up nobody else meanwhile', async () => {
  const url = await server.database()
  const [upgrading, dumping, other] = [url, url, url].map((one) => new Connection(parseUrl(one)))
  if (!upgrading || !dumping || !other) throw new Error('no connections')
  const steps = ['CREATE TABLE $.t (id int)', 'ALTER TABLE $.t ADD COLUMN name text']
  await migrate(upgrading, 'hookline', steps.slice(0, 1))
  await dumping.transact(async (query) => {
    await query('SELECT count(*) FROM hookline.t')
    const refused = expect(migrate(upgrading, 'hookline', steps)).rejects.toMatchObject({
      isUnreachable: true,
      message: expect.stringContaining('upgraded as soon as nobody else uses them') as string,
    })
    const waits = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER TABLE%'`
    await expect.poll(() => other.query(waits)).toHaveLength(1)
    // It fails if it has to wait for half of the time limit of a statement, which is 5 s.
    expect(await other.query('SELECT count(*) FROM hookline.t')).toEqual([{ count: 0 }])
    await refused
  })
  await migrate(upgrading, 'hookline', steps)
  expect(await other.query('SELECT name FROM hookline.t')).toEqual([])
  await Promise.all([upgrading, dumping, other].map((one) => one.close()))
})

test('a process that waits to upgrade the tables says so, and can be stopped', async () => {
  const url = await server.database()
  const connection = new Connection(parseUrl(url))
  await migrate(connection, 'hookline', MIGRATIONS.slice(0, 7))
  await connection.transact(async (query) => {
    await query('SELECT count(*) FROM hookline.waiting')
    const stop = new AbortController()
    const warned: unknown[] = []
    const log = { ...silent, warn: (details: object) => void warned.push(details) }
    const listen = { host: '127.0.0.1', port: await freePort() }
    const settings = settingsFor([], { store: url, listen })
    const starting = startDestination(settings, log, 'all', stop.signal)
    const ended = expect(starting).rejects.toMatchObject({ name: 'AbortError' })
    const health = async () =>
      (await fetch(`http://127.0.0.1:${listen.port}/healthz`).catch(() => undefined))?.status
    await expect.poll(health).toBe(200)
    expect(warned).toMatchObject([{ error: expect.stringContaining('upgraded as soon') as string }])
    stop.abort()
    await ended
  })
  await connection.close()
})
