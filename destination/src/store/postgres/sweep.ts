import type { DeliveryId } from '../../model/delivery.js'
import { BACKLOG, DEAD, EXPIRED } from '../states.js'
import { LEASE_MS, RETRIED_MS, type OnExpired } from '../store.js'
import { StoreError } from '../store-error.js'
import { fromStored } from '../text.js'
import { DUE_AT, isAhead, lanesOf } from './states.js'
import { NOW, type Tables } from './tables.js'

/** The number of rows that one query reads. */
const SLICE = 500

/** How many dead letters one query passes at most. They are cheaper than the rows that it reads. */
const MOST_DEAD = 5_000

/**
 * How many slices of a table one step of a call reads at most. With a sweep a minute in which there is nothing to do, a million rows take
 * 100 minutes, and a million dead letters take 10.
 */
const MOST_SLICES = 20

/** A delivery that waits or is dead. */
interface Row {
  id: DeliveryId
  /** Whether it was put longer ago than the retention. */
  old: boolean
  /** Whether the server's clock was ahead when it was put. */
  ahead: boolean
  /** Whether the row has no delivery. Former versions left such rows behind. */
  orphan: boolean
  /** Whether it is not of the slice, but the row behind the dead letters that were passed. */
  behind: boolean
  /** Whether it was replayed. Another query sweeps these, by the time of the replay. */
  replayed: boolean
  /** Whether its attempt is under way or it has others to come. */
  busy: boolean
  /** When the row was read, by the server's clock. */
  at: number
}

/** Deliveries that are to be dead letters from a time on. The time also says which query has made them dead letters. */
interface Burial {
  ids: readonly DeliveryId[]
  at: number
}

/** What one query made dead letters, by the stored name of the destination. */
interface Buried {
  destination: string
  count: number
}

/** What has become of deliveries that a query was to make dead letters. */
interface Found {
  /** `null` if the rows are locked. */
  destination: string | null
  /** Whether that query has done so. */
  buried: boolean | null
  ids: string[]
}

/** What one query removed of the settled deliveries. */
interface Removed {
  count: number
  /** How many rows it looked at. */
  seen: number
  /** The id of the last row that it looked at; `null` if there was none. */
  last: DeliveryId | null
  /** Whether there may be more to remove behind that row. */
  isToGoOn: boolean
}

/**
 * Deletes old settled deliveries, and makes dead letters of old ones that still wait. Before that, it makes due what would wait for
 * hours because the server's clock was ahead. Any number of processes may sweep at once, and none waits for another.
 */
