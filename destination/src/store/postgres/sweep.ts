import type { DeliveryId } from '../../model/delivery.js'
import { BACKLOG, DEAD, EXPIRED } from '../states.js'
import { LEASE_MS, RETRIED_MS, type OnExpired } from '../store.js'
import { StoreError } from '../store-error.js'
import { fromStored } from '../text.js'
import { DUE_AT, isAhead, lanesOf } from './states.js'
import { NOW, type Tables } from './tables.js'

/** The number of rows that one query reads. */
const SLICE = 500

/** How many slices one sweep reads of what is behind younger rows, of each table. With a sweep a minute, a million rows take 100 minutes. */
const FAR_SLICES = 20

/** A delivery that waits or is dead. */
interface Row {
  id: DeliveryId
  /** Whether it was put longer ago than the retention. */
  old: boolean
  /** Whether the server's clock was ahead when it was put. */
  ahead: boolean
  /** Whether the row has no delivery. Former versions left such rows behind. */
  orphan: boolean
  /** Whether it is a dead letter or was replayed. Other queries sweep these, by the time of the death or the replay. */
  passed: boolean
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
export function prepareSweep({ query, schema, now }: Tables) {
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
  // A row without a delivery is deleted at once. It is never one that is being put, because a put writes both rows in one
  // transaction.
  const removeDone = remove(
    'done',
    `seen AS MATERIALIZED (
      SELECT id, coalesce(received_at < ${NOW} - $2::bigint, true) AS old, coalesce(received_at > ${NOW}, false) AS ahead
      FROM (SELECT id FROM ${schema}.done WHERE id > $4 ORDER BY id LIMIT ${SLICE}) next
        LEFT JOIN ${schema}.deliveries USING (id)
    ), chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.done WHERE id = ANY (ARRAY (SELECT id FROM seen WHERE old))
      ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
    )`,
    `, (SELECT count(*)::int FROM seen) AS seen, (SELECT max(id) FROM seen) AS last,
      EXISTS (SELECT FROM seen WHERE old OR ahead) AS "isToGoOn"`,
  )
  const removeOrphans = remove(
    'waiting',
    `chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED
    )`,
  )
  const lookAt = `
    SELECT id, state = ${DEAD} OR replayed_at IS NOT NULL AS passed, ${isBusy} AS busy,
      received_at IS NULL AS orphan, coalesce(received_at < ${NOW} - $2::bigint, true) AS old,
      coalesce(received_at > ${NOW}, false) AS ahead, ${NOW} AS at
    FROM (SELECT * FROM ${schema}.waiting WHERE id >= $3 ORDER BY id LIMIT ${SLICE}) next
      LEFT JOIN ${schema}.deliveries USING (id)
    ORDER BY id`
  // The conditions are checked again: a delivery may have been claimed or settled since `lookAt` read it.
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

  /** Below this id only dead letters and replayed deliveries wait. A sweep need not read millions of them again. */
  let fromId = 0

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

  const buryOld = async (
    olderThanMs: number,
    limit: number,
    expired?: OnExpired,
  ): Promise<number> => {
    let changed = 0
    let hasPassedAll = true
    for (let from = fromId; changed < limit;) {
      const rows = await query<Row>(lookAt, [now(), olderThanMs, from])
      const { orphans, waiting, isHeld } = sort(rows)
      const died = await buryAll(waiting.slice(0, limit - changed), expired)
      const lost = orphans.slice(0, limit - changed - died)
      const removed = lost.length > 0 ? await count(removeOrphans, [lost]) : 0
      changed += died + removed
      hasPassedAll &&= died + removed === waiting.length + orphans.length && !isHeld
      const last = rows.at(-1)
      if (last && hasPassedAll) fromId = last.id + 1
      if (!last || rows.length < SLICE || !rows.some(({ old, ahead }) => old || ahead)) break
      from = last.id + 1
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

  // Ids are nearly in the order of arrival. So the first slice without an old row ends the search. `removeFar` finds old rows behind it.
  const removeOldDone = async (olderThanMs: number, limit: number): Promise<number> => {
    let changed = 0
    for (let from = 0; changed < limit;) {
      const values = [now(), olderThanMs, limit - changed, from]
      const [removed] = await query<Removed>(removeDone, values)
      changed += removed?.count ?? 0
      if (!removed?.isToGoOn || removed.last === null || removed.seen < SLICE) break
      from = removed.last
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
    for (let slices = 0; slices < FAR_SLICES && changed < limit; slices++) {
      const rows = await query<Row>(lookAt, [now(), olderThanMs, far.waiting])
      const { waiting } = sort(rows)
      const room = limit - changed
      changed += await buryAll(waiting.slice(0, room), expired)
      if (waiting.length > room) break // the next sweep reads this slice again
      const last = rows.length === SLICE ? rows.at(-1) : undefined
      far.waiting = last ? last.id + 1 : 0
      if (!last) break
    }
    return changed
  }

  const removeFar = async (olderThanMs: number, limit: number): Promise<number> => {
    let changed = 0
    for (let slices = 0; slices < FAR_SLICES && changed < limit; slices++) {
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

/** What is to be done with a slice of rows, and whether a row stays that has to be looked at again. */
function sort(rows: Row[]) {
  const aged = rows.filter(({ old, orphan }) => old && !orphan)
  const left = aged.filter(({ passed }) => !passed)
  return {
    orphans: rows.filter(({ orphan }) => orphan).map(({ id }) => id),
    waiting: left.filter(({ busy }) => !busy),
    isHeld: left.some(({ busy }) => busy) || rows.some(({ old }) => !old),
  }
}
