// Processes that go on while their store is restored to an earlier time, and changed there.
import { afterAll, expect, test } from 'vitest'
import { Follower } from '../../../src/store/follower.js'
import { openStore } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { dice } from '../../simulation/chance.js'
import { startServer } from './server.js'
import { storeError } from './stores.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))
const ROUNDS = process.env['SLOW'] ? 60 : 6

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const nameOf = (url: string) => new URL(url).pathname.slice(1)

/** Calls it again until it works: connections were cut. */
const again = async <T>(work: () => Promise<T>): Promise<T> => {
  let value: T[] = []
  await expect
    .poll(() =>
      work().then(
        (one) => (value = [one]).length,
        () => 0,
      ),
    )
    .toBe(1)
  return value[0] as T
}

const all = async (store: Store) => {
  const { records } = await again(() => store.records(0, 100))
  return new Map(records.map(({ name, body }) => [name, body]))
}

/** How a store may be restored while its processes go on. */
const RESTORES: Record<string, (live: string, backup: string) => Promise<void>> = {
  'another database takes its name': async (live, backup) => {
    await cut(live)
    await server.query(`ALTER DATABASE ${live} RENAME TO former_${live}`)
    await server.query(`ALTER DATABASE ${backup} RENAME TO ${live}`)
  },
  'its tables are made anew': async (live, backup) => {
    const [from, to] = [server.url(backup), server.url(live)]
    const text = 'SELECT kind, name, version, at, body FROM hookline.records'
    const records = await server.query<Record<string, unknown>>(text, [], from)
    const revisions = await server.query(
      'SELECT revision, forgotten FROM hookline.revisions',
      [],
      from,
    )
    const rows = [JSON.stringify(records), JSON.stringify(revisions)]
    await server.query('TRUNCATE hookline.records, hookline.revisions', [], to)
    await server.query(
      `WITH r AS (
         INSERT INTO hookline.records (kind, name, version, at, body)
         SELECT kind, name, version, at, body FROM json_populate_recordset(NULL::hookline.records, $1)
       ) INSERT INTO hookline.revisions (revision, forgotten)
         SELECT revision, forgotten FROM json_populate_recordset(NULL::hookline.revisions, $2)`,
      rows,
      to,
    )
  },
}

async function cut(database: string) {
  const text = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1'
  await server.query(text, [database])
}

test.each(Object.keys(RESTORES))(
  `a process follows what there is once %s, whatever the versions are: SEED=${seed}`,
  async (how) => {
    const { pick, chance } = dice(seed)
    const change = async (store: Store) => {
      const name = pick(['x', 'y', 'z'])
      const { records } = await store.records(0, 100)
      const version = records.find((one) => one.name === name)?.version ?? 0
      const body = version > 0 && chance(0.3) ? undefined : String(pick([1, 2, 3, 4, 5]))
      await store.writeRecords([{ kind: 'k', name, version, body }])
    }
    for (let round = 0; round < ROUNDS; round++) {
      const live = await server.database()
      const first = await openStore(live)
      for (let i = pick([0, 1, 2]); i > 0; i--) await change(first)
      await first.close()
      const backup = await server.database(nameOf(live))

      const store = await openStore(live)
      const known = new Map<string, string | undefined>()
      const follower = new Follower(store, (records, isComplete) => {
        if (isComplete) known.clear()
        for (const { name, body } of records) {
          if (body === undefined) known.delete(name)
          else known.set(name, body)
        }
        return Promise.resolve()
      })
      for (let i = pick([1, 2, 3]); i > 0; i--) await change(store)
      await follower.catchUp()
      expect(known).toEqual(await all(store))

      const other = await openStore(backup)
      for (let i = pick([0, 1, 2, 3, 4, 5]); i > 0; i--) await change(other)
      await other.close()
      await RESTORES[how]?.(nameOf(live), nameOf(backup))
      await again(() => follower.catchUp())
      expect(known, `SEED=${seed}, round ${round}`).toEqual(await all(store))
      await follower.stop()
      await store.close()
    }
  },
)

test('while the tables are empty, a process keeps what it knows', async () => {
  const live = await server.database()
  const store = await openStore(live)
  await store.writeRecords([{ kind: 'k', name: 'x', version: 0, body: '1' }])
  const known: unknown[] = []
  const follower = new Follower(store, (records) => {
    known.push(records.map(({ body }) => body))
    return Promise.resolve()
  })
  await follower.catchUp()
  await server.query('TRUNCATE hookline.records, hookline.revisions', [], live)
  await expect(follower.catchUp()).rejects.toEqual(storeError('failed', /revisions is empty/))
  await server.query('INSERT INTO hookline.revisions (revision, forgotten) VALUES (0, 0)', [], live)
  await follower.catchUp()
  expect(known).toEqual([['1'], []])
  await follower.stop()
  await store.close()
})