export function prepareSweep({ query, schema, now }: Pick<Tables, 'query' | 'schema' | 'now'>) {
  // A time in the future comes from a clock that was wrong.
  const isBusy = `(leased AND ${DUE_AT} > ${NOW}
      OR coalesce(first_attempt_at > ${NOW} - ${RETRIED_MS} AND first_attempt_at <= ${NOW}, false))`

  /** Deletes deliveries and all that belongs to them. */
  const remove = (from: 'done' | 'waiting', chosen: string, counted = ''): string => `
    WITH ${chosen}, gone AS (
      DELETE FROM ${schema}.${from} WHERE id = ANY (ARRAY (SELECT id FROM chosen)) RETURNING id
    ), deliveries AS (
      DELETE FROM ${schema}.deliveries WHERE id = ANY (ARRAY (SELECT id FROM gone))
    ), attempts AS (
      DELETE FROM ${schema}.attempts WHERE delivery = ANY (ARRAY (SELECT id FROM gone))
    )
    SELECT (SELECT count(*)::int FROM gone) AS count ${counted}`

  const removeDead = remove(
    'waiting',
    `chosen AS MATERIALIZED (
      SELECT w.id FROM ${schema}.names n CROSS JOIN LATERAL (
        SELECT id FROM ${schema}.waiting
        WHERE destination = n.id AND state = ${DEAD} AND due_at < ${NOW} - $2::bigint
        ORDER BY due_at, id LIMIT $3 FOR UPDATE SKIP LOCKED
      ) w LIMIT $3
    )`,
  )
  // What was replayed has `attempts_before`, and was first attempted after the replay. So has what was claimed in vain, or was copied
  // from another store when it had arrived: both are kept for a little longer. A row without a delivery is deleted at once. It is never
  // one that is being put, because a put writes both rows in one transaction.
  const removeDone = remove(
    'done',
    `seen AS MATERIALIZED (
      SELECT id, coalesce(received_at < ${NOW} - $2::bigint OR received_at > ${NOW}, true) AS passed,
        received_at IS NULL OR greatest(received_at, replayed_at) < ${NOW} - $2::bigint AS old
      FROM (
        SELECT id, CASE WHEN attempts_before IS NOT NULL THEN first_attempt_at END AS replayed_at
        FROM ${schema}.done WHERE id > $4 ORDER BY id LIMIT ${SLICE}
      ) next LEFT JOIN ${schema}.deliveries USING (id)
    ), chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.done WHERE id = ANY (ARRAY (SELECT id FROM seen WHERE old))
      ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
    )`,
    `, (SELECT count(*)::int FROM seen) AS seen, (SELECT max(id) FROM seen) AS last,
      EXISTS (SELECT FROM seen WHERE passed) AS "isToGoOn"`,
  )
  const removeOrphans = remove(
    'waiting',
    `chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED
    )`,
  )
  const lookAt = (from: string) => `
    SELECT id, replayed_at IS NOT NULL AS replayed, ${isBusy} AS busy,
      received_at IS NULL AS orphan, coalesce(received_at < ${NOW} - $2::bigint, true) AS old,
      coalesce(received_at > ${NOW}, false) AS ahead, ${NOW} AS at, behind
    FROM (${from}) next LEFT JOIN ${schema}.deliveries USING (id)
    ORDER BY id`
  // Dead letters may be in front of everything else, by the million. `removeDead` sweeps them, by the time of the death.
  const lookAtSlice = `
    WITH slice AS MATERIALIZED (
      SELECT * FROM (SELECT * FROM ${schema}.waiting WHERE id >= $3 ORDER BY id LIMIT ${MOST_DEAD}) next
      WHERE state <> ${DEAD} ORDER BY id LIMIT ${SLICE}
    ) ${lookAt(`
      SELECT *, false AS behind FROM slice
      UNION ALL
      SELECT *, true FROM (
        SELECT * FROM ${schema}.waiting WHERE id >= $3 ORDER BY id OFFSET ${MOST_DEAD} LIMIT 1
      ) next WHERE (SELECT count(*) FROM slice) < ${SLICE}`)}`
  const lookAtHeld = lookAt(
    `SELECT *, false AS behind FROM ${schema}.waiting WHERE id = ANY ($3::bigint[]) AND state <> ${DEAD}`,
  )
  // The conditions are checked again: a delivery may have been claimed or settled since it was read.
  const bury = `
    WITH chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting
      WHERE id = ANY ($2::bigint[]) AND state <= ${BACKLOG} AND NOT ${isBusy}
      FOR UPDATE SKIP LOCKED
    ), dead AS (
      UPDATE ${schema}.waiting SET state = ${DEAD}, leased = false, lease_until = NULL, due_at = ${NOW}, reason = '${EXPIRED}', replayed_at = NULL
      WHERE id = ANY (ARRAY (SELECT id FROM chosen)) RETURNING destination
    )
    SELECT name AS destination, count FROM (
      SELECT destination AS id, count(*)::int AS count FROM dead GROUP BY destination
    ) counts JOIN ${schema}.names USING (id)`

  // A row that is locked may be about to become a dead letter: the commit may still wait for the standby.
  const findBuried = `
    WITH free AS MATERIALIZED (
      SELECT id, destination, state = ${DEAD} AND reason = '${EXPIRED}' AND due_at = $1 AS buried
      FROM ${schema}.waiting WHERE id = ANY ($2::bigint[]) FOR UPDATE SKIP LOCKED
    )
    SELECT name AS destination, buried, array_agg(w.id)::text[] AS ids
    FROM ${schema}.waiting w LEFT JOIN free ON free.id = w.id LEFT JOIN ${schema}.names ON names.id = free.destination
    WHERE w.id = ANY ($2::bigint[]) GROUP BY name, buried`

  // A lease may still be held: it lasts for as long as one that begins now.
  const hasten = `
    WITH RECURSIVE ${lanesOf(schema)}, chosen AS MATERIALIZED (
      SELECT w.id FROM lanes CROSS JOIN LATERAL (
        SELECT id FROM ${schema}.waiting w
        WHERE w.destination = lanes.destination AND w.state = lanes.state AND ${isAhead('due_at')}
        ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
      ) w WHERE state <= ${BACKLOG} LIMIT $2
    ), hastened AS (
      UPDATE ${schema}.waiting SET state = CASE WHEN leased THEN ${BACKLOG} ELSE state END, lease_until = NULL,
        due_at = ${NOW} + CASE WHEN leased THEN ${LEASE_MS} ELSE 0 END
      WHERE id = ANY (ARRAY (SELECT id FROM chosen)) RETURNING id
    )
    SELECT count(*)::int AS count FROM hastened`

  const replayed = `
    SELECT id, ${NOW} AS at FROM ${schema}.waiting
    WHERE replayed_at < ${NOW} - $2::bigint AND NOT ${isBusy} ORDER BY replayed_at LIMIT $3`

  /** Below this id only dead letters, replayed deliveries and those of `held` wait. A sweep need not read millions of them again. */
  let fromId = 0

  /** Those that had to stay when a sweep passed them, for example for a retry: at most {@link SLICE}. Each call looks at them again. */
  let held: readonly DeliveryId[] = []

  const count = async (statement: string, values: unknown[]): Promise<number> => {
    const [row] = await query<{ count: number }>(statement, values)
    return row?.count ?? 0
  }

  /** Those whose query failed. It may have been carried out nevertheless, if only its answer was lost. */
  const unsure = new Set<Burial>()

  const buryAll = async (
    rows: readonly Pick<Row, 'id' | 'at'>[],
    expired?: OnExpired,
  ): Promise<number> => {
    const [first] = rows
    if (!first) return 0
    const burial = { ids: rows.map(({ id }) => id), at: first.at }
    try {
      const buried = await query<Buried>(bury, [burial.at, burial.ids])
      for (const { destination, count } of buried) expired?.(fromStored(destination), count)
      return buried.reduce((sum, { count }) => sum + count, 0)
    } catch (error) {
      if (error instanceof StoreError && error.isUnsure) unsure.add(burial)
      throw error
    }
  }

  /** Tells of the dead letters of former calls whose answers were lost. */
  const tellUnsure = async (expired?: OnExpired): Promise<void> => {
    for (const burial of [...unsure]) {
      const found = await query<Found>(findBuried, [burial.at, burial.ids])
      unsure.delete(burial)
      for (const { destination, buried, ids } of found) {
        if (destination === null) unsure.add({ ...burial, ids: ids.map(Number) })
        else if (buried) expired?.(fromStored(destination), ids.length)
      }
    }
  }

  /** Reads the slice of what waits that begins at an id. `next` is undefined if nothing is behind it. */
  const readSlice = async (olderThanMs: number, from: DeliveryId) => {
    const rows = await query<Row>(lookAtSlice, [now(), olderThanMs, from])
    const last = rows.at(-1)
    if (last?.behind) {
      return { rows: rows.slice(0, -1), next: { id: last.id, isToGoOn: last.old || last.ahead } }
    }
    if (!last || rows.length < SLICE) return { rows }
    const isToGoOn = rows.some(({ old, ahead }) => old || ahead)
    return { rows, next: { id: last.id + 1, isToGoOn } }
  }

  /**
   * Makes dead letters of those that wait for too long, and removes rows without a delivery.
   *
   * @returns how many it changed, and which have to be looked at again.
   */
  const buryRows = async (rows: readonly Row[], limit: number, expired?: OnExpired) => {
    const { orphans, waiting, others } = sort(rows)
    const died = await buryAll(waiting.slice(0, limit), expired)
    const lost = orphans.slice(0, limit - died)
    const removed = lost.length > 0 ? await count(removeOrphans, [lost]) : 0
    const changed = died + removed
    // Another process may have locked some of them. Those that were changed are not found again.
    const left = [...waiting.map(({ id }) => id), ...orphans]
    return { changed, stay: changed < left.length ? [...others, ...left] : others }
  }

  const buryOld = async (
    olderThanMs: number,
    limit: number,
    expired?: OnExpired,
  ): Promise<number> => {
    let changed = 0
    if (held.length > 0) {
      const rows = await query<Row>(lookAtHeld, [now(), olderThanMs, held])
      const buried = await buryRows(rows, limit, expired)
      changed = buried.changed
      held = buried.stay
    }
    let hasPassedAll = true
    let from = fromId
    for (let slices = 0; slices < MOST_SLICES && changed < limit; slices++) {
      const { rows, next } = await readSlice(olderThanMs, from)
      const buried = await buryRows(rows, limit - changed, expired)
      changed += buried.changed
      if (!next?.isToGoOn) break
      hasPassedAll &&= rows.every(({ old }) => old) && held.length + buried.stay.length <= SLICE
      if (hasPassedAll) {
        held = [...held, ...buried.stay]
        fromId = next.id
      }
      from = next.id
    }
    return changed
  }

  const buryReplayed = async (
    olderThanMs: number,
    limit: number,
    expired?: OnExpired,
  ): Promise<number> => {
    const rows = await query<Pick<Row, 'id' | 'at'>>(replayed, [now(), olderThanMs, limit])
    return buryAll(rows, expired)
  }

  /** Where the next call looks for old settled rows. Those before are gone, or were replayed and have to stay. */
  let doneFrom = 0

  // Ids are nearly in the order of arrival. So the first slice without an old row ends the search. `removeFar` finds old rows behind it.
  const removeOldDone = async (olderThanMs: number, limit: number): Promise<number> => {
    let changed = 0
    for (let slices = 0; slices < MOST_SLICES; slices++) {
      const values = [now(), olderThanMs, limit - changed, doneFrom]
      const [removed] = await query<Removed>(removeDone, values)
      changed += removed?.count ?? 0
      if (changed >= limit) break // the next call reads this slice again
      const isToGoOn = removed?.isToGoOn === true && removed.seen === SLICE
      doneFrom = isToGoOn ? (removed.last ?? 0) : 0
      if (!isToGoOn) break
    }
    return changed
  }

  /** Where the next sweep looks for old rows behind younger ones. What was moved to this server has the ids of younger messages. */
  const far = { waiting: 0, done: 0 }

  const buryFar = async (
    olderThanMs: number,
    limit: number,
    expired?: OnExpired,
  ): Promise<number> => {
    let changed = 0
    for (let slices = 0; slices < MOST_SLICES && changed < limit; slices++) {
      const { rows, next } = await readSlice(olderThanMs, far.waiting)
      const { waiting } = sort(rows)
      const room = limit - changed
      changed += await buryAll(waiting.slice(0, room), expired)
      if (waiting.length > room) break // the next sweep reads this slice again
      far.waiting = next?.id ?? 0
      if (!next) break
    }
    return changed
  }

  const removeFar = async (olderThanMs: number, limit: number): Promise<number> => {
    let changed = 0
    for (let slices = 0; slices < MOST_SLICES && changed < limit; slices++) {
      const values = [now(), olderThanMs, limit - changed, far.done]
      const [removed] = await query<Removed>(removeDone, values)
      changed += removed?.count ?? 0
      if (changed >= limit) break // the next sweep reads this slice again
      far.done = removed?.seen === SLICE ? (removed.last ?? 0) : 0
      if (far.done === 0) break
    }
    return changed
  }

  return async (olderThanMs: number, limit: number, expired?: OnExpired): Promise<number> => {
    await tellUnsure(expired)
    let changed = await count(hasten, [now(), limit])
    if (changed < limit) changed += await count(removeDead, [now(), olderThanMs, limit - changed])
    if (changed < limit) changed += await buryReplayed(olderThanMs, limit - changed, expired)
    if (changed < limit) changed += await buryOld(olderThanMs, limit - changed, expired)
    if (changed < limit) changed += await removeOldDone(olderThanMs, limit - changed)
    if (changed < limit) changed += await buryFar(olderThanMs, limit - changed, expired)
    if (changed < limit) changed += await removeFar(olderThanMs, limit - changed)
    return changed
  }
}

/** What is to be done with rows of `waiting`: `others` have to be looked at again. */
function sort(rows: readonly Row[]) {
  const left = rows.filter(({ orphan, replayed }) => !orphan && !replayed)
  const isEnding = ({ old, busy }: Row) => old && !busy
  return {
    orphans: rows.filter(({ orphan }) => orphan).map(({ id }) => id),
    waiting: left.filter(isEnding),
    others: left.filter((row) => !isEnding(row)).map(({ id }) => id),
  }
}
