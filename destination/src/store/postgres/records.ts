import { conflictOf, recordKey, staleRevision } from '../records.js'
import { StoreError } from '../store-error.js'
import type { LogEntry, RecordChange, RecordKey, Records, StoredRecord } from '../store.js'
import { fromStored, toStored } from '../text.js'
import type { RunQuery } from './connection.js'
import { SERVER_AT } from './clock.js'
import { NOW, type Tables } from './tables.js'

/** A row of a write. Its place in the list gives it its version. */
interface Written extends RecordKey {
  body: string | null
  entry: string | null
}

/**
 * The SQL expression for {@link Records.history}: the table, its file in the folder of its database, and the start of the server. A restore
 * changes one of them, unless it deletes the rows and puts others into the same table. What else changes one, such as a restart, only
 * costs that all records are read again.
 */
const HISTORY = `concat_ws(' ', revisions.tableoid, pg_relation_filepath(revisions.tableoid), extract(epoch FROM pg_postmaster_start_time()))`

/** Writes, reads and deletes records and their log. */
export function prepareRecords({ query, transact, schema, now, clock }: Tables) {
  const lock = `SELECT revision FROM ${schema}.revisions FOR UPDATE`
  const versionsOf = `
    SELECT CASE WHEN r.body IS NULL THEN 0 ELSE r.version END AS version, r.version IS NOT NULL AS "isKnown"
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS given (kind, name, n)
      LEFT JOIN ${schema}.records r ON r.kind = given.kind AND r.name = given.name
    ORDER BY n`
  const write = `
    WITH given AS MATERIALIZED (
      SELECT kind, name, body, entry, n
      FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS g (kind, name, body, entry, n)
    ), log AS (
      INSERT INTO ${schema}.record_log (at, kind, name, entry)
      SELECT ${NOW}, kind, name, entry FROM given WHERE entry IS NOT NULL ORDER BY n
    ), raised AS (
      UPDATE ${schema}.revisions SET revision = $6::bigint + cardinality($2::text[])
    )
    INSERT INTO ${schema}.records AS r (kind, name, version, at, body)
    SELECT kind, name, $6::bigint + n, ${NOW}, body FROM given
    ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, at = excluded.at, body = excluded.body`
  const read = `
    SELECT revision, forgotten, kind, name, version, body, ${SERVER_AT} AS "serverAt", ${HISTORY} AS history
    FROM ${schema}.revisions LEFT JOIN LATERAL (
      SELECT kind, name, version, body FROM ${schema}.records
      WHERE version > $1 AND (body IS NOT NULL OR $1 > 0) ORDER BY version LIMIT $2
    ) r ON true ORDER BY version`
  const columns = `SELECT id, at, kind, name, entry FROM ${schema}.record_log`
  const readLog = `${columns} WHERE id < $1 ORDER BY id DESC LIMIT $2`
  const readLogOf = `${columns} WHERE kind = $3 AND name = $4 AND id < $1 ORDER BY id DESC LIMIT $2`
  const forgetLog = `
    WITH gone AS (
      DELETE FROM ${schema}.record_log WHERE id IN (
        SELECT id FROM ${schema}.record_log WHERE at < ${NOW} - $2::bigint ORDER BY at LIMIT $3
      ) RETURNING id
    ) SELECT count(*)::int AS count FROM gone`
  const forget = `
    WITH old AS MATERIALIZED (
      SELECT kind, name, version FROM ${schema}.records
      WHERE body IS NULL AND at < ${NOW} - $2::bigint ORDER BY version LIMIT $3
    ), gone AS (
      DELETE FROM ${schema}.records r USING old
      WHERE r.kind = old.kind AND r.name = old.name AND r.version = old.version
    ), noted AS (
      UPDATE ${schema}.revisions SET forgotten = greatest(forgotten, (SELECT max(version) FROM old))
      WHERE EXISTS (SELECT FROM old)
    )
    SELECT count(*)::int AS count FROM old`
  const copyLog = `
    INSERT INTO ${schema}.record_log (at, kind, name, entry)
    SELECT at, kind, name, entry
    FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS g (at, kind, name, entry, n)
    WHERE NOT EXISTS (
      SELECT FROM ${schema}.record_log l
      WHERE l.kind = g.kind AND l.name = g.name AND l.at = g.at AND l.entry = g.entry
    ) ORDER BY n`

  /** Locks the revision, and returns it together with what is stored of each record. The version is 0 if it does not exist. */
  const begin = async (run: RunQuery, keys: readonly RecordKey[]) => {
    const [row] = await run<{ revision: number }>(lock)
    const stored = keys.map(recordKey)
    const kinds = stored.map(([kind]) => kind)
    const names = stored.map(([, name]) => name)
    const found = await run<{ version: number; isKnown: boolean }>(versionsOf, [kinds, names])
    return { revision: row?.revision ?? 0, found }
  }

  const writeAll = async (run: RunQuery, revision: number, all: readonly Written[]) => {
    const keys = all.map(recordKey)
    await run(write, [
      now(),
      keys.map(([kind]) => kind),
      keys.map(([, name]) => name),
      all.map(({ body }) => body),
      all.map(({ entry }) => entry),
      revision,
    ])
    return all.map((_, i) => revision + i + 1)
  }

  return {
    write: (
      changes: readonly RecordChange[],
      unchangedSince: number | undefined,
    ): Promise<number[]> =>
      transact(async (run) => {
        const { revision, found } = await begin(run, changes)
        if (unchangedSince !== undefined && revision > unchangedSince) throw staleRevision()
        for (const [i, change] of changes.entries()) {
          const version = found[i]?.version ?? 0
          if (version !== change.version) throw conflictOf(change, version)
        }
        return writeAll(
          run,
          revision,
          changes.map(({ kind, name, body, entry }) => ({
            kind,
            name,
            body: body === undefined ? null : toStored(body),
            entry: entry === undefined ? null : toStored(entry),
          })),
        )
      }),

    read: async (after: number, limit: number): Promise<Records> => {
      const askedAt = performance.now()
      const rows = await query<StateRow & StoredRow>(read, [after, limit])
      const [state] = rows
      if (!state)
        throw new StoreError(
          'failed',
          `store: the table ${schema}.revisions is empty: a restore may be under way.`,
        )
      // Every process reads the changes twice a second, so this keeps the clock right.
      clock.note(state.serverAt, askedAt)
      const records = rows.flatMap((row) => (row.kind === null ? [] : [fromRow(row)]))
      const { revision, forgotten, history } = state
      return { records, revision, forgotten, history }
    },

    readLog: async (
      about: RecordKey | undefined,
      before: number | undefined,
      limit: number,
    ): Promise<LogEntry[]> => {
      const from = before ?? Number.MAX_SAFE_INTEGER
      const rows = about
        ? await query<LogEntry>(readLogOf, [from, limit, ...recordKey(about)])
        : await query<LogEntry>(readLog, [from, limit])
      return rows.map(({ kind, name, entry, ...row }) => ({
        ...row,
        kind: fromStored(kind),
        name: fromStored(name),
        entry: fromStored(entry),
      }))
    },

    forget: async (olderThanMs: number, limit: number): Promise<number> => {
      const [entries] = await query<{ count: number }>(forgetLog, [now(), olderThanMs, limit])
      const left = limit - (entries?.count ?? 0)
      const [records] = await query<{ count: number }>(forget, [now(), olderThanMs, left])
      return limit - left + (records?.count ?? 0)
    },

    copyIn: (records: readonly StoredRecord[], after: number): Promise<boolean[]> =>
      transact(async (run) => {
        const { revision, found } = await begin(run, records)
        const isAdded = records.map(
          ({ body }, i) => body !== undefined && found[i]?.isKnown === false,
        )
        const added = records
          .filter((_, i) => isAdded[i])
          .map(({ kind, name, body = '' }) => ({ kind, name, body: toStored(body), entry: null }))
        await writeAll(run, Math.max(revision, after), added)
        return isAdded
      }),

    copyLogIn: async (entries: readonly LogEntry[]): Promise<void> => {
      const keys = entries.map(recordKey)
      await query(copyLog, [
        entries.map(({ at }) => at),
        keys.map(([kind]) => kind),
        keys.map(([, name]) => name),
        entries.map(({ entry }) => toStored(entry)),
      ])
    },
  }
}

interface StateRow {
  revision: number
  forgotten: number
  serverAt: number
  history: string
}

/** A record, or nulls if none is left to read. */
type StoredRow =
  { kind: string; name: string; version: number; body: string | null } | { kind: null }

function fromRow({
  kind,
  name,
  version,
  body,
}: Extract<StoredRow, { name: string }>): StoredRecord {
  return {
    kind: fromStored(kind),
    name: fromStored(name),
    version,
    body: body === null ? undefined : fromStored(body),
  }
}
