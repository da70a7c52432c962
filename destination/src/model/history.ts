import type { BreakerState } from './breaker-state.js'

/** What happened at one endpoint in a stretch of time. */
export interface HistoryCounts {
  destination: string
  /** The endpoint's URL without its query. */
  url: string
  delivered: number
  /** Requests that were sent and failed. */
  failed: number
  /** Requests that were not sent, because the breaker was open or the endpoint could not keep up. */
  busy: number
  /** The worst state of the breaker. */
  breaker: BreakerState
  /** The number of requests by their duration: see `DurationBins`. The bins at the end that are empty are left out. */
  bins: number[]
}

/** What happened at one endpoint in one bucket of the history. */
export interface HistoryRow extends HistoryCounts {
  /** When the bucket began: ms since the epoch, by the store's clock. */
  at: number
}

/** Which row of a history. */
export type HistoryPlace = Pick<HistoryRow, 'at' | 'destination' | 'url'>

/** How finely the history is kept, and for how long. One page of charts shows each of them whole. */
export const HISTORIES = {
  '1h': { bucketMs: 60_000, buckets: 60 },
  '24h': { bucketMs: 15 * 60_000, buckets: 96 },
  '7d': { bucketMs: 3_600_000, buckets: 168 },
} as const

export type HistorySpan = keyof typeof HISTORIES

export const HISTORY_SPANS = Object.keys(HISTORIES) as HistorySpan[]

/** For how long charts show what happened at an endpoint, in ms. */
export const LONGEST_HISTORY_MS = Math.max(
  ...Object.values(HISTORIES).map(({ bucketMs, buckets }) => bucketMs * buckets),
)

/** The states of breakers, from the best to the worst. */
export const BREAKER_STATES: readonly BreakerState[] = ['closed', 'half-open', 'open']
