import type {
  Bucket,
  BreakerState,
  EndpointTotals,
  Failure,
  SourceTotals,
} from '../model/answers.js'
import type { Outcome } from '../model/outcome.js'
import type { DestinationQueue } from '../deliver/destination-queue.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery } from '../model/delivery.js'
import { DurationBins } from './durations.js'
import type { Observer } from './events.js'

/** How much time one bucket has, in ms. */
export const BUCKET_MS = 60_000

/** Buckets that are kept: a day. */
export const MAX_BUCKETS = 1_440

/** What is told of the moment is of so many buckets, with the one that goes on. */
const RECENT = 5

/** The states of breakers, from the best to the worst. */
const BREAKER_STATES: readonly BreakerState[] = ['closed', 'half-open', 'open']

/**
 * Remembers what happened at the endpoints, minute by minute: in memory, for a day at most. A minute in which nothing
 * happened takes no memory.
 */
export class History implements Observer {
  readonly #endpoints = new Map<string, Map<string, EndpointHistory>>()
  readonly #sources = new Map<string, SourceTotals>()

  /** @param now - The time of day: ms since the epoch. */
  constructor(readonly now: () => number = Date.now) {}

  /** So many calls of a source were `accepted`, or were not. */
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
    const now = this.now()
    for (const { url, outcome } of outcomes) {
      this.#endpoint(destination, url).add(outcome, now)
    }
  }

  /** Notes the states of the breakers, and forgets endpoints that no longer exist. To be called about once a second. */
  sampleBreakers(queues: readonly DestinationQueue[]): void {
    const now = this.now()
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
    return this.#endpoint(destination, url).totals(this.now())
  }

  /** The minutes of an endpoint, the oldest first and the one that goes on last, with none left out. */
  buckets(destination: string, url: string, minutes: number): Bucket[] {
    return this.#endpoint(destination, url).buckets(minutes, this.now())
  }

  #endpoint(destination: string, url: string): EndpointHistory {
    let endpoints = this.#endpoints.get(destination)
    if (!endpoints) {
      endpoints = new Map<string, EndpointHistory>()
      this.#endpoints.set(destination, endpoints)
    }
    let history = endpoints.get(url)
    if (!history) endpoints.set(url, (history = new EndpointHistory(this.now())))
    return history
  }
}

/** The minute that goes on. */
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
  /** Minutes that have ended and in which something happened. */
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

  /** Ends the minute that goes on, if it is over. A clock that goes back does not begin another. */
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

/** How often the states of the breakers are noted, in ms. */
const SAMPLE_MS = 1_000

/** Notes the states of the breakers from now on. Returns what ends that. */
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
