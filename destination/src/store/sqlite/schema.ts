import { StoreError } from '../store-error.js'
import { LEASE_MS } from '../store.js'
import { DEAD } from '../states.js'
import type { Database } from './driver.js'

/** Marks the file as a store: "hook" in ASCII. https://www.sqlite.org/pragma.html#pragma_application_id */
const APPLICATION_ID = 0x686f6f6b

/**
 * Each step raises the schema by one version. The version is the number of steps that have run. Never change a step
 * that was published.
 *
 * Bodies have their own table: so the rows that change with each attempt stay small, and no attempt rewrites a body.
 * Names that many rows repeat (sources, destinations, types, URLs, codes) are stored as numbers.
 *
 * - `by_message` finds duplicates and traces. Message ids that start with the time, such as version 7 UUIDs, cost half
 *   as much as random ones, because new ids are neighbours in the index.
 * - `waiting` leads a claim directly to the longest due deliveries of its lane, without passing others. For a dead
 *   letter `due_at` is the time of its death.
 * - `by_user` is cut into parts of 4,096 deliveries: a write changes only the newest part, which stays in memory. An
 *   index that is not cut would cost as much as everything else together. A search looks into each `id >> 12`, the
 *   newest first.
 * - `clock` has at most one row: the store's time, and what the system's clock showed then.
 * - `told` has a row for each destination that gets messages about the members of an audience. `up_to` is the last member
 *   that a new destination was told of, in the order of users, and null once it was told of all. `destination` is null
 *   once the settings do not have it any more: then the row and its `untold` are about to be deleted.
 * - `untold` has the users whose membership is not what the destination was told.
 * - `history` has what happened at each endpoint, in buckets of three lengths. `bins` is a list of counts as JSON.
 * - A delivery whose first attempt is under way has the `due_at` 0, and is not in `waiting`: most messages are delivered at
 *   once. `first-leases.ts` knows them. None of their ids is below `clock.leased_from`. Other deliveries have the `due_at` 0 only
 *   if they were delivered in this way.
 * - `post_url` and the columns after it have the attempt that delivered a message, if it was the first attempt and the
 *   only POST of it. It began at `first_attempt_at`. Otherwise `post_url` is negative, and `attempts` has all attempts.
 *   The defaults take as much room as usual values: a row that grew would have to leave its page, which is full.
 * - `records` has a row for each named record. `version` is the revision of its last change. The row of a deleted record
 *   has no body, and stays for a while, so that whoever follows the changes learns of the deletion.
 * - `revisions` has one row: the last revision, and the version of the latest deletion that was forgotten.
 * - `deleted` has one row: the highest id of the deliveries that were deleted. No delivery gets an id again: whoever has the
 *   id of one that was deleted, such as the settlement of an attempt that is under way, would mean another one.
 * - `replayed` finds deliveries that wait or have arrived since a replay: their retention counts from the replay.
 */
