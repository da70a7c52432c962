import { HISTORIES, BREAKER_STATES, type HistoryRow, type HistorySpan } from '../model/history.js'
import type { OverviewRow, Series } from '../model/answers.js'
import { addToGroup } from '../model/grouped.js'
import { eachInSlices } from '../model/slices.js'
import { DurationBins } from '../observe/durations.js'
import type { Tally } from '../observe/tally.js'
import type { ClockPort, HistoryPort } from '../store/store.js'

/** In ms: how long what was read is shown. Each process saves its counts less often than this. */
const FRESH_MS = 2_000

/** A slow read is kept for this many times its duration, so that the page takes at most a twentieth of a core. */
const KEPT_TIMES = 20

/** In ms: what was read is not shown for longer than this. */
const STALE_MS = 15_000

/** In ms: a clock that has gained or lost more than this was set. By less, the clock of a server may seem to change. */
const SET_MS = 500

/** How many rows are read at once, so that the process and the store serve their other callers at once. */
const SLICE = 100

type Spark = OverviewRow['spark']

/** The rows of each endpoint of one destination, the oldest first. */
export type EndpointRows = ReadonlyMap<string, readonly HistoryRow[]>

/** The rows of each destination. */
export type PastRows = ReadonlyMap<string, EndpointRows>

interface Kept {
  /** How far the store's clock was ahead of `performance.now()`, in ms. */
  aheadMs: number
  byBucket: Map<number, HistoryRow[]>
  rows: PastRows
  until: number
}

/** The history in the store, read piece by piece: each read asks only for what may have changed. */
export class Past {
  readonly #kept = new Map<HistorySpan, Kept>()
  readonly #reading = new Map<HistorySpan, Promise<PastRows>>()

  /** @param tally - Has what this process has not saved yet. */
  constructor(
    readonly store: Pick<HistoryPort, 'history'> & ClockPort,
    readonly tally: Pick<Tally, 'saveIfSmall'>,
  ) {}

  /** The rows of a span. Calls at the same time share one read. */
  read(span: HistorySpan): Promise<PastRows> {
    const kept = this.#kept.get(span)
    if (kept && performance.now() < kept.until) return Promise.resolve(kept.rows)
    let reading = this.#reading.get(span)
    if (!reading) {
      reading = this.#read(span).finally(() => this.#reading.delete(span))
      this.#reading.set(span, reading)
    }
    return reading
  }

  async #read(span: HistorySpan): Promise<PastRows> {
    await this.tally.saveIfSmall()
    const from = performance.now()
    const wall = this.store.clock.wall()
    const aheadMs = wall - from
    const kept = this.#kept.get(span)
    // If somebody has set the clock, the times of the rows have moved, or buckets that were over grow again.
    const isSet = kept !== undefined && Math.abs(aheadMs - kept.aheadMs) > SET_MS
    const byBucket = (isSet ? undefined : kept?.byBucket) ?? new Map<number, HistoryRow[]>()
    const first = firstBucket(span, wall)
    for (const at of byBucket.keys()) if (at < first) byBucket.delete(at)
    // The newest bucket may still grow.
    const since = Math.max(first, ...byBucket.keys())
    let read = await this.#rowsBetween(span, since, wall)
    // With SQLite, a clock that gains or loses little by little moves the times of all rows now and then.
    if (byBucket.size > 0 && read[0]?.at !== since) {
      byBucket.clear()
      read = await this.#rowsBetween(span, first, wall)
    }
    byBucket.delete(since)
    await eachInSlices(read, (row) => {
      addToGroup(byBucket, row.at, row)
    })
    const rows = await indexed(byBucket)
    const ms = performance.now() - from
    const until = performance.now() + Math.min(STALE_MS, Math.max(FRESH_MS, ms * KEPT_TIMES))
    this.#kept.set(span, { aheadMs, byBucket, rows, until })
    return rows
  }

  /** There are later rows if the clock of the store was set back. */
  async #rowsBetween(span: HistorySpan, since: number, until: number): Promise<HistoryRow[]> {
    const rows: HistoryRow[] = []
    let slice: HistoryRow[]
    do {
      const read = await this.store.history(span, since, rows.at(-1), SLICE)
      slice = read.filter(({ at }) => at <= until)
      rows.push(...slice)
    } while (slice.length === SLICE)
    return rows
  }
}

