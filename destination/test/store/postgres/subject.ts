import pg from 'pg'
import { openPostgres } from '../../../src/store/postgres/store.js'
import type { Subject } from '../contract.js'

let schemas = 0

/**
 * A store in a schema of its own, with a clock that stands still.
 *
 * @param isToStay - Whether the server outlives the tests, and is left as it was.
 */
export async function postgresSubject(database: string, isToStay: boolean): Promise<Subject> {
  const schema = `contract_${process.pid}_${++schemas}`
  const url = `${database}?schema=${schema}`
  let now = 1_700_000_000_000
  const open = () => openPostgres(url, () => now)
  const subject: Subject = {
    store: await open(),
    now: () => now,
    advance: (ms) => {
      now += ms
    },
    reopen: async () => {
      await subject.store.close()
      subject.store = await open()
      return subject.store
    },
    dispose: async () => {
      await subject.store.close()
      if (!isToStay) return
      const client = new pg.Client(database)
      await client.connect()
      await client.query(`DROP SCHEMA ${schema} CASCADE`)
      await client.end()
    },
  }
  return subject
}
