import { randomUUID } from 'node:crypto'
import { WORKER_TIMEOUT_MS, type DownEndpoint, type Workers } from '../store.js'
import { fromStored, toStored } from '../text.js'
import { numbersOf } from './names.js'
import { NOW, type Tables } from './tables.js'

interface Probe {
  holdMs: number
}

/** Shares heartbeats and probe permissions with the other workers, through the database. */
export function createWorkers({
  query,
  schema,
  names,
  now,
}: Tables): Workers & { leave(): Promise<void> } {
  const id = randomUUID()
  let hasJoined = false
  // After an outage, all processes may take each other for gone. Each waits only for its own row, before it locks others: else they
  // could deadlock.
  const noteHeartbeat = `
    WITH me AS (
      INSERT INTO ${schema}.workers (id, seen_at) VALUES ($2, ${NOW})
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at RETURNING id
    ), gone AS (
      DELETE FROM ${schema}.workers WHERE id IN (
        SELECT id FROM ${schema}.workers WHERE seen_at <= ${NOW} - ${WORKER_TIMEOUT_MS} AND id <> (SELECT id FROM me)
        FOR UPDATE SKIP LOCKED
      )
    )
    SELECT count(*)::int + 1 AS workers FROM ${schema}.workers
    WHERE seen_at > ${NOW} - ${WORKER_TIMEOUT_MS} AND id <> $2`
  // A worker may end, or lose its connection, before it records that an endpoint is healthy again. Its row then stays. A row
  // that nobody has renewed for the longest time between two probes belongs to a former outage.
  const isFormer = `p.held_until <= ${NOW} - $4::bigint`
  const holdMs = `CASE WHEN ${isFormer} THEN $3::bigint ELSE least(p.hold_ms * 2, $4::bigint) END`
  // Without a row, nobody finds the endpoint down any more.
  const probe = `
    WITH permitted AS (
      UPDATE ${schema}.probes p SET hold_ms = ${holdMs}, held_until = ${NOW} + ${holdMs}
      WHERE p.endpoint = (SELECT id FROM ${schema}.names WHERE name = $2) AND p.held_until <= ${NOW}
      RETURNING hold_ms
    )
    SELECT coalesce((SELECT hold_ms FROM permitted), 0) AS "holdMs" FROM ${schema}.probes
    WHERE endpoint = (SELECT id FROM ${schema}.names WHERE name = $2)`
  // As if there had been a permission of half the first time, so that the next one is for the first time.
  const note = `
    WITH ${numbersOf(schema, '$2')}
    INSERT INTO ${schema}.probes AS p (endpoint, held_until, hold_ms)
    VALUES ((SELECT ids[1] FROM numbers), ${NOW} + $3::bigint, $5)
    ON CONFLICT (endpoint) DO UPDATE SET hold_ms = CASE WHEN ${isFormer} THEN excluded.hold_ms ELSE p.hold_ms END,
      held_until = greatest(p.held_until, excluded.held_until)`
  const find = `
    SELECT name AS endpoint, greatest(0, held_until - ${NOW})::float8 AS "forMs"
    FROM ${schema}.probes JOIN ${schema}.names ON names.id = probes.endpoint
    WHERE held_until > ${NOW} - $2::bigint`
  const free = `DELETE FROM ${schema}.probes WHERE endpoint = (SELECT id FROM ${schema}.names WHERE name = $1)`

  return {
    heartbeat: async () => {
      const isNew = !hasJoined
      hasJoined = true
      const note = () => query<{ workers: number }>(noteHeartbeat, [now(), id])
      // Two that join at once may not see each other. Of their second looks, the later one sees the other worker.
      if (isNew) await note()
      const [row] = await note()
      return row?.workers ?? 1
    },
    tryProbe: async (endpoint, firstMs, maxMs) => {
      const times = [firstMs, maxMs].map(Math.round)
      const [row] = await query<Probe>(probe, [now(), toStored(endpoint), ...times])
      return row?.holdMs
    },
    noteDown: async (endpoint, forMs, firstMs, maxMs) => {
      await names.write(note, (list) => {
        list.position(endpoint)
        const times = [forMs, maxMs, firstMs / 2].map(Math.round)
        return [now(), String(list), ...times]
      })
    },
    findDown: async (maxMs) => {
      const rows = await query<DownEndpoint>(find, [now(), Math.round(maxMs)])
      return rows.map(({ endpoint, forMs }) => ({ endpoint: fromStored(endpoint), forMs }))
    },
    endProbes: async (endpoint) => {
      await query(free, [toStored(endpoint)])
    },
    leave: async () => {
      if (hasJoined) await query(`DELETE FROM ${schema}.workers WHERE id = $1`, [id])
    },
  }
}
