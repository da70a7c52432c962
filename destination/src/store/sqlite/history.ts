import {
  BREAKER_STATES,
  HISTORIES,
  HISTORY_SPANS,
  type HistoryCounts,
  type HistoryPlace,
  type HistorySpan,
} from '../../model/history.js'
import type { Shared } from './shared.js'
import type { FlatHistory } from './wire.js'

interface Row {
  at: number
  destination: number
  url: number
  delivered: number
  failed: number
  busy: number
  breaker: number
  bins: string
}

/** Adds to the history of the endpoints, and reads it. */
export function prepareHistory({ database, names }: Shared) {
  const find = database.prepare(
    `SELECT bins FROM history WHERE bucket_ms = ? AND at = ? AND destination = ? AND url = ?`,
  )
  const add = database.prepare(
    `INSERT INTO history (bucket_ms, at, destination, url, delivered, failed, busy, breaker, bins)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (bucket_ms, at, destination, url) DO UPDATE SET delivered = delivered + excluded.delivered,
       failed = failed + excluded.failed, busy = busy + excluded.busy, breaker = max(breaker, excluded.breaker),
       bins = excluded.bins`,
  )
  const forget = database.prepare('DELETE FROM history WHERE bucket_ms = ? AND at < ?')
  const read = database.prepare(
    `SELECT at, destination, url, delivered, failed, busy, breaker, bins FROM history
     WHERE bucket_ms = ? AND (at, destination, url) > (?, ?, ?) ORDER BY at, destination, url LIMIT ?`,
  )

  const addTo = (span: HistorySpan, all: readonly HistoryCounts[], now: number): void => {
    const { bucketMs, buckets } = HISTORIES[span]
    const at = now - (now % bucketMs)
    for (const { destination, url, delivered, failed, busy, breaker, bins } of all) {
      const key = [bucketMs, at, names.number(destination), names.number(url)] as const
      const known = find.get(...key) as { bins: string } | undefined
      const sum = known ? summed(JSON.parse(known.bins) as number[], bins) : bins
      const state = BREAKER_STATES.indexOf(breaker)
      add.run(...key, delivered, failed, busy, state, JSON.stringify(sum))
    }
    forget.run(bucketMs, at - buckets * bucketMs)
  }

  return {
    add: (all: readonly HistoryCounts[], now: number): void => {
      for (const span of HISTORY_SPANS) addTo(span, all, now)
    },
    /** @param ahead - How far the store's clock is ahead of the times that are asked for and shown, in ms. */
    read: (
      span: HistorySpan,
      since: number,
      after: HistoryPlace | undefined,
      limit: number,
      ahead: number,
    ): FlatHistory => {
      const flat: FlatHistory = []
      // No name has the number 0.
      const place = after
        ? [after.at + ahead, names.number(after.destination), names.number(after.url)]
        : [since + ahead, 0, 0]
      for (const row of read.all(HISTORIES[span].bucketMs, ...place, limit) as Row[]) {
        flat.push(row.at - ahead, names.name(row.destination), names.name(row.url))
        flat.push(row.delivered, row.failed, row.busy, row.breaker, row.bins)
      }
      return flat
    },
  }
}

function summed(a: readonly number[], b: readonly number[]): number[] {
  return Array.from({ length: Math.max(a.length, b.length) }, (_, i) => (a[i] ?? 0) + (b[i] ?? 0))
}
