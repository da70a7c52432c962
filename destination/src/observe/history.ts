import type {
  Bucket,
  BreakerState,
  EndpointTotals,
  Failure,
  SourceTotals,
} from '../model/answers.js'
import { aheadOf, type Clock } from '../model/clock.js'
import type { Outcome } from '../model/outcome.js'
import type { DestinationQueue } from '../deliver/destination-queue.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery } from '../model/delivery.js'
import { DurationBins } from './durations.js'
import type { Observer } from './events.js'

/** The length of one bucket, in ms. */
export const BUCKET_MS = 60_000

/** The number of buckets that are kept: one day. */
export const MAX_BUCKETS = 1_440

/** The current durations are computed from this many buckets. The current bucket is one of them. */
const RECENT = 5

/** The states of breakers, from the best to the worst. */
const BREAKER_STATES: readonly BreakerState[] = ['closed', 'half-open', 'open']

/**
 * Remembers what happened at the endpoints, minute by minute, for one day. It keeps everything in memory. A minute in which
 * nothing happened needs no memory.
 */
export class History implements Observer {
  readonly #endpoints = new Map<string, Map<string, EndpointHistory>>()
  readonly #sources = new Map<string, SourceTotals>()

  constructor(readonly clock: Clock) {}

  /** Counts calls of a source: those that were `accepted`, and all others as rejected. */
  callsCounted(source: string, answer: string, count: number): void {
    const totals = this.source(source)
    this.#sources.set(source, totals)
    if (answer === 'accepted') totals.accepted += count
    else totals.rejected += count
  }

  /** All attempts of one claim have ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    const now = this.clock.now()
    for (const { url, outcome } of outcomes) {
      this.#endpoint(destination, url).add(outcome, now)
    }
  }

  /** Records the states of the breakers, and forgets endpoints that no longer exist. Call it about once a second. */
  sampleBreakers(queues: readonly DestinationQueue[]): void {
    const now = this.clock.now()
    const known = new Set<EndpointHistory>()
    for (const { destination, endpoints } of queues) {
      for (const { endpoint, breaker } of endpoints) {
        const history = this.#endpoint(destination.name, endpoint.url)
        history.sample(breaker.state, now)
        known.add(history)
      }
    }
    for (const [destination, endpoints] of this.#endpoints) {
      for (const [url, history] of endpoints) if (!known.has(history)) endpoints.delete(url)
      if (endpoints.size === 0) this.#endpoints.delete(destination)
    }
  }

  source(name: string): SourceTotals {
    return this.#sources.get(name) ?? { accepted: 0, rejected: 0 }
  }

