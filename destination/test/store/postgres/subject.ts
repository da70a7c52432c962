import pg from 'pg'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { createSubject, type Subject } from '../contract.js'
import { unhurried } from './server.js'

/** Makes stores in a database. */
export interface PostgresSubjects {
  /** Opens an empty store. */
  make: () => Promise<Subject>
  /** Drops the schemas of all stores. */
  dispose: () => Promise<void>
}

/**
 * Prepares a database for tests that each need an empty store. Each open store has a schema of its own. Creating its
 * tables would take most of a test's time, so the schema of a closed store is emptied, and the next store uses it.
 */
export async function postgresSubjects(database: string): Promise<PostgresSubjects> {
  const client = new pg.Client(database)
  await client.connect()
  const schemas: string[] = []
  const unused: string[] = []
  const create = (): string => {
    const schema = `contract_${process.pid}_${schemas.length + 1}`
    schemas.push(schema)
    return schema
  }
  return {
    make: () => {
      const schema = unused.pop() ?? create()
      return createSubject(
        (now) => openPostgres(`${unhurried(database)}&schema=${schema}`, now),
        async () => {
          await client.query(emptyAll(schema))
          unused.push(schema)
        },
      )
    },
    dispose: async () => {
      for (const schema of schemas) await client.query(`DROP SCHEMA ${schema} CASCADE`)
      await client.end()
    },
  }
}

/**
 * Empties all tables of a schema, and starts its sequences again. Only the version of the tables stays, and the revision begins
 * again. TRUNCATE would create all files of the tables again, and ALTER SEQUENCE those of the sequences, which takes much
 * longer than to delete a few rows.
 */
const emptyAll = (schema: string) => `DO $$
  DECLARE name text;
  BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename NOT IN ('version', 'revisions')
    LOOP EXECUTE format('DELETE FROM %I.%I', '${schema}', name); END LOOP;
    UPDATE ${schema}.revisions SET revision = 0, forgotten = 0;
    PERFORM setval(format('%I.%I', schemaname, sequencename), start_value, false)
      FROM pg_sequences WHERE schemaname = '${schema}' AND last_value IS NOT NULL;
  END $$`
