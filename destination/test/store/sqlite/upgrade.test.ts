// Files of the former version: the tables of version 6 become those of this version, and back again.
import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { migrate, MIGRATIONS, type Upgrade } from '../../../src/store/sqlite/schema.js'
import type { Copy } from '../../../src/model/delivery.js'
import { settingsFor, silent, start } from '../../run.js'
import { newDelivery, settlement } from '../contract.js'
import { AT, formerFile, runWayBack, versionOf } from './former.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()
const NOW = AT + 1_000

/** The statements that make the tables and the indexes of a file. */
function tablesOf(path: string): unknown[] {
  const database = openDatabase(path)
  const tables = database
    .prepare(
      `SELECT t.name, c.name AS "column", c.type, c."notnull", c.pk FROM sqlite_schema t, pragma_table_info(t.name) c
       WHERE t.type = 'table' ORDER BY 1, c.cid`,
    )
    .all()
  const indexes = database
    .prepare(`SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY 1`)
    .all()
  database.close()
  return [...tables, ...indexes]
}

test('a file of the former version has everything that it had, and goes on', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  await formerFile(path, 8)
  const upgrades: Upgrade[] = []
  const store = await openStore(`sqlite:${path}`, {
    now: () => NOW,
    upgrading: (upgrade) => upgrades.push(upgrade),
  })
  expect(upgrades).toEqual([{ from: 6, to: MIGRATIONS.length }])
  expect(await store.stats()).toMatchObject([{ leased: 0, backlog: 4, dead: 2 }])
  const [released, delivered, , dead] = await store.copyOut(0, 4)
  expect(released).toMatchObject({ state: 'backlog', dueAt: NOW, attemptsBefore: 1, attempts: [] })
  const attempt = { attempt: 1, at: AT, url: 'https://a.example.com/', ms: 12.5, response: 'ok' }
  expect(delivered).toMatchObject({
    state: 'done',
    attempts: [{ ...attempt, code: 'delivered', status: 200, error: null }],
  })
  expect(dead).toMatchObject({
    state: 'dead',
    reason: 'refused',
    attempts: [{ ...attempt, code: 'server_error', status: 503, error: 'down' }],
  })
  const { deliveries } = await store.find(
    { code: 'delivered', status: { from: 200, to: 200 } },
    undefined,
    9,
  )
  expect(deliveries.map(({ id }) => id)).toEqual([6, 2])
  expect(await store.put([newDelivery({ messageId: 'm2', source: 'web' })])).toEqual([undefined])
  const claimed = await store.claim([{ destination: 'crm', lane: 'backlog', limit: 9 }])
  expect(claimed.map(({ id }) => id)).toEqual([1, 5])
  expect(await store.settle(claimed.map((one) => settlement(one)))).toBe(0)
  await store.close()
})

test('the log says when an upgrade begins and when it has ended', async () => {
  const settings = settingsFor([])
  await formerFile((settings.store as string).slice('sqlite:'.length), 8)
  const lines: string[] = []
  await start(settings, { ...silent, info: (_fields, message) => lines.push(message) })
  expect(lines).toEqual([
    'the store is being upgraded, which takes 3 to 7 s for a million messages',
    'the store is upgraded',
  ])
})

test('a new file is not upgraded', async () => {
  await using place = await folder()
  const upgrades: Upgrade[] = []
  const options = { upgrading: (upgrade: Upgrade) => upgrades.push(upgrade) }
  for (let i = 0; i < 2; i++)
    await (await openStore(`sqlite:${place.path}/store.db`, options)).close()
  expect(upgrades).toEqual([])
})

test('the way back of the documents gives the former version its tables with all deliveries', async () => {
  await using place = await folder()
  const [path, former] = [`${place.path}/store.db`, `${place.path}/former.db`]
  const store = await openStore(`sqlite:${path}`, { now: () => NOW })
  await store.put([
    newDelivery({ messageId: 'waits', state: 'backlog' }),
    newDelivery({ messageId: 'skipped', state: 'skipped' }),
  ])
  const [id = 0] = await store.put([newDelivery({ messageId: 'delivered', state: 'leased' })])
  await store.settle([
    settlement(
      { id, attempt: 1 },
      { state: 'done' },
      {
        log: [
          { url: 'u', code: 'delivered', status: 204, ms: 1.5, error: null, response: 'thanks' },
        ],
      },
    ),
  ])
  await store.put([newDelivery({ messageId: 'leased', state: 'leased' })])
  await store.writeRecords([{ kind: 'source', name: 'web', version: 0, body: '{}', entry: '{}' }])
  const before = await store.copyOut(0, 9)
  await store.close()

  await runWayBack(path)
  expect(await versionOf(path)).toBe(6)
  const database = openDatabase(former)
  migrate(database, former, MIGRATIONS.slice(0, 6))
  database.close()
  expect(tablesOf(path)).toEqual(tablesOf(former))
  // This version reads the tables of the former one as that version left them.
  const again = await openStore(`sqlite:${path}`, { now: () => NOW })
  const released: Partial<Copy> = { state: 'backlog', dueAt: NOW, attemptsBefore: 1 }
  expect(await again.copyOut(0, 9)).toEqual(
    before.map((copy) => (copy.messageId === 'leased' ? { ...copy, ...released } : copy)),
  )
  await again.close()
})
