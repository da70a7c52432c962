import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { startDestination } from '../../../src/destination.js'
import { migrateStore, type Migrated } from '../../../src/operate/migrate.js'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { runInside } from '../../cli/inside.js'
import { emptyFolder, start } from '../../cli/process.js'
import { silent } from '../../run.js'
import { startEndpoint } from '../../endpoint.js'
import { newDelivery, settlement } from '../contract.js'
import { startServer } from './server.js'

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

/** Fills a store: `waiting` deliveries are fresh, 10 have arrived, 9 wait for a retry and 1 is dead. */
async function fill(store: Store, waiting: number): Promise<void> {
  await store.put(Array.from({ length: 20 }, () => newDelivery()))
  const claimed = await store.claim([{ destination: 'crm', lane: 'fresh', limit: 20 }])
  await store.settle(
    claimed.map((delivery, i) => {
      if (i === 0) return settlement(delivery, { state: 'dead', reason: 'rejected' })
      if (i < 10) return settlement(delivery, { state: 'backlog', delayMs: 900_000 })
      return settlement(delivery)
    }),
  )
  await store.put(Array.from({ length: waiting }, () => newDelivery()))
}

function emptyFile(): string {
  const path = join(emptyFolder(), 'store.db')
  writeFileSync(path, '')
  return path
}

async function sqliteWith(waiting: number): Promise<string> {
  const url = `sqlite:${join(emptyFolder(), 'store.db')}`
  const store = await openStore(url)
  await fill(store, waiting)
  await store.close()
  return url
}

