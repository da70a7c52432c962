import { readFileSync } from 'node:fs'
import { loadDriver } from '../../../src/store/sqlite/driver.js'
import { migrate, MIGRATIONS } from '../../../src/store/sqlite/schema.js'

/** The version of the tables before the leases of new deliveries and their first attempts moved. */
const FORMER = 6

export const AT = 1_700_000_000_000

/**
 * Makes a file as the version with the tables of version 6 left it after a crash. Of four deliveries in a row, the first is
 * leased, the second is delivered, the third waits for a retry, and the fourth is a dead letter.
 */
export async function formerFile(path: string, deliveries: number): Promise<void> {
  const database = (await loadDriver())(path)
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF')
  migrate(database, path, MIGRATIONS.slice(0, FORMER))
  database.exec(
    `INSERT INTO names (id, name)
       VALUES (1, 'web'), (2, 'crm'), (3, 'track'), (4, 'https://a.example.com/'), (5, 'delivered'), (6, 'server_error');
     INSERT INTO clock (store_at, wall_at) VALUES (${AT}, ${AT});
     INSERT INTO deliveries (id, message_id, source, destination, type, user, event, state, attempt, due_at, received_at,
         first_attempt_at, reason, attempts_before)
       SELECT value, 'm' || value, 1, 2, 3, 'u' || value % 1000, 'Viewed',
         CASE value % 4 WHEN 1 THEN 2 WHEN 2 THEN 4 WHEN 3 THEN 1 ELSE 3 END, 1, ${AT + 30_000}, ${AT}, ${AT},
         iif(value % 4 = 0, 'refused', NULL), 0
       FROM (WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ${deliveries})
             SELECT value FROM n);
     INSERT INTO bodies (id, body) SELECT id, printf('{"n":%d,"text":"%0400d"}', id, id) FROM deliveries;
     INSERT INTO attempts (delivery, attempt, post, at, url, code, status, ms, error, response)
       SELECT id, 1, 0, ${AT}, 4, iif(state = 4, 5, 6), iif(state = 4, 200, 503), 12.5, iif(state = 4, NULL, 'down'), 'ok'
       FROM deliveries WHERE state <> 2`,
  )
  // Closing may be late: the driver waits until the statements are garbage. Nothing of the file may be in its log.
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
}

/** The version of the tables in a file that no process has open. */
export async function versionOf(path: string): Promise<number> {
  const database = (await loadDriver())(path)
  const row = database.prepare('PRAGMA user_version').get() as { user_version: number }
  database.close()
  return row.user_version
}

/** Runs the statements of docs/operating.md that give a file back to the former version. */
export async function runWayBack(path: string): Promise<void> {
  const page = readFileSync(new URL('../../../../docs/operating.md', import.meta.url), 'utf8')
  const [, sql] = /<<'SQL'\n([\s\S]+?)\nSQL\n/.exec(page) ?? []
  if (sql === undefined) throw new Error('docs/operating.md has no way back')
  const database = (await loadDriver())(path)
  database.exec(sql)
  database.close()
}
