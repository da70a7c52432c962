import { StoreError } from '../store-error.js'
import type { Database } from './driver.js'

/** Marks the file as a store: "hook" in ASCII. https://www.sqlite.org/pragma.html#pragma_application_id */
const APPLICATION_ID = 0x686f6f6b

/**
 * Each takes the schema one version further; the version is how many have been run. Those that were published
 * are never changed.
 *
 * Bodies have a table of their own: what changes with each attempt is small then, dense, and never rewrites a body.
 * Names that come back in each row (sources, destinations, types, URLs, codes) are numbers.
 *
 * - `by_message` knows the duplicates, and serves traces. Ids that start with the time, as version 7 UUIDs do, cost
 *   half of what random ones do: theirs end up side by side in it.
 * - `waiting` leads a claim straight to the longest due of its lane, past nobody else's. For a dead letter `due_at`
 *   is the time of its death.
 * - `by_user` is cut into 4,096 deliveries each: a write touches the newest cut alone, which stays in memory
 *   (whole, it would cost as much as all the rest). A search asks for each `id >> 12` from the newest down.
 * - `replayed` has what waits again, or has arrived, since its replay: it goes by the time of that.
 */
const MIGRATIONS = [
  `CREATE TABLE names (
     id INTEGER PRIMARY KEY,
     name TEXT NOT NULL UNIQUE
   ) STRICT;

   CREATE TABLE deliveries (
     id INTEGER PRIMARY KEY,
     message_id TEXT NOT NULL,
     source INTEGER NOT NULL,
     destination INTEGER NOT NULL,
     type INTEGER NOT NULL,
     user TEXT NOT NULL,
     event TEXT NOT NULL,
     state INTEGER NOT NULL,
     attempt INTEGER NOT NULL,
     due_at INTEGER NOT NULL,
     received_at INTEGER NOT NULL,
     first_attempt_at INTEGER,
     refused_by TEXT,
     reason TEXT,
     attempts_before INTEGER NOT NULL,
     replayed_at INTEGER,
     trace_parent TEXT
   ) STRICT;
   CREATE UNIQUE INDEX by_message ON deliveries (message_id, source, destination);
   CREATE INDEX waiting ON deliveries (destination, state, due_at) WHERE state <= 3;
   CREATE INDEX by_user ON deliveries (id >> 12, user);
   CREATE INDEX replayed ON deliveries (replayed_at) WHERE replayed_at IS NOT NULL;

   CREATE TABLE bodies (
     id INTEGER PRIMARY KEY,
     body TEXT NOT NULL
   ) STRICT;

   CREATE TABLE attempts (
     delivery INTEGER NOT NULL,
     attempt INTEGER NOT NULL,
     post INTEGER NOT NULL,
     at INTEGER NOT NULL,
     url INTEGER NOT NULL,
     code INTEGER NOT NULL,
     status INTEGER,
     ms REAL NOT NULL,
     error TEXT,
     response TEXT NOT NULL,
     PRIMARY KEY (delivery, attempt, post)
   ) STRICT, WITHOUT ROWID;`,

  `CREATE TABLE audiences (
     id INTEGER PRIMARY KEY,
     name TEXT NOT NULL UNIQUE,
     sync INTEGER NOT NULL
   ) STRICT;

   CREATE TABLE members (
     audience INTEGER NOT NULL,
     user TEXT NOT NULL,
     sync INTEGER NOT NULL,
     PRIMARY KEY (audience, user)
   ) STRICT, WITHOUT ROWID;`,
]

/**
 * Brings the tables to the version that this code knows, all the steps or none.
 *
 * @throws StoreError `newer` if they are of a later version; `failed` if the file is another program's.
 */
export function migrate(database: Database, path: string, migrations = MIGRATIONS): void {
  if (!isOurs(database)) {
    throw new StoreError(
      'failed',
      `${path} is a database of another program. Name another file for the store.`,
    )
  }
  const version = pragma(database, 'user_version')
  if (version === migrations.length) return
  if (version > migrations.length) {
    throw new StoreError(
      'newer',
      `${path} was written by a newer hookline-destination: its schema has version ${version}, and this version knows ` +
        `only ${migrations.length}. Use the newer hookline-destination, or name another file for the store.`,
    )
  }
  database.exec('BEGIN IMMEDIATE')
  for (const step of migrations.slice(version)) database.exec(step)
  database.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
  database.exec(`PRAGMA user_version = ${migrations.length}`)
  database.exec('COMMIT')
}

function isOurs(database: Database): boolean {
  if (pragma(database, 'application_id') === APPLICATION_ID) return true
  return !database.prepare('SELECT 1 FROM sqlite_schema LIMIT 1').get()
}

function pragma(database: Database, name: string): number {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, number>)[name] ?? 0
}
