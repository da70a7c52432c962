import type { Shared } from './shared.js'
import { DEAD, EXPIRED, LEASED } from '../states.js'
import { RETRIED_MS } from '../store.js'
import { DUE_AT, IS_LISTED } from './schema.js'

/** The number of rows that one query reads. */
const SLICE = 100

interface Row {
  id: number
  destination: number
  state: number
  dueAt: number
  firstAttemptAt: number | null
  receivedAt: number
  replayedAt: number | null
}

/** One call of a sweep. */
export interface Sweep {
  olderThanMs: number
  limit: number
  /** Below this id only dead letters and replayed deliveries are left. A sweep need not read millions of them again. */
  fromId: number
}

/** How many deliveries were changed, and where the next call continues. */
export interface Swept {
  changed: number
  fromId: number
  /** Whether a `delete` message was deleted, which had the id of a user. */
  hasDeletedId: boolean
  /** How many became dead letters, by destination. */
  expired: ReadonlyMap<string, number>
}

/** Deletes old settled deliveries, and makes dead letters of old ones that still wait. The oldest come first. */
export function prepareSweep({ database, names, counts, firstLeases }: Shared) {
  const after = database.prepare(
    `SELECT id, destination, state, ${DUE_AT} AS dueAt, first_attempt_at AS firstAttemptAt, received_at AS receivedAt,
       replayed_at AS replayedAt
     FROM deliveries WHERE id >= ? ORDER BY id LIMIT ${SLICE}`,
  )
  const deadBefore = database.prepare(
    `SELECT id FROM deliveries INDEXED BY waiting
     WHERE destination = ? AND state = ${DEAD} AND ${IS_LISTED} AND due_at < ? ORDER BY due_at LIMIT ?`,
  )
  const replayedBefore = database.prepare(
    `SELECT id, destination, state, ${DUE_AT} AS dueAt, first_attempt_at AS firstAttemptAt,
       received_at AS receivedAt
     FROM deliveries INDEXED BY replayed
     WHERE replayed_at IS NOT NULL AND replayed_at < ? AND coalesce(first_attempt_at, 0) NOT BETWEEN ? AND ?
     ORDER BY replayed_at LIMIT ?`,
  )
  const bury = database.prepare(
    `UPDATE deliveries SET state = ${DEAD}, due_at = ?, reason = '${EXPIRED}', replayed_at = NULL WHERE id = ?`,
  )
  const removeDelivery = database.prepare('DELETE FROM deliveries WHERE id = ? RETURNING type')
  const removeRest = [
    'DELETE FROM bodies WHERE id = ?',
    'DELETE FROM attempts WHERE delivery = ?',
  ].map((sql) => database.prepare(sql))
  let hasDeletedId = false
  let expired = new Map<string, number>()

  const remove = (id: number): void => {
    const { type } = removeDelivery.get(id) as { type: number }
    hasDeletedId ||= type === names.find('delete')
    for (const statement of removeRest) statement.run(id)
  }

  /** Sweeps one old row. Returns how many rows it changed; `undefined` if the row has to stay for now. */
  const sweepRow = (row: Row, now: number): number | undefined => {
    const { id, destination, state, dueAt, firstAttemptAt, receivedAt, replayedAt } = row
    if (receivedAt > now) return undefined
    if (state > DEAD) {
      remove(id)
      return 1
    }
    // removeDead and sweepReplayed handle these: their age counts from their death or from their replay.
    if (state === DEAD || replayedAt !== null) return 0
    // Its attempt is under way.
    if (state === LEASED && dueAt > now) return undefined
    // It has other attempts to come. A time in the future comes from a clock that was wrong.
    if (firstAttemptAt !== null && firstAttemptAt <= now && firstAttemptAt > now - RETRIED_MS)
      return undefined
    bury.run(now, id)
    firstLeases.remove(id)
    counts.move(destination, state, DEAD, id)
    const name = names.name(destination)
    expired.set(name, (expired.get(name) ?? 0) + 1)
    return 1
  }

  const removeDead = (before: number, limit: number): number => {
    let removed = 0
    for (const destination of counts.destinationsIn(DEAD)) {
      for (const row of deadBefore.all(destination, before, limit - removed)) {
        const { id } = row as { id: number }
        remove(id)
        counts.move(destination, DEAD, undefined, id)
        removed++
      }
    }
    return removed
  }

  const sweepReplayed = (before: number, limit: number, now: number): number => {
    let changed = 0
    for (const row of replayedBefore.all(before, now - RETRIED_MS + 1, now, limit) as Row[]) {
      changed += sweepRow({ ...row, replayedAt: null }, now) ?? 0
    }
    return changed
  }

  /**
   * The rows from `fromId` on that were received before `before`, in the order of ids. Between them may be rows that were
   * received in the future: an older version wrote them while the system's clock was wrong.
   */
  const old = function* (fromId: number, before: number, now: number): Generator<Row> {
    for (let from = fromId; ;) {
      const rows = after.all(from) as Row[]
      for (const row of rows) {
        if (row.receivedAt >= before && row.receivedAt <= now) return
        yield row
        from = row.id + 1
      }
      if (rows.length < SLICE) return
    }
  }

  return ({ olderThanMs, limit, fromId }: Sweep, now: number): Swept => {
    const before = now - olderThanMs
    hasDeletedId = false
    expired = new Map()
    let changed = limit > 0 ? removeDead(before, limit) : 0
    if (changed < limit) changed += sweepReplayed(before, limit - changed, now)
    let nextId = fromId
    let hasPassedAll = true
    for (const row of old(fromId, before, now)) {
      if (changed >= limit) break
      const count = sweepRow(row, now)
      hasPassedAll &&= count !== undefined
      if (hasPassedAll) nextId = row.id + 1
      changed += count ?? 0
    }
    return { changed, fromId: nextId, hasDeletedId, expired }
  }
}
