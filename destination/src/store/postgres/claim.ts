import type { EventType } from '../../model/call.js'
import type { Claim, Delivery, DeliveryId } from '../../model/delivery.js'
import { LEASE_MS, NEWEST } from '../store.js'
import { fromStored } from '../text.js'
import { refusedByOf } from '../rows.js'
import { BACKLOG, stateNumber } from '../states.js'
import { NOW, type Tables } from './tables.js'

interface Row {
  id: DeliveryId
  /** The position of its claim, from 1. */
  n: number
  attempt: number
  attemptsBefore: number
  messageId: string
  source: string
  type: string
  body: string
  sinceFirstMs: number
  refusedBy: string | null
  traceParent: string | null
}

/**
 * The statement that carries out claims. For each claim it reads the index `waiting_due` from the longest due delivery
 * on, skips rows that others have locked, and stops at the limit. It sorts only the rows that it found.
 *
 * The planner can't know how many rows that will be. With plain joins it sometimes reads whole tables or compares every
 * row with every other. The array and the `LIMIT 1` force it to look up each row by its key.
 */
export function claimStatement(schema: string): string {
  return statement(
    schema,
    `SELECT id, due_at, attempt, attempts_before, first_attempt_at, refused_by FROM ${schema}.waiting
     WHERE destination = claims.destination AND state = claims.state AND due_at <= ${NOW}
     ORDER BY due_at, id LIMIT claims.count FOR UPDATE SKIP LOCKED`,
  )
}

/**
 * The statement for claims of untried deliveries. It looks at the newest of them without a lock, and then locks those
 * that it takes: their conditions are checked again, because another worker may have claimed them in between.
 */
function untriedStatement(schema: string): string {
  return statement(
    schema,
    `SELECT id, due_at, attempt, attempts_before, first_attempt_at, refused_by FROM ${schema}.waiting
     WHERE id = ANY (ARRAY (
         SELECT id FROM (
           SELECT id, attempt FROM ${schema}.waiting
           WHERE destination = claims.destination AND state = claims.state AND due_at <= ${NOW}
           ORDER BY due_at DESC, id DESC LIMIT ${NEWEST}
         ) newest WHERE attempt = 0 LIMIT claims.count
       )) AND state = claims.state AND due_at <= ${NOW} AND attempt = 0
     FOR UPDATE SKIP LOCKED`,
  )
}

/** @param search - The rows of `waiting` for one row of `claims`, locked. */
function statement(schema: string, search: string): string {
  return `
    WITH found AS MATERIALIZED (
      SELECT n, w.*
      FROM unnest($2::int[], $3::smallint[], $4::int[]) WITH ORDINALITY AS claims (destination, state, count, n)
      CROSS JOIN LATERAL (
        ${search}
      ) w
    ), leased AS (
      UPDATE ${schema}.waiting
      SET state = ${BACKLOG}, leased = true, attempt = attempt + 1, due_at = ${NOW} + ${LEASE_MS},
        attempt_at = ${NOW}, first_attempt_at = coalesce(first_attempt_at, ${NOW})
      WHERE id = ANY (ARRAY (SELECT id FROM found))
    )
    SELECT id, n, attempt + 1 AS attempt, coalesce(attempts_before, 0) AS "attemptsBefore",
      refused_by AS "refusedBy", d.*,
      greatest(0, coalesce(${NOW} - first_attempt_at, 0)) AS "sinceFirstMs"
    FROM found CROSS JOIN LATERAL (
      SELECT message_id AS "messageId", trace_parent AS "traceParent", body, sources.name AS source, types.name AS type
      FROM ${schema}.deliveries d
        JOIN ${schema}.names sources ON sources.id = d.source JOIN ${schema}.names types ON types.id = d.type
      WHERE d.id = found.id LIMIT 1
    ) d
    ORDER BY n, due_at, id`
}

/** Leases due deliveries. */
export function prepareClaim({ query, schema, names, now }: Tables) {
  const oldestDue = claimStatement(schema)
  const untried = untriedStatement(schema)

  const lease = async (sql: string, claims: Claim[]): Promise<Delivery[]> => {
    if (claims.length === 0) return []
    const rows = await query<Row>(sql, [
      now(),
      claims.map(({ destination }) => names.number(destination)),
      claims.map(({ lane }) => stateNumber(lane)),
      claims.map(({ limit }) => limit),
    ])
    return rows.flatMap((row) => {
      const wanted = claims[row.n - 1]
      return wanted ? [toDelivery(row, wanted)] : []
    })
  }

  return async (claims: Claim[]): Promise<Delivery[]> => {
    await names.add(claims.map(({ destination }) => destination))
    const probes = claims.filter(({ isUntried }) => isUntried)
    const others = claims.filter(({ isUntried }) => !isUntried)
    return [...(await lease(untried, probes)), ...(await lease(oldestDue, others))]
  }
}

function toDelivery(row: Row, { destination, lane }: Claim): Delivery {
  return {
    id: row.id,
    attempt: row.attempt,
    attemptsBefore: row.attemptsBefore,
    messageId: fromStored(row.messageId),
    source: fromStored(row.source),
    destination,
    type: row.type as EventType,
    body: fromStored(row.body),
    sinceFirstMs: row.sinceFirstMs,
    lane,
    traceParent: row.traceParent ?? undefined,
    refusedBy: refusedByOf(row.refusedBy),
  }
}
