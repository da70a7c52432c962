import { expect, test } from 'vitest'
import { prepareStats } from '../../../src/store/postgres/stats.js'
import type { Tables } from '../../../src/store/postgres/tables.js'

test('a count that takes the server a minute is kept, but not for those that need the present one', async () => {
  let fresh = 0
  const query = () =>
    Promise.resolve([{ all: [{ destination: 'crm', fresh: ++fresh }], ms: 60_000 }])
  const tables = { query, schema: '"s"', now: () => null } as unknown as Tables
  const { stats, count } = prepareStats(tables)
  const freshBy = async (asked: typeof stats) => (await asked())[0]?.fresh
  expect(await freshBy(stats)).toBe(1)
  expect(await freshBy(stats)).toBe(1)
  expect(await freshBy(count)).toBe(2)
  expect(await freshBy(stats)).toBe(2)
})
