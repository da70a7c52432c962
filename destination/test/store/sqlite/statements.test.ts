import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Filter } from '../../../src/model/delivery.js'
import { connect } from '../../../src/store/sqlite/connection.js'
import { loadDriver, type OpenDatabase } from '../../../src/store/sqlite/driver.js'
import { folder } from './subject.js'

const openDatabase = await loadDriver()

test('searches of the same kind share a statement, whatever they search for', async () => {
  await using place = await folder()
  let prepared = 0
  const counting: OpenDatabase = (path) => {
    const database = openDatabase(path)
    return {
      exec: (sql) => {
        database.exec(sql)
      },
      prepare: (sql) => {
        prepared++
        return database.prepare(sql)
      },
      close: () => {
        database.close()
      },
    }
  }
  const { find, put, names, database } = connect(counting, join(place.path, 'store.db'))
  const numbers = [0, 1, 2, 3, 4, 5]
  const [source, destination] = ['web', 'crm']
  for (const n of numbers) {
    names.number(`https://${n}.example.com/`)
    names.number(`https://${n}.example.com/?again`)
    put.one(
      {
        messageId: `${n}`,
        source,
        destination,
        type: 'track',
        user: 'ann',
        body: '',
        state: 'fresh',
      },
      0,
    )
  }
  const search = (filter: Filter) => find({ filter, before: undefined, limit: 10 })
  const filters: ((n: number) => Filter)[] = [
    (n) => ({ endpoint: `https://${n}.example.com/` }),
    (n) => ({ status: { from: n, to: n + 99 } }),
    (n) => ({ event: 'x'.repeat(n + 1), isPrefix: true }),
    (n) => ({ since: n, until: n + 100 }),
    (n) => ({ destinations: Array<string>(n + 1).fill(destination) }),
  ]
  for (const filter of filters) {
    search(filter(0))
    const before = prepared
    for (const n of numbers) search(filter(n))
    expect(prepared).toBe(before)
  }
  database.close()
})
