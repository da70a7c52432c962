import { conflictOf, recordKey, staleRevision } from '../records.js'
import type { LogEntry, RecordChange, RecordKey, Records, StoredRecord } from '../store.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'

/** Writes, reads and deletes records and their log. */
export function prepareRecords({ database }: Shared) {
  const state = database.prepare('SELECT revision, forgotten FROM revisions')
  const setRevision = database.prepare('UPDATE revisions SET revision = ?')
  const versionOf = database.prepare(
    'SELECT version FROM records WHERE kind = ? AND name = ? AND body IS NOT NULL',
  )
  const isKnown = database.prepare('SELECT 1 FROM records WHERE kind = ? AND name = ?')
  const write = database.prepare(
    `INSERT INTO records (kind, name, version, at, body) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, at = excluded.at, body = excluded.body`,
  )
  const log = database.prepare('INSERT INTO record_log (at, kind, name, entry) VALUES (?, ?, ?, ?)')
  const read = database.prepare(
    `SELECT kind, name, version, body FROM records
     WHERE version > ? AND (body IS NOT NULL OR ? > 0) ORDER BY version LIMIT ?`,
  )
  const columns = 'SELECT id, at, kind, name, entry FROM record_log'
  const readLog = database.prepare(`${columns} WHERE id < ? ORDER BY id DESC LIMIT ?`)
  const readLogOf = database.prepare(
    `${columns} WHERE kind = ? AND name = ? AND id < ? ORDER BY id DESC LIMIT ?`,
  )
  const hasEntry = database.prepare(
    'SELECT 1 FROM record_log WHERE kind = ? AND name = ? AND at = ? AND entry = ?',
  )
  const forgetLog = database.prepare(
    'DELETE FROM record_log WHERE id IN (SELECT id FROM record_log WHERE at < ? ORDER BY at LIMIT ?)',
  )
  const deleted = database.prepare(
    'SELECT kind, name, version FROM records WHERE body IS NULL AND at < ? ORDER BY version LIMIT ?',
  )
  const forget = database.prepare('DELETE FROM records WHERE kind = ? AND name = ?')
  const setForgotten = database.prepare('UPDATE revisions SET forgotten = max(forgotten, ?)')

  const stateNow = () => state.get() as { revision: number; forgotten: number }

  const versionNow = (key: readonly [string, string]) =>
    (versionOf.get(...key) as { version: number } | undefined)?.version ?? 0

  return {
    write: (
      changes: readonly RecordChange[],
      unchangedSince: number | undefined,
      now: number,
    ): number[] => {
      let { revision } = stateNow()
      if (unchangedSince !== undefined && revision > unchangedSince) throw staleRevision()
      const versions = changes.map((change) => {
        const key = recordKey(change)
        const version = versionNow(key)
        if (version !== change.version) throw conflictOf(change, version)
        const body = change.body === undefined ? null : toStored(change.body)
        write.run(...key, ++revision, now, body)
        if (change.entry !== undefined) log.run(now, ...key, toStored(change.entry))
        return revision
      })
      setRevision.run(revision)
      return versions
    },

    read: (after: number, limit: number): Records => {
      const records = (read.all(after, after, limit) as Stored[]).map(fromRow)
      return { records, ...stateNow() }
    },

    /** @param ahead - How far the store's clock is ahead of the times that are shown, in ms. */
    readLog: (
      about: RecordKey | undefined,
      before: number | undefined,
      limit: number,
      ahead: number,
    ): LogEntry[] => {
      const from = before ?? Number.MAX_SAFE_INTEGER
      const rows = about
        ? readLogOf.all(...recordKey(about), from, limit)
        : readLog.all(from, limit)
      return (rows as LogEntry[]).map(({ id, at, kind, name, entry }) => ({
        id,
        at: at - ahead,
        kind: fromStored(kind),
        name: fromStored(name),
        entry: fromStored(entry),
      }))
    },

    forget: (olderThanMs: number, limit: number, now: number): number => {
      const before = now - olderThanMs
      const entries = forgetLog.run(before, limit)
      const rows = deleted.all(before, limit - entries) as (RecordKey & { version: number })[]
      for (const { kind, name, version } of rows) {
        forget.run(kind, name)
        setForgotten.run(version)
      }
      return entries + rows.length
    },

    copyIn: (records: readonly StoredRecord[], after: number, now: number): boolean[] => {
      let revision = Math.max(stateNow().revision, after)
      const added = records.map((record) => {
        const key = recordKey(record)
        if (record.body === undefined || isKnown.get(...key)) return false
        write.run(...key, ++revision, now, toStored(record.body))
        return true
      })
      setRevision.run(revision)
      return added
    },

    copyLogIn: (entries: readonly LogEntry[], ahead: number): void => {
      for (const { at, entry, ...about } of entries) {
        const key = recordKey(about)
        const [time, text] = [at + ahead, toStored(entry)]
        if (!hasEntry.get(...key, time, text)) log.run(time, ...key, text)
      }
    },
  }
}

interface Stored extends RecordKey {
  version: number
  body: string | null
}

function fromRow({ kind, name, version, body }: Stored): StoredRecord {
  return {
    kind: fromStored(kind),
    name: fromStored(name),
    version,
    body: body === null ? undefined : fromStored(body),
  }
}
