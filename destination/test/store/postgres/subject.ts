import pg from 'pg'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { createSubject, type Subject } from '../contract.js'

let schemas = 0

/**
 * Opens a store in a schema of its own.
 *
 * @param isToStay - Whether the server continues after the tests. Then the schema is dropped at the end.
 */
export function postgresSubject(database: string, isToStay: boolean): Promise<Subject> {
  const schema = `contract_${process.pid}_${++schemas}`
  const drop = async () => {
    if (!isToStay) return
    const client = new pg.Client(database)
    await client.connect()
    await client.query(`DROP SCHEMA ${schema} CASCADE`)
    await client.end()
  }
  return createSubject((now) => openPostgres(`${database}?schema=${schema}`, now), drop)
}
