import { StoreError } from '../store-error.js'
import type { Connection } from './connection.js'

/** How stores are marked, and the lock that keeps them from being made twice at once: "hook" in ASCII. */
const LOCK = 0x686f6f6b

/**
 * Each takes the schema one version further; the version is how many have been run. Those that were published
 * are never changed. `$` stands for the schema's name.
 *
 * - `deliveries` says what was put, and is written once. What changes with each attempt is in `waiting`, in small rows
 *   that leave it at the end: what has to be vacuumed stays as small as the backlog, whatever the retention.
 * - `waiting` has the dead letters too, with the time of death as `due_at`. Its index leads a claim straight to the
 *   longest due of a lane. A lease is the due time itself.
 *   What waits since its replay has the time of that in `replayed_at`, and is swept by it.
 * - `done` has what arrived, or was skipped: both wait for nothing but their deletion.
 * - `deliveries_user` is cut into 4,096 deliveries each: a write touches the newest cut alone, which stays in memory.
 *   A search asks for each `id >> 12` from the newest down. An id of a user can be longer than an index takes.
 * - `members` has a hash of the user as its key, for the same reason.
 * - Names that come back in each row (sources, destinations, types, URLs, codes) are numbers.
 * - All times are ms since the epoch, by the server's clock.
 */
const MIGRATIONS = [
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
]

/**
 * Brings the tables to the version that this code knows, all the steps or none. Any number of processes may do so at
 * once: one does, the others wait for it.
 *
 * @param schema - As it stands in statements.
 * @throws StoreError `newer` if they are of a later version.
 */
export async function migrate(
  connection: Connection,
  schema: string,
  migrations: readonly string[] = MIGRATIONS,
): Promise<void> {
  // Most starts find nothing to do, and may have no right to do it either.
  if (await isCurrent(connection, schema, migrations)) return
  await connection.transact(async (query) => {
    await query('SET LOCAL statement_timeout = 0')
    await query('SET LOCAL lock_timeout = 0')
    await query('SELECT pg_advisory_xact_lock($1, hashtext($2))', [LOCK, schema])
    if (await isCurrent({ query }, schema, migrations)) return
    await query(`CREATE SCHEMA IF NOT EXISTS ${schema}`)
    await query(`CREATE TABLE IF NOT EXISTS ${schema}.version (version integer NOT NULL)`)
    const version = await versionOf({ query }, schema)
    // The text of a step is the code's own; a function keeps what is in a name from being a pattern.
    for (const step of migrations.slice(version)) {
      await query(step.replaceAll('$.', () => `${schema}.`))
    }
    await query(`DELETE FROM ${schema}.version`)
    await query(`INSERT INTO ${schema}.version VALUES ($1)`, [migrations.length])
  })
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

/** 0 if there are no tables yet. */
async function versionOf({ query }: Pick<Connection, 'query'>, schema: string): Promise<number> {
  const [table] = await query<{ found: boolean }>('SELECT to_regclass($1) IS NOT NULL AS found', [
    `${schema}.version`,
  ])
  if (!table?.found) return 0
  const [row] = await query<{ version: number }>(`SELECT version FROM ${schema}.version`)
  return row?.version ?? 0
}
