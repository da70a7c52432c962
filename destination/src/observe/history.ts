import type { Outcome, OutcomeCode } from '../model/outcome.js'
import type { Target } from '../deliver/destination-queue.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery } from '../model/delivery.js'
import { DurationBins } from './durations.js'

/** How much time one bucket has, in ms. */
export const BUCKET_MS = 60_000

/** Buckets that are kept: a day. */
export const MAX_BUCKETS = 1_440

/** What is told of the moment is of so many buckets, with the one that goes on. */
const RECENT = 5

/** The states of gates, the better ones first. */
const GATES = ['closed', 'ramp', 'probe', 'open'] as const

export type GateState = (typeof GATES)[number]

/** One endpoint in one minute. */
export interface Bucket {
  /** When it began: ms since the epoch. */
  at: number
  delivered: number
  /** Sent, and not delivered. */
  failed: number
  /** Not sent: the gate was shut, or the endpoint could not keep up. */
  busy: number
  /** Of what was sent; `null` if nothing was. */
  p50Ms: number | null
  p99Ms: number | null
  /** The worst state that its gate was seen in. */
  gate: GateState
}

/** What one endpoint has come to, since the start. */
export interface EndpointTotals {
  delivered: number
  failed: number
  /** Of the last minutes; `null` if nothing was sent. */
  p50Ms: number | null
  p99Ms: number | null
  /** The latest request that was sent and not delivered; `null` for none. */
  lastFailure: Failure | null
}

/** A request that failed. */
export interface Failure {
  at: number
  code: OutcomeCode
  status: number | null
  /** In words. */
  error: string | null
}

/** What one source has sent, since the start. */
export interface SourceTotals {
  accepted: number
  rejected: number
}

/**
 * Remembers how endpoints were, minute by minute: in memory, for a day at most. A minute in which nothing happened costs
 * nothing.
 */
export class History {
  readonly #endpoints = new Map<string, Map<string, EndpointHistory>>()
  readonly #sources = new Map<string, SourceTotals>()

  /** @param now - The time of day: ms since the epoch. */
  constructor(readonly now: () => number = Date.now) {}

  /** So many calls of a source were taken (`accepted`), or not. */
  called(source: string, answer: string, count: number): void {
    const totals = this.source(source)
    this.#sources.set(source, totals)
    if (answer === 'accepted') totals.accepted += count
    else totals.rejected += count
  }

  /** An attempt has ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    const now = this.now()
    for (const { url, outcome } of outcomes) {
      this.#endpoint(destination, url).add(outcome, now)
    }
  }

  /** Looks at the gates, and forgets endpoints that are no more. To be called about once a second. */
  look(targets: readonly Target[]): void {
    const now = this.now()
    const known = new Set<EndpointHistory>()
    for (const { destination, lines } of targets) {
      for (const { endpoint, gate } of lines) {
        const history = this.#endpoint(destination.name, endpoint.url)
        history.see(gate.state, now)
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
  gate: GateState
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

  see(gate: GateState, now: number): void {
    this.#roll(now)
    if (GATES.indexOf(gate) > GATES.indexOf(this.#minute.gate)) this.#minute.gate = gate
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
    const { delivered, failed, busy, gate, durations } = minute
    if (delivered + failed + busy === 0 && gate === 'closed') return
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
  return { at, delivered: 0, failed: 0, busy: 0, gate: 'closed', durations: new DurationBins() }
}

function bucketOf({ durations, ...minute }: Minute): Bucket {
  return { ...minute, ...quantiles(durations) }
}

function quantiles(durations: DurationBins) {
  return { p50Ms: durations.quantile(0.5), p99Ms: durations.quantile(0.99) }
}
