import type { DeliveryId } from '../../model/delivery.js'
import type { ReplayLane } from '../store.js'
import { DEAD, DONE, stateNumber } from '../states.js'
import { DURABLY, NOW, type Tables } from './tables.js'

/** Replays dead letters and, with `withDone`, delivered messages. Returns the ids of those that it replayed. */
export function prepareReplay({ query, schema, now }: Tables) {
  const replay = `
    WITH dead AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting WHERE id = ANY ($2::bigint[]) AND state = ${DEAD}
        AND ($5::bigint IS NULL OR due_at <= $5) ORDER BY id FOR UPDATE
    ), revived AS (
      UPDATE ${schema}.waiting
      SET state = $4::smallint, due_at = ${NOW}, replayed_at = ${NOW}, attempts_before = attempt,
        first_attempt_at = NULL, refused_by = NULL, reason = NULL
      WHERE id = ANY (ARRAY (SELECT id FROM dead)) RETURNING id
    ), arrived AS MATERIALIZED (
      SELECT id FROM ${schema}.done WHERE $3 AND id = ANY ($2::bigint[]) AND state = ${DONE}
        AND ($5::bigint IS NULL OR coalesce(first_attempt_at, 0) <= $5) ORDER BY id FOR UPDATE
    ), taken AS (
      DELETE FROM ${schema}.done WHERE id = ANY (ARRAY (SELECT id FROM arrived)) RETURNING *
    ), logged AS (
      INSERT INTO ${schema}.attempts (delivery, attempt, post, at, ms, url, code, status, error, response, headers)
      SELECT id, attempt, 0, at, ms, url, code, status, error, response, headers FROM taken WHERE code IS NOT NULL
    ), added AS (
      INSERT INTO ${schema}.waiting (id, due_at, destination, attempt, state, leased, attempts_before, replayed_at, size)
      SELECT id, ${NOW}, destination, attempt, $4::smallint, false, attempt, ${NOW}, octet_length(body)
      FROM taken JOIN ${schema}.deliveries USING (id) RETURNING id
    )
    SELECT id FROM (SELECT id FROM revived UNION ALL SELECT id FROM added) replayed WHERE ${DURABLY}`

  return async (
    ids: readonly DeliveryId[],
    withDone: boolean,
    lane: ReplayLane,
    asOf?: number,
  ): Promise<DeliveryId[]> => {
    if (ids.length === 0) return []
    const values = [now(), ids, withDone, stateNumber(lane), asOf ?? null]
    const rows = await query<{ id: DeliveryId }>(replay, values)
    return rows.map(({ id }) => id)
  }
}