  endpoint(destination: string, url: string): EndpointTotals {
    const totals = this.#endpoint(destination, url).totals(this.clock.now())
    const { lastFailure } = totals
    return {
      ...totals,
      lastFailure: lastFailure && { ...lastFailure, at: this.#shown(lastFailure.at) },
    }
  }

  /** The minutes of an endpoint without gaps, the oldest first. The last one is the current minute. */
  buckets(destination: string, url: string, minutes: number): Bucket[] {
    return this.#endpoint(destination, url)
      .buckets(minutes, this.clock.now())
      .map((bucket) => ({ ...bucket, at: this.#shown(bucket.at) }))
  }

  /** A time by the system's clock. */
  #shown(at: number): number {
    return at - aheadOf(this.clock.wall(), this.clock.now())
  }

  #endpoint(destination: string, url: string): EndpointHistory {
    let endpoints = this.#endpoints.get(destination)
    if (!endpoints) {
      endpoints = new Map<string, EndpointHistory>()
      this.#endpoints.set(destination, endpoints)
    }
    let history = endpoints.get(url)
    if (!history) endpoints.set(url, (history = new EndpointHistory(this.clock.now())))
    return history
  }
}

/** The current minute. */
interface Minute {
  at: number
  delivered: number
  failed: number
  busy: number
  breaker: BreakerState
  durations: DurationBins
}

class EndpointHistory {
  readonly #since: number
  #delivered = 0
  #failed = 0
  #lastFailure: Failure | null = null
  #minute: Minute
  /** Past minutes in which something happened. */
  #past: Bucket[] = []
  #recent: { at: number; durations: DurationBins }[] = []

  constructor(now: number) {
    this.#since = startOf(now)
    this.#minute = emptyMinute(this.#since)
  }

  add({ code, status, ms, error }: Outcome, now: number): void {
    this.#roll(now)
    if (code === 'endpoint_down' || code === 'endpoint_busy') {
      this.#minute.busy++
      return
    }
    this.#minute.durations.add(ms)
    if (code === 'delivered') {
      this.#minute.delivered++
      this.#delivered++
    } else {
      this.#minute.failed++
      this.#failed++
      this.#lastFailure = { at: now, code, status: status ?? null, error: error ?? null }
    }
  }

  sample(state: BreakerState, now: number): void {
    this.#roll(now)
    const worst = this.#minute.breaker
    if (BREAKER_STATES.indexOf(state) > BREAKER_STATES.indexOf(worst)) this.#minute.breaker = state
  }

  totals(now: number): EndpointTotals {
    this.#roll(now)
    const durations = new DurationBins()
    durations.merge(this.#minute.durations)
    const oldest = this.#minute.at - (RECENT - 1) * BUCKET_MS
    for (const each of this.#recent) if (each.at >= oldest) durations.merge(each.durations)
    return {
      delivered: this.#delivered,
      failed: this.#failed,
      ...quantiles(durations),
      lastFailure: this.#lastFailure,
    }
  }

  buckets(minutes: number, now: number): Bucket[] {
    this.#roll(now)
    const last = this.#minute.at
    const first = Math.max(this.#since, last - (minutes - 1) * BUCKET_MS)
    const known = new Map(this.#past.map((bucket) => [bucket.at, bucket]))
    known.set(last, bucketOf(this.#minute))
    return Array.from(
      { length: (last - first) / BUCKET_MS + 1 },
      (_, i) => known.get(first + i * BUCKET_MS) ?? bucketOf(emptyMinute(first + i * BUCKET_MS)),
    )
  }

  /** Starts a new minute if the current one is over. */
  #roll(now: number): void {
    const at = startOf(now)
    const minute = this.#minute
    if (at <= minute.at) return
    this.#minute = emptyMinute(at)
    const { delivered, failed, busy, breaker, durations } = minute
    if (delivered + failed + busy === 0 && breaker === 'closed') return
    this.#past.push(bucketOf(minute))
    this.#recent.push({ at: minute.at, durations })
    if (this.#recent.length >= RECENT) this.#recent.shift()
    const oldest = at - (MAX_BUCKETS - 1) * BUCKET_MS
    while ((this.#past[0]?.at ?? Infinity) < oldest) this.#past.shift()
  }
}

function startOf(now: number): number {
  return now - (now % BUCKET_MS)
}

function emptyMinute(at: number): Minute {
  return { at, delivered: 0, failed: 0, busy: 0, breaker: 'closed', durations: new DurationBins() }
}

function bucketOf({ durations, ...minute }: Minute): Bucket {
  return { ...minute, ...quantiles(durations) }
}

function quantiles(durations: DurationBins) {
  return { p50Ms: durations.quantile(0.5), p99Ms: durations.quantile(0.99) }
}

/** The interval at which the states of the breakers are recorded, in ms. */
const SAMPLE_MS = 1_000

/** Starts to record the states of the breakers. Returns a function that stops it. */
export function startSampling(
  history: History,
  queues: () => readonly DestinationQueue[],
): () => void {
  const timer = setInterval(() => {
    history.sampleBreakers(queues())
  }, SAMPLE_MS).unref()
  return () => {
    clearInterval(timer)
  }
}
