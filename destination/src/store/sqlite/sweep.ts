import type { Shared } from './shared.js'
import { DEAD, EXPIRED, LEASED } from '../states.js'
import { RETRIED_MS } from '../store.js'
import { DUE_AT, IS_LISTED } from './schema.js'

/**
 * The most rows that one query looks at, so that other calls do not wait for a sweep. With a sweep a minute, the search for what is
 * behind younger rows takes 100 minutes for a million rows.
 */
const SLICE = 10_000

/** Whether a row has an attempt under way, or others to come. A time in the future comes from a clock that was wrong. */
const IS_BUSY = `(
  (state = ${LEASED} AND ${DUE_AT} > ?1)
  OR coalesce(first_attempt_at, 0) BETWEEN ?1 - ${RETRIED_MS} + 1 AND ?1
)`

/** Whether a row that is old may go. For dead letters and replayed deliveries, other times than that of the put say that they are old. */
const MAY_GO = `(received_at < ?2 AND (state > ${DEAD} OR (state < ${DEAD} AND NOT ${IS_BUSY})))`

interface Row {
  id: number
  destination: number
  state: number
  /** Whether the row is younger than the retention, so that those behind it usually are, too. */
  isYoung: number
}

/** Where the next call of a sweep continues: the lowest ids that it looks at. */
export interface SweepPlace {
  /** Nothing below this can go, except dead letters, replayed deliveries, and what had to stay when it was looked at. */
  old: number
  /** The place of a search through all rows, for what had to stay, and for messages that another store had put before. */
  far: number
}

/** One call of a sweep. */
export interface Sweep {
  olderThanMs: number
  limit: number
  place: SweepPlace
}

/** How many deliveries were changed, and where the next call continues. */
export interface Swept {
  changed: number
  place: SweepPlace
  /** Whether a `delete` message was deleted, which had the id of a user. */
  hasDeletedId: boolean
  /** How many became dead letters, by destination. */
  expired: ReadonlyMap<string, number>
}

/** Deletes old settled deliveries, and makes dead letters of old ones that still wait. The oldest come first. */
export function prepareSweep({ database, names, counts, firstLeases, ids }: Shared) {
  const next = database.prepare(
    `SELECT id, destination, state, isYoung FROM (
       SELECT *, received_at BETWEEN ?2 AND ?1 AS isYoung FROM deliveries NOT INDEXED
       WHERE id >= ?3 ORDER BY id LIMIT ${SLICE}
     ) WHERE (isYoung AND ?4) OR (replayed_at IS NULL AND ${MAY_GO}) LIMIT ?5`,
  )
  const behindSlice = database.prepare(
    `SELECT id FROM deliveries WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ${SLICE}`,
  )
  const deadBefore = database.prepare(
    `SELECT id FROM deliveries INDEXED BY waiting
     WHERE destination = ? AND state = ${DEAD} AND ${IS_LISTED} AND due_at < ? ORDER BY due_at LIMIT ?`,
  )
  const replayed = database.prepare(
    `SELECT id, destination, state FROM (
       SELECT * FROM deliveries INDEXED BY replayed
       WHERE replayed_at IS NOT NULL AND replayed_at < ?2 ORDER BY replayed_at LIMIT ${SLICE}
     ) WHERE ${MAY_GO} LIMIT ?3`,
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

  /** Deletes settled rows, and makes dead letters of those that wait. */
  const sweepRows = (rows: readonly Row[], now: number): number => {
    for (const { id, destination, state } of rows) {
      if (state > DEAD) {
        remove(id)
        continue
      }
      bury.run(now, id)
      firstLeases.remove(id)
      counts.move(destination, state, DEAD, id)
      const name = names.name(destination)
      expired.set(name, (expired.get(name) ?? 0) + 1)
    }
    return rows.length
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

  return ({ olderThanMs, limit, place }: Sweep, now: number): Swept => {
    const before = now - olderThanMs
    hasDeletedId = false
    expired = new Map()
    let changed = limit > 0 ? removeDead(before, limit) : 0

    /** Sweeps one slice, from an id up to its end or, `toYoung`, to the first young row. Returns where the next slice begins. */
    const sweepSlice = (from: number, toYoung: boolean): number => {
      const room = limit - changed
      if (room <= 0) return from
      const rows = next.all(now, before, from, toYoung ? 1 : 0, room) as Row[]
      const young = toYoung ? rows.findIndex(({ isYoung }) => isYoung) : -1
      const last = rows.length === room ? rows.at(-1) : undefined
      // This counts rows, so it comes before any is deleted.
      const behind = () => (behindSlice.get(from) as { id: number } | undefined)?.id ?? ids.next
      const to = rows[young]?.id ?? (last ? last.id + 1 : behind())
      changed += sweepRows(young < 0 ? rows : rows.slice(0, young), now)
      return to
    }

    if (changed < limit)
      changed += sweepRows(replayed.all(now, before, limit - changed) as Row[], now)
    const old = sweepSlice(place.old, true)
    const far = sweepSlice(place.far, false)
    return { changed, place: { old, far: far < ids.next ? far : 0 }, hasDeletedId, expired }
  }
}
