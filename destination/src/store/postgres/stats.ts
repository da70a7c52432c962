import type { Stats } from '../../model/delivery.js'
import { fromStored } from '../text.js'
import { BACKLOG, BULK, DEAD, FRESH } from '../states.js'
import { NOW, type Tables } from './tables.js'

/** In ms: if counting takes the server less than this, every call counts again. */
const CHEAP_MS = 50

/** A slower result is kept for this many times its duration. So counting takes at most a twentieth of a core of the server. */
const KEPT_TIMES = 20

/**
 * Counts the deliveries that wait or are dead. The oldest has the lowest id, unless it was moved to this server: then its first attempt
 * says how old it is at least, or the time at which it is due. This reads a whole table, about 100 ms for a million deliveries. So with
 * a large backlog the result of `stats` may be some seconds old, but not that of `count`.
 */
export function prepareStats({ query, schema, now }: Tables) {
  const count = `
    SELECT coalesce(json_agg(stats), '[]') AS "all",
      extract(epoch FROM clock_timestamp() - statement_timestamp())::float8 * 1000 AS ms
    FROM (
      SELECT name AS destination, fresh::int, backlog::int, bulk::int, leased::int, dead::int,
        greatest(0, ${NOW} - least(since, (SELECT received_at FROM ${schema}.deliveries d WHERE d.id = oldest)))::float8
          AS "oldestMs"
      FROM (
        SELECT destination AS id,
          count(*) FILTER (WHERE state = ${FRESH} AND NOT leased) AS fresh,
          count(*) FILTER (WHERE state = ${BACKLOG} AND NOT leased) AS backlog,
          count(*) FILTER (WHERE state = ${BULK} AND NOT leased) AS bulk,
          count(*) FILTER (WHERE leased) AS leased,
          count(*) FILTER (WHERE state = ${DEAD}) AS dead,
          min(waiting.id) FILTER (WHERE state <> ${DEAD}) AS oldest,
          min(least(due_at, first_attempt_at)) FILTER (WHERE state <> ${DEAD}) AS since
        FROM ${schema}.waiting GROUP BY destination
      ) counts JOIN ${schema}.names USING (id) ORDER BY id
    ) stats`
  let kept: Stats[] = []
  let keptUntil = 0

  const countNow = async (): Promise<Stats[]> => {
    const [counted] = await query<{ all: Stats[]; ms: number }>(count, [now()])
    const { all = [], ms = 0 } = counted ?? {}
    kept = all.map((stats) => ({ ...stats, destination: fromStored(stats.destination) }))
    if (ms >= CHEAP_MS) keptUntil = performance.now() + ms * KEPT_TIMES
    return kept
  }

  return {
    stats: () => (performance.now() < keptUntil ? Promise.resolve(kept) : countNow()),
    count: countNow,
  }
}
