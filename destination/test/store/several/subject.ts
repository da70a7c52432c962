import pg from 'pg'
import { openPostgres } from '../../../src/store/postgres/store.js'
import { openSeveral } from '../../../src/store/several/open.js'
import { createSubject, type Subject } from '../contract.js'

/** The names of the servers of the tests. */
export const NAMES = ['a', 'b', 'c']

/** Makes stores of three servers, each of which has a database of its own. */
export async function severalSubjects(
  databases: readonly string[],
): Promise<{ make: () => Promise<Subject>; dispose: () => Promise<void> }> {
  const clients = await Promise.all(
    databases.map(async (database) => {
      const client = new pg.Client(database)
      await client.connect()
      return client
    }),
  )
  let count = 0
  const unused: string[] = []
  return {
    make: () => {
      const schema = unused.pop() ?? `several_${process.pid}_${++count}`
      return createSubject(
        (now) =>
          openSeveral(
            databases.map((database, i) => ({
              name: NAMES[i] ?? '',
              open: () => openPostgres(`${database}?schema=${schema}`, now, false, true),
            })),
            // The tests of the contract need complete answers, however slow the machine is.
            10_000,
          ),
        async () => {
          for (const client of clients) await client.query(emptyAll(schema))
          unused.push(schema)
        },
      )
    },
    dispose: async () => {
      for (const client of clients) await client.end()
    },
  }
}

const emptyAll = (schema: string) => `DO $$
  DECLARE name text;
  BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename NOT IN ('version', 'revisions')
    LOOP EXECUTE format('DELETE FROM %I.%I', '${schema}', name); END LOOP;
    UPDATE ${schema}.revisions SET revision = 0, forgotten = 0;
    PERFORM setval(format('%I.%I', schemaname, sequencename), start_value, false)
      FROM pg_sequences WHERE schemaname = '${schema}' AND last_value IS NOT NULL;
  END $$`
