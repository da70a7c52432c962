import type { DeliveryId } from '../../model/delivery.js'
import { BACKLOG, DEAD } from '../states.js'
import { NOW, type Tables } from './tables.js'

/** The number of rows that one query reads. */
const SLICE = 500

/** The reason of a dead letter that waited for longer than the retention. */
const EXPIRED = 'older than the retention'

interface Row {
  id: DeliveryId
  /** Whether it is a dead letter or was replayed. Other queries sweep these, by the time of the death or the replay. */
  passed: boolean
  /** Whether its attempt is under way. */
  busy: boolean
}

/**
 * Deletes old settled deliveries, and makes dead letters of old ones that still wait. Any number of processes may sweep
 * at once, and none waits for another.
 */
export function prepareSweep({ query, schema, now }: Tables) {
  /** Deletes deliveries and all that belongs to them. */
  const remove = (from: 'done' | 'waiting', chosen: string): string => `
    WITH chosen AS MATERIALIZED (${chosen}), gone AS (
      DELETE FROM ${schema}.${from} WHERE id = ANY (ARRAY (SELECT id FROM chosen)) RETURNING id
    ), deliveries AS (
      DELETE FROM ${schema}.deliveries WHERE id = ANY (ARRAY (SELECT id FROM gone))
    ), attempts AS (
      DELETE FROM ${schema}.attempts WHERE delivery = ANY (ARRAY (SELECT id FROM gone))
    )
    SELECT count(*)::int AS count FROM gone`

  const removeDead = remove(
    'waiting',
    `SELECT w.id FROM ${schema}.names n CROSS JOIN LATERAL (
       SELECT id FROM ${schema}.waiting
       WHERE destination = n.id AND state = ${DEAD} AND due_at < ${NOW} - $2::bigint
       ORDER BY due_at, id LIMIT $3 FOR UPDATE SKIP LOCKED
     ) w LIMIT $3`,
  )
  // Ids are nearly in the order of arrival. If they are not, an old row may stay until a later sweep, which does no
  // harm.
  const removeDone = remove(
    'done',
    `SELECT id FROM (SELECT id FROM ${schema}.done ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) oldest
     JOIN ${schema}.deliveries USING (id) WHERE received_at < ${NOW} - $2::bigint`,
  )
  const lookAt = `
    SELECT id, state = ${DEAD} OR replayed_at IS NOT NULL AS passed, leased AND due_at > ${NOW} AS busy
    FROM (SELECT * FROM ${schema}.waiting WHERE id >= $3 ORDER BY id LIMIT ${SLICE}) oldest
      JOIN ${schema}.deliveries USING (id)
    WHERE received_at < ${NOW} - $2::bigint ORDER BY id`
  // The conditions are checked again: a delivery may have been claimed or settled since `lookAt` read it.
  const bury = `
    WITH chosen AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting
      WHERE id = ANY ($2::bigint[]) AND state <= ${BACKLOG} AND NOT (leased AND due_at > ${NOW})
      FOR UPDATE SKIP LOCKED
    ), dead AS (
      UPDATE ${schema}.waiting SET state = ${DEAD}, leased = false, due_at = ${NOW}, reason = '${EXPIRED}', replayed_at = NULL
      WHERE id = ANY (ARRAY (SELECT id FROM chosen)) RETURNING id
    )
    SELECT count(*)::int AS count FROM dead`

  const replayed = `
    SELECT id FROM ${schema}.waiting
    WHERE replayed_at < ${NOW} - $2::bigint AND NOT (leased AND due_at > ${NOW}) ORDER BY replayed_at LIMIT $3`

  /** Below this id only dead letters and replayed deliveries wait. A sweep need not read millions of them again. */
  let fromId = 0

  const count = async (statement: string, values: unknown[]): Promise<number> => {
    const [row] = await query<{ count: number }>(statement, [now(), ...values])
    return row?.count ?? 0
  }

  const buryOld = async (olderThanMs: number, limit: number): Promise<number> => {
    let buried = 0
    let hasPassedAll = true
    for (let from = fromId; buried < limit;) {
      const rows = await query<Row>(lookAt, [now(), olderThanMs, from])
      const ids = rows.filter(({ passed, busy }) => !passed && !busy).map(({ id }) => id)
      const chosen = ids.slice(0, limit - buried)
      const died = chosen.length > 0 ? await count(bury, [chosen]) : 0
      buried += died
      hasPassedAll &&= died === ids.length && !rows.some(({ passed, busy }) => busy && !passed)
      const last = rows.at(-1)
      if (last && hasPassedAll) fromId = last.id + 1
      if (!last || rows.length < SLICE) break
      from = last.id + 1
    }
    return buried
  }

  const buryReplayed = async (olderThanMs: number, limit: number): Promise<number> => {
    const rows = await query<{ id: DeliveryId }>(replayed, [now(), olderThanMs, limit])
    return rows.length > 0 ? await count(bury, [rows.map(({ id }) => id)]) : 0
  }

  return async (olderThanMs: number, limit: number): Promise<number> => {
    let changed = await count(removeDead, [olderThanMs, limit])
    if (changed < limit) changed += await buryReplayed(olderThanMs, limit - changed)
    if (changed < limit) changed += await buryOld(olderThanMs, limit - changed)
    if (changed < limit) changed += await count(removeDone, [olderThanMs, limit - changed])
    return changed
  }
}