/** Collects the rows of each endpoint, in slices, because there may be hundreds of thousands. */
async function indexed(byBucket: ReadonlyMap<number, readonly HistoryRow[]>): Promise<PastRows> {
  const found = new Map<string, Map<string, HistoryRow[]>>()
  const add = (row: HistoryRow) => {
    let urls = found.get(row.destination)
    if (!urls) found.set(row.destination, (urls = new Map<string, HistoryRow[]>()))
    addToGroup(urls, row.url, row)
  }
  await eachInSlices(inOrder(byBucket), add)
  return found
}

function* inOrder(byBucket: ReadonlyMap<number, readonly HistoryRow[]>): Generator<HistoryRow> {
  const buckets = Array.from(byBucket.keys()).sort((a, b) => a - b)
  for (const at of buckets) yield* byBucket.get(at) ?? []
}

/** When the first bucket of a span began. */
function firstBucket(span: HistorySpan, now: number): number {
  const { bucketMs, buckets } = HISTORIES[span]
  return now - (now % bucketMs) - (buckets - 1) * bucketMs
}

/** The bucket of a span that a row is in; `undefined` if the span does not show it. */
function placesOf(span: HistorySpan, now: number): (row: HistoryRow) => number | undefined {
  const { bucketMs, buckets } = HISTORIES[span]
  const first = firstBucket(span, now)
  return ({ at }) => {
    const place = Math.floor((at - first) / bucketMs)
    return place < 0 || place >= buckets ? undefined : place
  }
}

/** The successes and failures of any endpoints, bucket by bucket: less than {@link seriesOf}, for the rows of a table. */
export function sparkOf(rows: Iterable<HistoryRow>, span: HistorySpan, now: number): Spark {
  const placeOf = placesOf(span, now)
  const { buckets } = HISTORIES[span]
  const delivered = new Array<number>(buckets).fill(0)
  const failed = new Array<number>(buckets).fill(0)
  for (const row of rows) {
    const place = placeOf(row)
    if (place === undefined) continue
    delivered[place] = (delivered[place] ?? 0) + row.delivered
    failed[place] = (failed[place] ?? 0) + row.failed
  }
  return { delivered, failed }
}

/** Rows of any endpoints as one series. */
export function seriesOf(rows: Iterable<HistoryRow>, span: HistorySpan, now: number): Series {
  const sum = new SeriesSum(span, now)
  for (const row of rows) sum.add(row)
  return sum.series()
}

/** Adds rows of any endpoints up to one series. */
export class SeriesSum {
  readonly #bucketMs: number
  readonly #firstAt: number
  readonly #placeOf: (row: HistoryRow) => number | undefined
  readonly #sums: { delivered: number[]; failed: number[]; busy: number[] }
  /** The worst states of the breakers, as positions in {@link BREAKER_STATES}. */
  readonly #worst: number[]
  readonly #durations: DurationBins[]

  constructor(span: HistorySpan, now: number) {
    const { bucketMs, buckets } = HISTORIES[span]
    const zeros = () => new Array<number>(buckets).fill(0)
    this.#bucketMs = bucketMs
    this.#placeOf = placesOf(span, now)
    this.#firstAt = firstBucket(span, now)
    this.#sums = { delivered: zeros(), failed: zeros(), busy: zeros() }
    this.#worst = zeros()
    this.#durations = Array.from({ length: buckets }, () => new DurationBins())
  }

  add(row: HistoryRow): void {
    const place = this.#placeOf(row)
    if (place === undefined) return
    for (const name of ['delivered', 'failed', 'busy'] as const) {
      this.#sums[name][place] = (this.#sums[name][place] ?? 0) + row[name]
    }
    this.#worst[place] = Math.max(this.#worst[place] ?? 0, BREAKER_STATES.indexOf(row.breaker))
    this.#durations[place]?.addList(row.bins)
  }

  series(): Series {
    return {
      bucketMs: this.#bucketMs,
      firstAt: this.#firstAt,
      ...this.#sums,
      p50Ms: this.#durations.map((bins) => bins.quantile(0.5)),
      p99Ms: this.#durations.map((bins) => bins.quantile(0.99)),
      breaker: this.#worst.map((state) => BREAKER_STATES[state] ?? 'closed'),
    }
  }
}
