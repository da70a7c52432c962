import type { EndpointTotals, Failure, SourceTotals } from '../model/answers.js'
import { shownTime, type Clock } from '../model/clock.js'
import type { Outcome } from '../model/outcome.js'
import { eachInSlices } from '../model/slices.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery } from '../model/delivery.js'
import type { Destination, Settings } from '../settings/settings.js'
import { DurationBins } from './durations.js'
import type { Streak } from '../model/health.js'
import type { RejectionCode } from '../http/refusal.js'
import type { Observer } from './events.js'

/** The current durations are those of this many minutes. The current minute is one of them. */
const RECENT = 5
const MINUTE_MS = 60_000

/** The codes of calls that were rejected for good. */
const REJECTED: Readonly<Record<RejectionCode, true>> = {
  invalid_call: true,
  unknown_type: true,
  missing_field: true,
  invalid_field: true,
  call_too_large: true,
  call_too_deep: true,
}

/**
 * Remembers what happened since the start of the process: totals, the last failure, and the durations of the last minutes.
 * It keeps everything in memory. The charts come from the store.
 */
export class Totals implements Observer {
  readonly #clock: Clock
  readonly #endpoints = new Map<string, Map<string, CountedEndpoint>>()
  readonly #sources = new Map<string, SourceTotals>()
  readonly #calls = new CallRate()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Counts calls of a source: those that were `accepted`, and those that were rejected. Calls that were refused for now are neither,
   * because clients send them again.
   */
  callsCounted(source: string, answer: string, count: number): void {
    const totals = this.source(source)
    this.#sources.set(source, totals)
    if (answer === 'accepted') {
      totals.accepted += count
      this.#calls.add(count, this.#clock.now())
    } else if (Object.hasOwn(REJECTED, answer)) totals.rejected += count
  }

  /** All attempts of one claim have ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    const now = this.#clock.now()
    for (const { url, outcome } of outcomes) {
      this.#endpoint(destination, url).add(outcome, now)
    }
  }

  /** Forgets the sources and endpoints that the settings no longer have. */
  async keep({ sources, destinations }: Pick<Settings, 'sources' | 'destinations'>): Promise<void> {
    const names = new Set<string>()
    await eachInSlices(sources, ({ name }) => names.add(name))
    for (const name of this.#sources.keys()) if (!names.has(name)) this.#sources.delete(name)
    const kept = new Map<string, Destination['webhooks']>()
    await eachInSlices(destinations, ({ name, webhooks }) => kept.set(name, webhooks))
    await eachInSlices(this.#endpoints, ([destination, counted]) => {
      const endpoints = kept.get(destination) ?? []
      for (const url of counted.keys()) {
        if (!endpoints.some((endpoint) => endpoint.url === url)) counted.delete(url)
      }
      if (counted.size === 0) this.#endpoints.delete(destination)
    })
  }

  /** The accepted calls per second in the last minute. */
  callsPerSecond(): number {
    return this.#calls.perSecond(this.#clock.now())
  }

  source(name: string): SourceTotals {
    return this.#sources.get(name) ?? { accepted: 0, rejected: 0 }
  }

  endpoint(destination: string, url: string): EndpointTotals {
    const totals = this.#endpoints.get(destination)?.get(url)?.totals(this.#clock.now())
    if (!totals) return NO_REQUESTS
    const { lastFailure } = totals
    if (!lastFailure) return totals
    // Whole ms, as in every other answer.
    return {
      ...totals,
      lastFailure: { ...lastFailure, at: Math.round(shownTime(this.#clock, lastFailure.at)) },
    }
  }

  streak(destination: string, url: string): Streak {
    return this.#endpoints.get(destination)?.get(url) ?? NO_REQUESTS
  }

  #endpoint(destination: string, url: string): CountedEndpoint {
    let endpoints = this.#endpoints.get(destination)
    if (!endpoints) {
      endpoints = new Map<string, CountedEndpoint>()
      this.#endpoints.set(destination, endpoints)
    }
    let counted = endpoints.get(url)
    if (!counted) endpoints.set(url, (counted = new CountedEndpoint()))
    return counted
  }
}

const NO_REQUESTS: Readonly<EndpointTotals> = {
  delivered: 0,
  failed: 0,
  p50Ms: null,
  p99Ms: null,
  lastFailure: null,
  failuresInARow: null,
  deliveredInARow: null,
}

/** In ms: the rate of calls is that of the last minute. */
const RATE_MS = 60_000
const RATE_STEPS = 12
const STEP_MS = RATE_MS / RATE_STEPS

/** Counts the calls of the last minute, in steps of 5 seconds. */
class CallRate {
  readonly #counts = new Map<number, number>()
  #since = Infinity

  add(count: number, now: number): void {
    const step = Math.floor(now / STEP_MS)
    this.#since = Math.min(this.#since, now)
    this.#counts.set(step, (this.#counts.get(step) ?? 0) + count)
    for (const old of this.#counts.keys()) if (old <= step - RATE_STEPS) this.#counts.delete(old)
  }

  perSecond(now: number): number {
    const oldest = Math.floor(now / STEP_MS) - RATE_STEPS
    let calls = 0
    for (const [step, count] of this.#counts) if (step > oldest) calls += count
    // Right after the first call, a whole minute would make the rate too low.
    return calls === 0
      ? 0
      : calls / (Math.min(RATE_MS, Math.max(STEP_MS, now - this.#since)) / 1_000)
  }
}

/** The durations of one minute. */
interface Minute {
  at: number
  durations: DurationBins
}

class CountedEndpoint {
  #delivered = 0
  #failed = 0
  #lastFailure: Failure | null = null
  failuresInARow = 0
  deliveredInARow = 0
  /** The last minutes with requests, the newest last. */
  #minutes: Minute[] = []

  add({ code, status, ms, error }: Outcome, now: number): void {
    if (code === 'endpoint_down' || code === 'endpoint_busy') return
    this.#minute(now).durations.add(ms)
    if (code === 'delivered') {
      this.#delivered++
      this.deliveredInARow++
      this.failuresInARow = 0
    } else {
      this.#failed++
      this.failuresInARow++
      this.deliveredInARow = 0
      this.#lastFailure = { at: now, code, status: status ?? null, error: error ?? null }
    }
  }

  totals(now: number): EndpointTotals {
    this.#forget(now)
    const durations = new DurationBins()
    for (const minute of this.#minutes) durations.merge(minute.durations)
    return {
      delivered: this.#delivered,
      failed: this.#failed,
      p50Ms: durations.quantile(0.5),
      p99Ms: durations.quantile(0.99),
      lastFailure: this.#lastFailure,
      failuresInARow: this.failuresInARow,
      deliveredInARow: this.deliveredInARow,
    }
  }

  #minute(now: number): Minute {
    const at = startOf(now)
    const last = this.#minutes.at(-1)
    if (last && last.at >= at) return last
    this.#forget(now)
    const minute = { at, durations: new DurationBins() }
    this.#minutes.push(minute)
    return minute
  }

  #forget(now: number): void {
    const oldest = startOf(now) - (RECENT - 1) * MINUTE_MS
    while ((this.#minutes[0]?.at ?? Infinity) < oldest) this.#minutes.shift()
  }
}

function startOf(now: number): number {
  return now - (now % MINUTE_MS)
}
