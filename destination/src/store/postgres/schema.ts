import { StoreError } from '../store-error.js'
import type { Connection, RunQuery } from './connection.js'
import { isLockedOut } from './failure.js'

/** The class of the advisory lock that keeps two processes from migrating at once: "hook" in ASCII. */
const LOCK = 0x686f6f6b

/**
 * In ms: how long a step waits for a table that others use. Whoever comes after a step that waits has to wait too, and a dump of the
 * database uses each table until its end.
 */
const LOCK_TRY_MS = 1_000

/**
 * Each step raises the schema by one version. The version is the number of steps that have run. Never change a step
 * that was published. `$` stands for the schema's name.
 *
 * - `deliveries` contains the messages and is written once. The columns that change with each attempt are in `waiting`,
 *   in small rows that are deleted when a delivery is done. So the table that needs vacuuming is only as large as the
 *   backlog, whatever the retention.
 * - `waiting` contains the dead letters too, with the time of death as `due_at`. Its index leads a claim directly to
 *   the longest due deliveries of a lane. A delivery that was claimed keeps its place there while it is leased, and
 *   `lease_until` is the end of the lease: so the claim changes no index. A lease without `lease_until` ends at `due_at`: that of
 *   a delivery that was stored leased, or of an earlier version. A delivery that
 *   waits since a replay has the time of the replay in `replayed_at`: its retention counts from then.
 *   `size` is that of the body, in bytes; it is null in rows of earlier versions.
 * - `done` contains the deliveries that arrived or were skipped. They stay until they are deleted or replayed. If the attempt
 *   that ended a delivery made a single request, its log is in `done` too, from `at` to `headers`, and not in `attempts`: most
 *   deliveries arrive that way, and have one row for both. Read the log of attempts from {@link attemptsTable}.
 * - `deliveries_user` is cut into parts of 4,096 deliveries: a write changes only the newest part, which stays in
 *   memory. A search looks into each `id >> 12`, the newest first. The index has a hash of the user's id, because the
 *   id itself may be longer than an index allows.
 * - `members` has a hash of the user's id as its key for the same reason.
 * - `told` has a row for each destination that gets messages about the members of an audience. `up_to` is the last key that a
 *   new destination was told of, and null once it was told of all. `destination` is null once the settings do not have it
 *   any more: then the row and its `untold` are about to be deleted.
 * - `untold` has the users whose membership is not what the destination was told.
 * - `history` has what happened at each endpoint, in buckets of three lengths.
 * - `records` has a row for each named record. `version` is the revision of its last change. The row of a deleted record
 *   has no body, and stays for a while, so that whoever follows the changes learns of the deletion.
 * - `revisions` has one row: the last revision, and the version of the latest deletion that was forgotten. Whoever changes
 *   records locks this row until the commit. So versions become visible in their order, and no follower misses one.
 * - Names that many rows repeat (sources, destinations, types, URLs, codes) are stored as numbers.
 * - All times are in ms since the epoch, by the server's clock.
 */
