import { randomUUID } from 'node:crypto'
import { WORKER_TIMEOUT_MS, type DownEndpoint, type Workers } from '../workers.js'
import { fromStored, toStored } from '../text.js'
import { numbersOf } from './names.js'
import { NOW, type Tables } from './tables.js'

/**
 * In ms: more than any endpoint is held. The longest `Retry-After` that counts is 5 minutes. A later time was written while the server's
 * clock was ahead, and says nothing.
 */
const MOST_HELD_MS = 600_000

/** The answer for an endpoint that is recorded as down. */
interface Probe {
  /** The place of the endpoint in the list, from 1. */
  n: number
  holdMs: number
}

/** Shares heartbeats and probe permissions with the other workers, through the database. */
export function createWorkers({
  query,
  schema,
  names,
  now,
}: Tables): Workers & { leave(): Promise<void>; others(): Promise<number> } {
  const id = randomUUID()
  /** Whether there may be a row of this worker: an answer may be lost. */
  let isNoted = false
  let hasJoined = false
  // After an outage, all processes may take each other for gone. Each waits only for its own row, before it locks others: else they
  // could deadlock.
  // A time in the future comes from a clock that was wrong.
  const isLive = `seen_at > ${NOW} - ${WORKER_TIMEOUT_MS} AND seen_at <= ${NOW} + ${WORKER_TIMEOUT_MS}`
  const noteHeartbeat = `
    WITH me AS (
      INSERT INTO ${schema}.workers (id, seen_at) VALUES ($2, ${NOW})
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at RETURNING id
    ), gone AS (
      DELETE FROM ${schema}.workers WHERE id IN (
        SELECT id FROM ${schema}.workers WHERE NOT (${isLive}) AND id <> (SELECT id FROM me)
        FOR UPDATE SKIP LOCKED
      )
    )
    SELECT count(*)::int + 1 AS workers FROM ${schema}.workers
    WHERE ${isLive} AND id <> $2`
  const countOthers = `
    SELECT count(*)::int AS workers FROM ${schema}.workers
    WHERE ${isLive} AND id <> $2`
  // A worker may end, or lose its connection, before it records that an endpoint is healthy again. Its row then stays. A row
  // that nobody has renewed for the longest time between two probes belongs to a former outage.
  const isAhead = `held_until > ${NOW} + ${MOST_HELD_MS}`
  const isFormer = `(p.held_until <= ${NOW} - $4::bigint OR p.${isAhead})`
  const holdMs = `CASE WHEN ${isFormer} THEN $3::bigint ELSE least(p.hold_ms * 2, $4::bigint) END`
  // Workers that ask at once must not wait for each other's rows: they ask in different orders, and could deadlock. Another worker is
  // about to probe an endpoint whose row is locked, or tells of it.
  const probe = `
    WITH ${numbersOf(schema, '$2')}, asked AS MATERIALIZED (
      SELECT id, n FROM numbers CROSS JOIN unnest(ids) WITH ORDINALITY AS given (id, n)
    ), due AS MATERIALIZED (
      SELECT endpoint FROM ${schema}.probes WHERE endpoint IN (SELECT id FROM asked) AND (held_until <= ${NOW} OR ${isAhead})
      FOR UPDATE SKIP LOCKED
    ), permitted AS (
      UPDATE ${schema}.probes p SET hold_ms = ${holdMs}, held_until = ${NOW} + ${holdMs}
      FROM due WHERE p.endpoint = due.endpoint RETURNING p.endpoint, p.hold_ms
    )
    SELECT n::int, coalesce(permitted.hold_ms, 0) AS "holdMs"
    FROM asked JOIN ${schema}.probes ON probes.endpoint = id LEFT JOIN permitted ON permitted.endpoint = id`
  // As if there had been a permission of half the first time, so that the next one is for the first time. All workers lock the rows
  // in the same order.
  const note = `
    WITH ${numbersOf(schema, '$2')}
    INSERT INTO ${schema}.probes AS p (endpoint, held_until, hold_ms)
    SELECT ids[n], ${NOW} + for_ms, $3
    FROM numbers CROSS JOIN unnest($5::bigint[]) WITH ORDINALITY AS given (for_ms, n) ORDER BY ids[n]
    ON CONFLICT (endpoint) DO UPDATE SET hold_ms = CASE WHEN ${isFormer} THEN excluded.hold_ms ELSE p.hold_ms END,
      held_until = CASE WHEN ${isFormer} THEN excluded.held_until ELSE greatest(p.held_until, excluded.held_until) END`
  const find = `
    SELECT name AS endpoint, CASE WHEN ${isAhead} THEN 0 ELSE greatest(0, held_until - ${NOW}) END::float8 AS "forMs"
    FROM ${schema}.probes JOIN ${schema}.names ON names.id = probes.endpoint
    WHERE held_until > ${NOW} - $2::bigint`
  const free = `
    WITH ${numbersOf(schema, '$1')}
    DELETE FROM ${schema}.probes WHERE endpoint IN (
      SELECT endpoint FROM ${schema}.probes WHERE endpoint IN (SELECT unnest(ids) FROM numbers) ORDER BY 1 FOR UPDATE
    )`
  const toList = (endpoints: readonly string[]) => JSON.stringify(endpoints.map(toStored))
  return {
    heartbeat: async () => {
      isNoted = true
      const note = () => query<{ workers: number }>(noteHeartbeat, [now(), id])
      // Two that join at once may not see each other. Of their second looks, the later one sees the other worker.
      if (!hasJoined) await note()
      hasJoined = true
      const [row] = await note()
      return row?.workers ?? 1
    },
    tryProbes: async (endpoints, firstMs, maxMs) => {
      const times = [firstMs, maxMs].map(Math.round)
      const rows = await query<Probe>(probe, [now(), toList(endpoints), ...times])
      const holds = new Map(rows.map(({ n, holdMs }) => [n, holdMs]))
      return endpoints.map((_, i) => holds.get(i + 1))
    },
    noteDown: async (down, firstMs, maxMs) => {
      await names.write(note, (list) => {
        for (const { endpoint } of down) list.position(endpoint)
        const times = [firstMs / 2, maxMs].map(Math.round)
        return [now(), String(list), ...times, down.map(({ forMs }) => Math.round(forMs))]
      })
    },
    findDown: async (maxMs) => {
      const rows = await query<DownEndpoint>(find, [now(), Math.round(maxMs)])
      return rows.map(({ endpoint, forMs }) => ({ endpoint: fromStored(endpoint), forMs }))
    },
    endProbes: async (endpoints) => {
      await query(free, [toList(endpoints)])
    },
    others: async () => {
      const [row] = await query<{ workers: number }>(countOthers, [now(), id])
      return row?.workers ?? 0
    },
    leave: async () => {
      if (isNoted) await query(`DELETE FROM ${schema}.workers WHERE id = $1`, [id])
    },
  }
}