describe('migrate', () => {
  test('moves a live backlog, though it is killed in the middle, and it goes on from there', async () => {
    const [from, to] = [await sqliteWith(3_000), await server.database()]
    const args = ['migrate', '--from', from, '--to', to, '--json']
    const killed = start(args)
    await killed.printed(/"stage":"copy"/)
    killed.kill('SIGKILL')
    expect((await killed.ended).stdout).toBe('')
    const target = await openStore(to)
    const before = await target.count()
    expect(before).toBeGreaterThan(0)
    expect(before).toBeLessThan(3_020)

    const { code, stdout, stderr } = await runInside(args)
    expect(code, stderr).toBe(0)
    // The server may still have committed the last statement of the process that was killed.
    const { known } = JSON.parse(stdout) as Migrated
    expect(known).toBeGreaterThanOrEqual(before)
    const counts = { total: 3_020, moved: 3_020 - known, known, same: 3_020 }
    expect(JSON.parse(stdout)).toEqual({
      ...{ ...counts, ahead: 0, different: 0, differences: [] },
      records: { total: 0, moved: 0, known: 0 },
    })
    for (const line of stderr.trim().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ total: 3_020 })
    }
    expect(await target.stats()).toMatchObject([{ fresh: 3_000, backlog: 9, leased: 0, dead: 1 }])
    await target.close()

    const crm = await startEndpoint([204])
    const webhooks = [{ url: crm.url, headers: {}, concurrency: 128 }]
    const running = await startDestination(
      {
        listen: { host: '127.0.0.1', port: 0 },
        sources: [{ name: 'web', writeKey: 'key' }],
        destinations: [
          { name: 'crm', sources: ['web'], enabled: true, sharedSecret: undefined, webhooks },
        ],
        tenants: [],
        store: to,
        adminToken: undefined,
        allowNetworks: ['127.0.0.0/8'],
        ca: [],
        retentionMs: 86_400_000,
      },
      silent,
    )
    cleanUps.push(async () => {
      await running.close()
      await crm[Symbol.asyncDispose]()
    })
    // An attempt may time out on a busy machine, and be made again.
    const arrived = () => new Set(crm.received.map(({ headers }) => headers['x-message-id'])).size
    await expect.poll(arrived, { timeout: 300_000, interval: 200 }).toBe(3_000)
    await expect.poll(async () => (await running.stats())[0]?.fresh).toBe(0)

    // Deliveries that the new store has sent meanwhile do not count as different.
    const again = await runInside(args)
    const result = JSON.parse(again.stdout) as Migrated
    expect(result).toMatchObject({ moved: 0, known: 3_020, different: 0, ahead: 3_000 })
  }, 600_000)

  test('moves no members of audiences: in the second store, all of them join again', async () => {
    const [from, to] = [`sqlite:${join(emptyFolder(), 'store.db')}`, await server.database()]
    const joined = async (url: string): Promise<number> => {
      const store = await openStore(url)
      const sync = await store.beginSync('vip', [])
      const count = await store.join(sync, ['u1', 'u2'], [])
      await store.close()
      return count
    }
    expect([await joined(from), await joined(from)]).toEqual([2, 0])
    const { code, stderr } = await runInside(['migrate', '--from', from, '--to', to])
    expect(code, stderr).toBe(0)
    expect(await joined(to)).toBe(2)
  })

  test('moves the records with their log, and leaves those of the second store as they are', async () => {
    const [from, to] = [await sqliteWith(0), await server.database()]
    const names = Array.from({ length: 450 }, (_, i) => `name-${String(i).padStart(3, '0')}`)
    const store = await openStore(from)
    const versions = await store.writeRecords(
      names.map((name) => ({ kind: 'k', name, version: 0, body: `first ${name}`, entry: name })),
    )
    await store.writeRecords([
      { kind: 'k', name: 'name-000', version: versions[0] ?? 0, body: undefined, entry: 'deleted' },
      { kind: 'k', name: 'name-001', version: versions[1] ?? 0, body: 'second' },
    ])
    const log = await store.recordLog(undefined, undefined, 1_000)
    await store.close()
    const target = await openStore(to)
    cleanUps.push(() => target.close())
    await target.writeRecords([{ kind: 'k', name: 'name-002', version: 0, body: 'mine' }])

    const { code, stdout } = await runInside(['migrate', '--from', from, '--to', to])
    expect(code).toBe(0)
    expect(stdout).toContain(
      'Records of settings and of the states of destinations: 449. Moved: 448. Already in the second store: 1.\n',
    )
    const again = await runInside(['migrate', '--from', from, '--to', to, '--json'])
    expect(JSON.parse(again.stdout)).toMatchObject({
      records: { total: 449, moved: 0, known: 449 },
    })
    const { records } = await target.records(0, 1_000)
    const bodies = new Map(records.map(({ name, body }) => [name, body]))
    expect(bodies).toEqual(
      new Map([
        ['name-002', 'mine'],
        ...names.slice(3).map((name) => [name, `first ${name}`] as const),
        ['name-001', 'second'],
      ]),
    )
    const moved = await target.recordLog(undefined, undefined, 1_000)
    const withoutId = (entries: typeof log) => entries.map((entry) => ({ ...entry, id: 0 }))
    expect(withoutId(moved)).toEqual(withoutId(log))
  })

  test('does not copy the charts', async () => {
    const [from, to] = [await sqliteWith(0), await server.database()]
    const [first, second] = [await openStore(from), await openStore(to)]
    cleanUps.push(
      () => first.close(),
      () => second.close(),
    )
    const url = 'https://a.example.com/'
    const counts = { destination: 'crm', url, delivered: 1, failed: 0, busy: 0, bins: [1] }
    await first.addHistory([{ ...counts, breaker: 'closed' }])
    expect((await migrateStore(first, second)).different).toBe(0)
    const rows = [first, second].map((store) => store.history('1h', 0, undefined, 1))
    expect((await Promise.all(rows)).map(({ length }) => length)).toEqual([1, 0])
  })

  test('says in words what it does, and ends with 1 if something is otherwise', async () => {
    const [from, to] = [await sqliteWith(10), await server.database()]
    const first = await runInside(['migrate', '--from', from, '--to', to])
    expect(first.code, first.stderr).toBe(0)
    expect(first.stderr).toContain('moving: 30 of 30\ncomparing: 30 of 30\n')
    expect(first.stdout).toContain('Deliveries: 30. Moved: 30. Already in the second store: 0.\n')
    expect(first.stdout).not.toContain('secret')
    await server.query(
      `UPDATE hookline.deliveries SET body = 'x' WHERE id = (SELECT min(id) FROM hookline.deliveries)`,
      [],
      to,
    )
    const second = await runInside(['migrate', '--from', from, '--to', to])
    expect(second.code).toBe(1)
    expect(second.stdout).toContain(
      '29 equal, 0 already further on in the second store, 1 different.\n',
    )
    expect(second.stdout).toMatch(/ {2}"[\w-]+" from web to crm: body\n/)
  })

  test('says which store can not be opened, and why', async () => {
    const from = await sqliteWith(0)
    const to = 'postgres://u:hush@127.0.0.1:1/db'
    const { code, stderr } = await runInside(['migrate', '--from', from, '--to', to])
    expect(code).toBe(1)
    expect(stderr).toContain('--to: store: postgres://u@127.0.0.1:1/db')
    expect(stderr).not.toContain('hush')
    const holder = await openStore(from)
    cleanUps.push(() => holder.close())
    const locked = await runInside(['migrate', '--from', from, '--to', await server.database()])
    expect(locked).toMatchObject({ code: 1 })
    expect(locked.stderr).toMatch(/^--from: .*another running process/)
  })

  test.each([
    ['a file', () => `sqlite:${join(emptyFolder(), 'data', 'hooklin.db')}`, /Check the path/],
    ['a folder', () => `sqlite:${emptyFolder()}`, /expected the file/],
    ['an empty file', () => `sqlite:${emptyFile()}`, /there is no store at/],
    ['a schema', async () => `${await server.database()}?schema=hooklin`, /Check the database and/],
  ])('from %s without a store is wrong usage, and creates nothing', async (_, name, fix) => {
    const from = await name()
    const to = join(emptyFolder(), 'new.db')
    const { code, stdout, stderr } = await runInside([
      'migrate',
      '--from',
      from,
      '--to',
      `sqlite:${to}`,
    ])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(/^--from: .*there is no store .*Nothing was created\.\n$/)
    expect(stderr).toMatch(fix)
    expect(stderr).not.toContain('secret')
    expect(readdirSync(dirname(to))).toEqual([])
    if (from.startsWith('sqlite:')) {
      const path = from.slice('sqlite:'.length)
      expect(existsSync(`${path}-lock`)).toBe(false)
      expect(existsSync(path)).toBe(fix.source !== 'Check the path')
    } else {
      const text = `SELECT FROM pg_namespace WHERE nspname = 'hooklin'`
      expect(await server.query(text, [], from.replace(/\?.*/, ''))).toEqual([])
    }
  })

  test('of a wrong URL is wrong usage', async () => {
    const from = await sqliteWith(0)
    const { code, stderr } = await runInside(['migrate', '--from', from, '--to', 'x.db'])
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/^--to: store: expected sqlite: and a path/) as string,
    })
  })

  test('is refused while workers deliver from the first store, and works once they have left', async () => {
    const from = await server.database()
    const worker = await openStore(from)
    cleanUps.push(() => worker.close())
    await fill(worker, 10)
    await worker.shared?.workers.heartbeat()
    const to = `sqlite:${join(emptyFolder(), 'store.db')}`
    const args = ['migrate', '--from', from, '--to', to, '--json']
    const refused = await runInside(args)
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.stdout)).toEqual({
      error: {
        code: 'locked',
        message: expect.stringMatching(
          /^--from: postgres:.* is the store of another running process, .*End every process/,
        ) as string,
      },
    })
    expect(refused.stdout).not.toContain('secret')
    expect(existsSync(to.slice('sqlite:'.length))).toBe(false)
    await worker.close()
    const { code, stdout } = await runInside(args)
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ total: 30, moved: 30, different: 0 })
  })

  test('moves back to a file as well', async () => {
    const url = await server.database()
    const from = await openStore(url)
    await fill(from, 300)
    const to = await openStore(`sqlite:${join(emptyFolder(), 'store.db')}`)
    const moved = { total: 320, moved: 320, known: 0, same: 320, ahead: 0, different: 0 }
    const records = { total: 0, moved: 0, known: 0 }
    expect(await migrateStore(from, to)).toEqual({ ...moved, records, differences: [] })
    const stats = { destination: 'crm', fresh: 300, backlog: 9, leased: 0, dead: 1 }
    expect(await to.stats()).toMatchObject([stats])
    await Promise.all([from.close(), to.close()])
  })
})