export const MIGRATIONS = [
  `CREATE TABLE $.names (
     id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     name text COLLATE "C" NOT NULL UNIQUE
   );

   CREATE SEQUENCE $.ids;
   CREATE TABLE $.deliveries (
     id bigint PRIMARY KEY,
     received_at bigint NOT NULL,
     source integer NOT NULL,
     destination integer NOT NULL,
     type integer NOT NULL,
     message_id text COLLATE "C" NOT NULL,
     user_id text COLLATE "C" NOT NULL,
     event text COLLATE "C" NOT NULL,
     trace_parent text COLLATE "C",
     body text COLLATE "C" NOT NULL
   ) WITH (autovacuum_vacuum_scale_factor = 0.05);
   CREATE UNIQUE INDEX deliveries_message ON $.deliveries (message_id, source, destination);
   CREATE INDEX deliveries_user ON $.deliveries ((id >> 12), hashtextextended(user_id, 0));

   CREATE TABLE $.waiting (
     id bigint PRIMARY KEY,
     due_at bigint NOT NULL,
     first_attempt_at bigint,
     attempt_at bigint,
     destination integer NOT NULL,
     attempt integer NOT NULL,
     state smallint NOT NULL,
     leased boolean NOT NULL,
     attempts_before integer,
     replayed_at bigint,
     refused_by text COLLATE "C",
     reason text COLLATE "C"
   ) WITH (
     fillfactor = 70,
     autovacuum_vacuum_scale_factor = 0.01,
     autovacuum_vacuum_threshold = 2000,
     autovacuum_vacuum_cost_delay = 0,
     autovacuum_analyze_scale_factor = 0.05
   );
   CREATE INDEX waiting_replayed ON $.waiting (replayed_at) WHERE replayed_at IS NOT NULL;
   CREATE INDEX waiting_due ON $.waiting (destination, state, due_at, id) INCLUDE (leased);

   CREATE TABLE $.done (
     id bigint PRIMARY KEY,
     first_attempt_at bigint,
     attempt integer NOT NULL,
     attempts_before integer,
     state smallint NOT NULL,
     reason text COLLATE "C"
   ) WITH (autovacuum_vacuum_scale_factor = 0.05);

   CREATE TABLE $.attempts (
     delivery bigint NOT NULL,
     at bigint NOT NULL,
     ms double precision NOT NULL,
     attempt integer NOT NULL,
     url integer NOT NULL,
     code integer NOT NULL,
     status integer,
     post smallint NOT NULL,
     error text COLLATE "C",
     response text COLLATE "C" NOT NULL,
     PRIMARY KEY (delivery, attempt, post)
   ) WITH (autovacuum_vacuum_scale_factor = 0.05);

   CREATE TABLE $.workers (
     id uuid PRIMARY KEY,
     seen_at bigint NOT NULL
   );
   CREATE TABLE $.probes (
     endpoint integer PRIMARY KEY,
     held_until bigint NOT NULL,
     hold_ms bigint NOT NULL
   );

   CREATE TABLE $.audiences (
     id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     name text COLLATE "C" NOT NULL UNIQUE,
     sync bigint NOT NULL
   );
   CREATE TABLE $.members (
     audience integer NOT NULL,
     key uuid NOT NULL,
     sync bigint NOT NULL,
     user_id text COLLATE "C" NOT NULL,
     PRIMARY KEY (audience, key)
   );`,

  // Version 1 could leave rows without a delivery behind when it deleted a user's messages while they were sent.
  `DELETE FROM $.attempts a WHERE NOT EXISTS (SELECT FROM $.deliveries d WHERE d.id = a.delivery);
   DELETE FROM $.done o WHERE NOT EXISTS (SELECT FROM $.deliveries d WHERE d.id = o.id);
   DELETE FROM $.waiting w WHERE NOT EXISTS (SELECT FROM $.deliveries d WHERE d.id = w.id);`,

  // An index row of a B-tree has at most 2,704 bytes, and a URL may be longer. An index of hashes has no such limit.
  `ALTER TABLE $.names DROP CONSTRAINT names_name_key;
   ALTER TABLE $.names ADD CONSTRAINT names_name EXCLUDE USING hash (name WITH =);`,

  // The bulk lane has the state -1, which earlier versions do not know. They put the messages of audiences into the backlog.
  `UPDATE $.waiting w SET state = -1
   FROM $.deliveries d JOIN $.names n ON n.id = d.source
   WHERE d.id = w.id AND w.state = 1 AND NOT w.leased AND n.name LIKE 'audience:%';`,
  `CREATE TABLE $.told (
     id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     audience integer NOT NULL,
     destination integer,
     up_to uuid,
     UNIQUE (audience, destination)
   );
   CREATE TABLE $.untold (
     told integer NOT NULL,
     key uuid NOT NULL,
     user_id text COLLATE "C" NOT NULL,
     PRIMARY KEY (told, key)
   );`,
  `ALTER TABLE $.attempts ADD COLUMN headers text COLLATE "C";

   CREATE TABLE $.history (
     bucket_ms integer NOT NULL,
     at bigint NOT NULL,
     destination integer NOT NULL,
     url integer NOT NULL,
     delivered bigint NOT NULL,
     failed bigint NOT NULL,
     busy bigint NOT NULL,
     breaker smallint NOT NULL,
     bins integer[] NOT NULL,
     PRIMARY KEY (bucket_ms, at, destination, url)
   ) WITH (fillfactor = 70);`,
  `CREATE TABLE $.records (
     kind text COLLATE "C" NOT NULL,
     name text COLLATE "C" NOT NULL,
     version bigint NOT NULL,
     at bigint NOT NULL,
     body text COLLATE "C",
     PRIMARY KEY (kind, name)
   );
   CREATE UNIQUE INDEX records_version ON $.records (version);
   CREATE INDEX records_deleted ON $.records (version) WHERE body IS NULL;

   CREATE TABLE $.record_log (
     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
     at bigint NOT NULL,
     kind text COLLATE "C" NOT NULL,
     name text COLLATE "C" NOT NULL,
     entry text COLLATE "C" NOT NULL
   );
   CREATE INDEX record_log_about ON $.record_log (kind, name, id);
   CREATE INDEX record_log_at ON $.record_log (at);

   CREATE TABLE $.revisions (
     revision bigint NOT NULL,
     forgotten bigint NOT NULL
   ) WITH (fillfactor = 50);
   INSERT INTO $.revisions VALUES (0, 0);`,
  // Columns without a default rewrite no row, and a constraint that is NOT VALID reads none.
  `ALTER TABLE $.waiting ADD COLUMN size integer;
   ALTER TABLE $.done
     ADD COLUMN at bigint,
     ADD COLUMN ms double precision,
     ADD COLUMN url integer,
     ADD COLUMN code integer,
     ADD COLUMN status integer,
     ADD COLUMN error text COLLATE "C",
     ADD COLUMN response text COLLATE "C",
     ADD COLUMN headers text COLLATE "C",
     ADD CONSTRAINT done_log CHECK (at IS NULL OR url IS NOT NULL AND code IS NOT NULL) NOT VALID;`,
  // A worker of an earlier version would claim a message again that is leased in its lane. Its statement breaks the constraint.
  `ALTER TABLE $.waiting
     ADD COLUMN lease_until bigint,
     ADD CONSTRAINT waiting_lease CHECK (lease_until IS NULL OR leased AND due_at < lease_until) NOT VALID,
     SET (fillfactor = 50);
   DROP INDEX $.waiting_due;
   CREATE INDEX waiting_due ON $.waiting (destination, state, due_at, id);`,
]

