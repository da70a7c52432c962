import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { loadDriver, type DriverName } from '../../../src/store/sqlite/driver.js'
import { migrate, MIGRATIONS } from '../../../src/store/sqlite/schema.js'
import { newDelivery } from '../contract.js'
import { audiencesContract } from '../contract-audiences.js'
import { folder, sqliteSubject } from './subject.js'

for (const driver of ['node:sqlite', '@photostructure/sqlite'] satisfies DriverName[]) {
  const isThere = await loadDriver(driver).then(
    () => true,
    () => false,
  )
  if (isThere) audiencesContract(`sqlite: by ${driver}`, () => sqliteSubject(driver))
}

test('a file of version 2 keeps its members, and the next list tells each destination of all of them', async () => {
  await using place = await folder()
  const path = `${place.path}/store.db`
  const database = (await loadDriver())(path)
  migrate(database, path, MIGRATIONS.slice(0, 2))
  database.exec(
    `INSERT INTO audiences (id, name, sync) VALUES (1, 'vip', 1);
     INSERT INTO members (audience, user, sync) VALUES (1, 'a', 1), (1, 'b', 1)`,
  )
  database.close()

  const store = await openStore(`sqlite:${path}`)
  const message = { source: 'audience:vip', destination: 'crm', before: '', after: '' }
  const sync = await store.beginSync('vip', [{ name: 'crm', enabled: true }])
  expect(await store.join(sync, ['b', 'c'], [message])).toBe(1)
  expect(await store.leave(sync, '', 10, [message])).toMatchObject({ left: 1 })
  expect(await store.catchUp(sync, 10, [message], [message])).toMatchObject({ caughtUp: 2 })
  const told = await store.claim([{ destination: 'crm', lane: 'bulk', limit: 10 }])
  expect(told.map(({ body }) => body).sort()).toEqual(['"b"', '"c"'])
  await store.close()
})

test('what was purged is not among the bytes of the files any more', async () => {
  await using place = await folder()
  const store = await openStore(`sqlite:${place.path}/store.db`, {})
  const body = JSON.stringify({ note: 'hush '.repeat(2_000) })
  await store.put([
    newDelivery({ user: 'ann-hush', body }),
    newDelivery({ user: 'ben', body: '{}' }),
  ])
  const holds = (text: string) =>
    readdirSync(place.path).filter((name) => readFileSync(join(place.path, name)).includes(text))
  expect(holds('hush')).not.toEqual([])
  let from: number | undefined = 0
  while (from !== undefined) ({ next: from } = await store.purgeUser('ann-hush', from))
  expect(holds('hush')).toEqual([])
  await store.close()
})