export const MIGRATIONS = [
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

  `CREATE TABLE clock (
     store_at INTEGER NOT NULL,
     wall_at INTEGER NOT NULL
   ) STRICT;`,
  // The bulk lane has the state -1, which earlier versions do not know. They put the messages of audiences into the backlog.
  `UPDATE deliveries INDEXED BY waiting SET state = -1
   WHERE state = 1 AND state <= 3 AND source IN (SELECT id FROM names WHERE name LIKE 'audience:%');`,
  `CREATE TABLE told (
     id INTEGER PRIMARY KEY,
     audience INTEGER NOT NULL,
     destination INTEGER,
     up_to TEXT,
     UNIQUE (audience, destination)
   ) STRICT;

   CREATE TABLE untold (
     told INTEGER NOT NULL,
     user TEXT NOT NULL,
     PRIMARY KEY (told, user)
   ) STRICT, WITHOUT ROWID;`,
  `ALTER TABLE attempts ADD COLUMN headers TEXT;

   CREATE TABLE history (
     bucket_ms INTEGER NOT NULL,
     at INTEGER NOT NULL,
     destination INTEGER NOT NULL,
     url INTEGER NOT NULL,
     delivered INTEGER NOT NULL,
     failed INTEGER NOT NULL,
     busy INTEGER NOT NULL,
     breaker INTEGER NOT NULL,
     bins TEXT NOT NULL,
     PRIMARY KEY (bucket_ms, at, destination, url)
   ) STRICT, WITHOUT ROWID;`,
  `DROP INDEX waiting;
   CREATE INDEX waiting ON deliveries (destination, state, due_at) WHERE state <= 3 AND due_at <> 0;

   ALTER TABLE deliveries ADD COLUMN post_url INTEGER NOT NULL DEFAULT -1000;
   ALTER TABLE deliveries ADD COLUMN post_status INTEGER NOT NULL DEFAULT -1000;
   ALTER TABLE deliveries ADD COLUMN post_ms REAL NOT NULL DEFAULT 0.1;
   ALTER TABLE deliveries ADD COLUMN post_response TEXT NOT NULL DEFAULT '';

   ALTER TABLE clock ADD COLUMN leased_from INTEGER NOT NULL DEFAULT 0;
   UPDATE clock SET leased_from = (SELECT coalesce(max(id), 0) + 1 FROM deliveries);`,
  `CREATE TABLE records (
     kind TEXT NOT NULL,
     name TEXT NOT NULL,
     version INTEGER NOT NULL,
     at INTEGER NOT NULL,
     body TEXT,
     PRIMARY KEY (kind, name)
   ) STRICT, WITHOUT ROWID;
   CREATE UNIQUE INDEX records_version ON records (version);
   CREATE INDEX records_deleted ON records (version) WHERE body IS NULL;

   CREATE TABLE record_log (
     id INTEGER PRIMARY KEY,
     at INTEGER NOT NULL,
     kind TEXT NOT NULL,
     name TEXT NOT NULL,
     entry TEXT NOT NULL
   ) STRICT;
   CREATE INDEX record_log_about ON record_log (kind, name, id);
   CREATE INDEX record_log_at ON record_log (at);

   CREATE TABLE revisions (
     revision INTEGER NOT NULL,
     forgotten INTEGER NOT NULL
   ) STRICT;
   INSERT INTO revisions VALUES (0, 0);`,
  `CREATE TABLE deleted (up_to INTEGER NOT NULL) STRICT;
   INSERT INTO deleted VALUES (0);

   CREATE TRIGGER remember_deleted AFTER DELETE ON deliveries WHEN old.id > (SELECT up_to FROM deleted) BEGIN
     UPDATE deleted SET up_to = old.id;
   END;`,
]

/**
 * The condition on the rows of the index `waiting`. SQLite uses a partial index only for a query that has its condition.
 */
export const IS_LISTED = 'state <= 3 AND due_at <> 0'

/** When a delivery is due. If its first attempt is under way, that is the end of the lease. */
export const DUE_AT = `iif(due_at = 0, first_attempt_at + ${LEASE_MS}, due_at)`

/** Since when a dead letter or a delivered message has been settled, at the latest. */
export const SETTLED_AT = `iif(state = ${DEAD}, due_at, coalesce(first_attempt_at, 0))`

/** Whether the row itself has the attempt that delivered the message. */
export const HAS_POST = 'post_url > 0'

/** The tables of an older version that are brought to this one. */
export interface Upgrade {
  from: number
  to: number
}

/**
 * Brings the tables to the version of this code. It runs all steps, or none if one fails: a process that is killed meanwhile
 * leaves the file as it was.
 *
 * @param upgrading - Is called before the tables of an older version are changed.
 * @throws StoreError `newer` if a newer version wrote the file; `failed` if the file belongs to another program.
 */
export function migrate(
  database: Database,
  path: string,
  migrations = MIGRATIONS,
  upgrading?: (upgrade: Upgrade) => void,
): void {
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
      `${path} was written by a newer hookline-destination: its schema has version ${version}, and this version ` +
        `knows only ${migrations.length}. Use the newer hookline-destination, or name another file for the store.`,
    )
  }
  if (version > 0) upgrading?.({ from: version, to: migrations.length })
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
