import type { Shared } from './shared.js'
import { DEAD, LEASED } from '../states.js'

/** Rows that are looked at in one go. */
const SLICE = 500

/** Why a delivery is dead that nobody claimed in all the time that it is kept. */
const EXPIRED = 'older than the retention'

interface Row {
  id: number
  destination: number
  state: number
  dueAt: number
  receivedAt: number
  replayedAt: number | null
}

/** What is to be swept. */
export interface Sweep {
  olderThanMs: number
  limit: number
  /** Nothing before this delivery is left to sweep, but for dead letters: spares the way past a million of them. */
  fromId: number
}

/** What was swept, and where to go on. */
export interface Swept {
  changed: number
  fromId: number
}

/** Deletes what was received, or died, before a time, and is settled; what still waits dies. Oldest first. */
export function prepareSweep({ database, counts }: Shared) {
  const after = database.prepare(
    `SELECT id, destination, state, due_at AS dueAt, received_at AS receivedAt, replayed_at AS replayedAt
     FROM deliveries WHERE id >= ? ORDER BY id LIMIT ${SLICE}`,
  )
  const deadBefore = database.prepare(
    `SELECT id FROM deliveries INDEXED BY waiting
     WHERE destination = ? AND state = ${DEAD} AND state <= ${DEAD} AND due_at < ? ORDER BY due_at LIMIT ?`,
  )
  const replayedBefore = database.prepare(
    `SELECT id, destination, state, due_at AS dueAt FROM deliveries INDEXED BY replayed
     WHERE replayed_at IS NOT NULL AND replayed_at < ? ORDER BY replayed_at LIMIT ?`,
  )
  const bury = database.prepare(
    `UPDATE deliveries SET state = ${DEAD}, due_at = ?, reason = '${EXPIRED}', replayed_at = NULL WHERE id = ?`,
  )
  const deletes = [
    'DELETE FROM deliveries WHERE id = ?',
    'DELETE FROM bodies WHERE id = ?',
    'DELETE FROM attempts WHERE delivery = ?',
  ].map((sql) => database.prepare(sql))

  const remove = (id: number): void => {
    for (const statement of deletes) statement.run(id)
  }

  /** Makes of one old row what is to become of it; `undefined` if it has to stay for now. */
  const sweepRow = (row: Omit<Row, 'receivedAt'>, now: number): number | undefined => {
    const { id, destination, state, dueAt, replayedAt } = row
    if (state > DEAD) {
      remove(id)
      return 1
    }
    // The dead have their own order, by the time of death, and so has what was replayed.
    if (state === DEAD || replayedAt !== null) return 0
    // Its attempt is under way.
    if (state === LEASED && dueAt > now) return undefined
    bury.run(now, id)
    counts.move(destination, state, DEAD, id)
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
    for (const row of replayedBefore.all(before, limit) as Row[]) {
      changed += sweepRow({ ...row, replayedAt: null }, now) ?? 0
    }
    return changed
  }

  /** Old rows, from the first that is not known to be past. */
  const old = function* (fromId: number, before: number): Generator<Row> {
    for (let from = fromId; ;) {
      const rows = after.all(from) as Row[]
      for (const row of rows) {
        if (row.receivedAt >= before) return
        yield row
        from = row.id + 1
      }
      if (rows.length < SLICE) return
    }
  }

  return ({ olderThanMs, limit, fromId }: Sweep, now: number): Swept => {
    const before = now - olderThanMs
    let changed = limit > 0 ? removeDead(before, limit) : 0
    if (changed < limit) changed += sweepReplayed(before, limit - changed, now)
    let nextId = fromId
    let hasPassedAll = true
    for (const row of old(fromId, before)) {
      if (changed >= limit) break
      const count = sweepRow(row, now)
      hasPassedAll &&= count !== undefined
      if (hasPassedAll) nextId = row.id + 1
      changed += count ?? 0
    }
    return { changed, fromId: nextId }
  }
}