/** The log of attempts, one row for each request, in parentheses: it takes the place of a table. */
export function attemptsTable(schema: string): string {
  const columns = 'at, ms, url, code, status, error, response, headers'
  return `(
    SELECT delivery, attempt, post, ${columns} FROM ${schema}.attempts
    UNION ALL
    SELECT id, attempt, 0::smallint, ${columns} FROM ${schema}.done WHERE code IS NOT NULL
  )`
}

/**
 * Brings the tables to the version of this code. It runs all steps, or none if one fails. If several processes call it
 * at once, one of them migrates and the others wait for it.
 *
 * @param schema - The schema's name in double quotes, as in statements.
 * @throws StoreError `newer` if a newer version wrote the tables; unreachable while another session uses a table that has to change.
 */
export async function migrate(
  connection: Connection,
  schema: string,
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> {
  // Most starts have nothing to migrate. Then the user needs no right to create tables.
  if (await isCurrent(connection, schema, migrations)) return
  try {
    await connection.transactAlone((query) => upgrade(query, schema, migrations))
  } catch (error) {
    if (!(error instanceof StoreError && isLockedOut(error))) throw error
    const message = `${error.message} The tables are upgraded as soon as nobody else uses them.`
    throw new StoreError('failed', message, { cause: error.cause, isUnreachable: true })
  }
}

async function upgrade(
  query: RunQuery,
  schema: string,
  migrations: readonly string[],
): Promise<void> {
  await query('SET LOCAL statement_timeout = 0')
  await query('SET LOCAL lock_timeout = 0')
  await query('SELECT pg_advisory_xact_lock($1, hashtext($2))', [LOCK, schema])
  await query(`SET LOCAL lock_timeout = ${LOCK_TRY_MS}`)
  if (await isCurrent({ query }, schema, migrations)) return
  // Even with IF NOT EXISTS, the server demands the right to create schemas, which a user with a given schema lacks.
  if (!(await exists({ query }, schema))) await query(`CREATE SCHEMA ${schema}`)
  await query(`CREATE TABLE IF NOT EXISTS ${schema}.version (version integer NOT NULL)`)
  const version = await versionOf({ query }, schema)
  // A function as the replacement: in a string, a `$` of the schema's name would be a replacement pattern.
  for (const step of migrations.slice(version)) {
    await query(step.replaceAll('$.', () => `${schema}.`))
  }
  await query(`DELETE FROM ${schema}.version`)
  await query(`INSERT INTO ${schema}.version VALUES ($1)`, [migrations.length])
}

async function isCurrent(
  connection: Pick<Connection, 'query'>,
  schema: string,
  { length }: readonly string[],
): Promise<boolean> {
  const version = await versionOf(connection, schema)
  if (version <= length) return version === length
  throw new StoreError(
    'newer',
    `store: the schema ${schema} was written by a newer hookline-destination (it has version ${version}, and this ` +
      `version knows only ${length}). Use the newer hookline-destination, or another schema (?schema=).`,
  )
}

async function exists({ query }: Pick<Connection, 'query'>, schema: string): Promise<boolean> {
  const text = 'SELECT to_regnamespace($1) IS NOT NULL AS found'
  const [row] = await query<{ found: boolean }>(text, [schema])
  return row?.found ?? false
}

/**
 * Whether the schema has a table. One with the tables of a store, of any version, has `version`.
 *
 * @param schema - The schema's name in double quotes.
 */
export async function hasTable(
  { query }: Pick<Connection, 'query'>,
  schema: string,
  table: string,
): Promise<boolean> {
  const text = 'SELECT to_regclass($1) IS NOT NULL AS found'
  const [row] = await query<{ found: boolean }>(text, [`${schema}.${table}`])
  return row?.found ?? false
}

/** The version of the tables; 0 if there are none yet. */
async function versionOf(connection: Pick<Connection, 'query'>, schema: string): Promise<number> {
  if (!(await hasTable(connection, schema, 'version'))) return 0
  const [row] = await connection.query<{ version: number }>(`SELECT version FROM ${schema}.version`)
  return row?.version ?? 0
}
