import type { EventType } from '../../call.js'
import { LEASE_MS, type Claim, type Delivery, type DeliveryId } from '../store.js'
import { fromStored } from '../text.js'
import { refusedByOf } from '../refused-by.js'
import { BACKLOG, FRESH } from './schema.js'
import { NOW, type Tables } from './tables.js'

interface Row {
  id: DeliveryId
  wish: number
  attempt: number
  messageId: string
  source: string
  type: string
  body: string
  sinceFirstMs: number
  refusedBy: string | null
}

/**
 * The one statement of a claim. For each wish it goes along the index of what waits, from the longest due on, past
 * what others have locked, and stops at the limit; nothing is sorted but what it found.
 *
 * The arrays are for the planner. It does not know how many rows it will find; with an array it goes by the keys all the
 * same, where for a join it would read the whole table.
 */
export function claimStatement(schema: string): string {
  return `
    WITH found AS MATERIALIZED (
      SELECT w.wish, d.id, d.due_at
      FROM unnest($2::int[], $3::smallint[], $4::int[]) WITH ORDINALITY AS w (destination, state, count, wish)
      CROSS JOIN LATERAL (
        SELECT id, due_at FROM ${schema}.waiting
        WHERE destination = w.destination AND state = w.state AND due_at <= ${NOW}
        ORDER BY due_at, id LIMIT w.count FOR UPDATE SKIP LOCKED
      ) d
    ), leased AS (
      UPDATE ${schema}.waiting q
      SET state = ${BACKLOG}, leased = true, attempt = attempt + 1, due_at = ${NOW} + ${LEASE_MS},
        attempt_at = ${NOW}, first_attempt_at = coalesce(first_attempt_at, ${NOW})
      WHERE id = ANY (ARRAY (SELECT id FROM found))
      RETURNING id, attempt, greatest(0, attempt_at - first_attempt_at) AS since, refused_by
    )
    SELECT leased.id, wish, attempt, since AS "sinceFirstMs", refused_by AS "refusedBy", message_id AS "messageId", body,
      sources.name AS source, types.name AS type
    FROM leased JOIN found USING (id) JOIN ${schema}.deliveries d USING (id)
      JOIN ${schema}.names sources ON sources.id = d.source JOIN ${schema}.names types ON types.id = d.type
    WHERE d.id = ANY (ARRAY (SELECT id FROM found))
    ORDER BY wish, due_at, leased.id`
}

/** Leases what is due, the longest due first. */
export function prepareClaim({ query, schema, names, now }: Tables) {
  const claim = claimStatement(schema)

  return async (wants: Claim[]): Promise<Delivery[]> => {
    await names.add(wants.map(({ destination }) => destination))
    const rows = await query<Row>(claim, [
      now(),
      wants.map(({ destination }) => names.number(destination)),
      wants.map(({ lane }) => (lane === 'fresh' ? FRESH : BACKLOG)),
      wants.map(({ limit }) => limit),
    ])
    return rows.flatMap((row) => {
      const want = wants[row.wish - 1]
      return want ? [toDelivery(row, want)] : []
    })
  }
}

function toDelivery(row: Row, { destination, lane }: Claim): Delivery {
  return {
    id: row.id,
    attempt: row.attempt,
    messageId: fromStored(row.messageId),
    source: fromStored(row.source),
    destination,
    type: row.type as EventType,
    body: fromStored(row.body),
    sinceFirstMs: row.sinceFirstMs,
    lane,
    refusedBy: refusedByOf(row.refusedBy),
  }
}
