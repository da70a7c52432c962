import {
  BREAKER_STATES,
  HISTORIES,
  HISTORY_SPANS,
  type HistoryCounts,
  type HistoryPlace,
  type HistoryRow,
  type HistorySpan,
} from '../../model/history.js'
import { fromStored, toStored } from '../text.js'
import { numbersOf } from './names.js'
import { NOW, type Tables } from './tables.js'

type Row = Omit<HistoryRow, 'breaker'> & { breaker: number }

/** The lengths of the buckets of all histories. */
const LENGTHS = HISTORY_SPANS.map((span) => HISTORIES[span].bucketMs)

/** Adds to the history of the endpoints, and reads it. */
export function prepareHistory({ query, schema, names, now }: Tables) {
  // All processes lock the rows in the same order, so that they do not block each other.
  const add = `
    WITH ${numbersOf(schema, '$3')}, given AS MATERIALIZED (
      SELECT ids[destination_n] AS destination, ids[url_n] AS url, delivered, failed, busy, breaker, bins
      FROM json_to_recordset($2::json) AS g (destination_n int, url_n int, delivered bigint, failed bigint, busy bigint,
        breaker smallint, bins int[]) CROSS JOIN numbers
    )
    INSERT INTO ${schema}.history AS h (bucket_ms, at, destination, url, delivered, failed, busy, breaker, bins)
    SELECT bucket_ms, ${NOW} - ${NOW} % bucket_ms, destination, url, delivered, failed, busy, breaker, bins
    FROM given CROSS JOIN unnest($4::int[]) AS bucket_ms
    ORDER BY bucket_ms, destination, url
    ON CONFLICT (bucket_ms, at, destination, url) DO UPDATE SET delivered = h.delivered + excluded.delivered,
      failed = h.failed + excluded.failed, busy = h.busy + excluded.busy,
      breaker = greatest(h.breaker, excluded.breaker),
      bins = ARRAY (SELECT coalesce(a, 0) + coalesce(b, 0) FROM unnest(h.bins, excluded.bins) WITH ORDINALITY AS u (a, b, n) ORDER BY n)`
  const forget = `
    DELETE FROM ${schema}.history h USING unnest($2::int[], $3::int[]) AS kept (bucket_ms, buckets)
    WHERE h.bucket_ms = kept.bucket_ms AND at < ${NOW} - (buckets + 1) * kept.bucket_ms::bigint`
  // No name has the number 0.
  const idOf = (name: string) =>
    `coalesce((SELECT id FROM ${schema}.names WHERE name = ${name}), 0)`
  const read = `
    SELECT at, destinations.name AS destination, urls.name AS url, delivered, failed, busy, breaker, bins
    FROM ${schema}.history h
      JOIN ${schema}.names destinations ON destinations.id = destination
      JOIN ${schema}.names urls ON urls.id = url
    WHERE bucket_ms = $1 AND (at, h.destination, h.url) > ($2, ${idOf('$3')}, ${idOf('$4')})
    ORDER BY at, h.destination, h.url LIMIT $5`

  return {
    add: async (all: readonly HistoryCounts[]): Promise<void> => {
      // If this fails, nothing has been added, as the caller expects.
      const kept = HISTORY_SPANS.map((span) => HISTORIES[span].buckets)
      await query(forget, [now(), LENGTHS, kept])
      await names.write(add, (list) => {
        const given = all.map(({ destination, url, breaker, ...counts }) => ({
          ...counts,
          breaker: BREAKER_STATES.indexOf(breaker),
          destination_n: list.position(destination),
          url_n: list.position(url),
        }))
        return [now(), JSON.stringify(given), String(list), LENGTHS]
      })
    },
    read: async (
      span: HistorySpan,
      since: number,
      after: HistoryPlace | undefined,
      limit: number,
    ): Promise<HistoryRow[]> => {
      const place = after
        ? [after.at, toStored(after.destination), toStored(after.url)]
        : [since, null, null]
      const rows = await query<Row>(read, [HISTORIES[span].bucketMs, ...place, limit])
      return rows.map((row) => ({
        ...row,
        destination: fromStored(row.destination),
        url: fromStored(row.url),
        breaker: BREAKER_STATES[row.breaker] ?? 'closed',
      }))
    },
  }
}
