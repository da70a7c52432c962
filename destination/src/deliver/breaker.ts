import type { BreakerState } from '../model/answers.js'

/** This many failures in a row open a breaker. */
const FAILURES_TO_OPEN = 5

/**
 * The wait before the first probe, in ms. It doubles after each probe that fails, up to the longest wait. The longest
 * wait is shorter than the waits between the later attempts of a message (45 s and more), so that a single message
 * keeps to its schedule.
 */
export const PROBE_MS = 1_000
export const MAX_PROBE_MS = 30_000

/**
 * A `Retry-After` keeps a breaker open for at most this time, in ms. An endpoint that asks for a whole day is probed
 * earlier.
 */
const MAX_RETRY_AFTER_MS = 300_000

/** Up to this share of a wait is added to it at random, so that breakers that open together do not probe together. */
const JITTER = 0.2

/** What the end of a request tells a breaker. An endpoint that answers is healthy, even if it refuses the message. */
export type Signal = 'success' | 'failure' | 'throttled'

/**
 * Identifies the time between two changes of a breaker. {@link Breaker.start} returns it, {@link Breaker.end} takes it.
 */
export type Period = number

/**
 * Decides how many requests an endpoint gets at once, so that an endpoint that is down costs only a few requests.
 *
 *     closed ── 5 failures in a row, or "slow down" ──► open ◄──────────────┐
 *        ▲                                               │ the wait is over │ failure
 *        │ limit reaches the cap                         ▼                  │
 *     half-open ◄──────────── success ────────── open, with a probe ────────┤
 *        └── as many failures in a row as its limit, 5 at most ─────────────┘
 *
 * Where other workers deliver to the same endpoint, this process has a share of the cap, and it sends a probe only with
 * the permission of all workers: see {@link SharedBreakers}.
 *
 * The caller passes the current time, in ms, of any monotonic clock.
 */
export class Breaker {
  #state: BreakerState = 'closed'
  /** Whether a probe is under way. */
  #isProbing = false
  /** The part of the cap that this process may use. */
  #share: number
  /** Whether no other process sends to the endpoint. */
  #isAlone = true
  /** Until when the other workers permit a probe. */
  #permittedUntil = -Infinity
  /** Requests that may be under way at once, while closed or half-open. */
  #limit: number
  #inFlight = 0
  /** Failures in a row. */
  #failures = 0
  /** Successes since the limit was raised last. */
  #successes = 0
  /** The wait before the next probe, without its jitter. */
  #probeMs = PROBE_MS
  /** When the next probe may be sent. */
  #probeAt = 0
  /**
   * Increases with each change. The end of a request that started before a change says nothing about the time after it.
   */
  #period: Period = 0

  constructor(
    readonly cap: number,
    readonly random: () => number = Math.random,
  ) {
    this.#share = cap
    this.#limit = cap
  }

  /** The state for the log, the metrics and the page. */
  get state(): BreakerState {
    return this.#state
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether only probes may be sent. */
  get isOpen(): boolean {
    return this.#state === 'open'
  }

  /** How many requests may start now. */
  room(now: number): number {
    if (this.#state === 'open') return this.#mayProbe(now) ? 1 : 0
    return Math.max(0, this.#limit - this.#inFlight)
  }

  /** Shares the cap among this many workers, including this one. Each worker gets an equal part, and at least 1. */
  shareAmong(workers: number): void {
    this.#isAlone = false
    this.#share = Math.max(1, Math.floor(this.cap / workers))
    this.#limit = this.#state === 'closed' ? this.#share : Math.min(this.#limit, this.#share)
  }

  /** Whether a probe is due that needs the permission of the other workers. */
  needsPermission(now: number): boolean {
    if (this.#state !== 'open' || this.#isProbing || this.#isAlone) return false
    return now >= this.#probeAt && now >= this.#permittedUntil
  }

  /** The other workers permit one probe until this time. */
  permitProbe(until: number): void {
    this.#permittedUntil = until
  }

  /** How long it takes until a probe may be sent, in ms; 0 if one may be, or if requests may. */
  probeInMs(now: number): number {
    return this.#state === 'open' ? Math.max(0, this.#probeAt - now) : 0
  }

  /** A request starts. The caller makes sure that there is {@link room}. */
  start(): Period {
    if (this.#state === 'open') {
      this.#isProbing = true
      this.#period++
    }
    this.#permittedUntil = -Infinity
    this.#inFlight++
    return this.#period
  }

  /**
   * A request has ended.
   *
   * @param period - What {@link start} returned.
   * @param retryAfterMs - The wait that the endpoint asked for, in ms; 0 for none.
   */
  end(period: Period, signal: Signal, retryAfterMs: number, now: number): void {
    this.#inFlight--
    if (period !== this.#period) return
    if (signal === 'success') this.#succeed()
    else if (signal === 'throttled' || retryAfterMs > 0) this.#open(retryAfterMs, now)
    else this.#fail(now)
  }

  #succeed(): void {
    this.#failures = 0
    if (this.#state === 'closed') return
    if (this.#state === 'open') {
      this.#change('half-open')
      this.#limit = Math.min(2, this.#share)
      this.#successes = 0
    } else if (++this.#successes >= this.#limit) {
      this.#limit = Math.min(this.#limit * 2, this.#share)
      this.#successes = 0
    }
    if (this.#limit < this.#share) return
    this.#state = 'closed'
    this.#probeMs = PROBE_MS
  }

  #mayProbe(now: number): boolean {
    if (this.#isProbing || now < this.#probeAt) return false
    return this.#isAlone || now < this.#permittedUntil
  }

  #fail(now: number): void {
    this.#failures++
    if (this.#isProbing || this.#failures >= this.#tolerated()) this.#open(0, now)
  }

  #tolerated(): number {
    return this.#state === 'half-open' ? Math.min(FAILURES_TO_OPEN, this.#limit) : FAILURES_TO_OPEN
  }

  #open(retryAfterMs: number, now: number): void {
    const waitMs = Math.max(this.#probeMs, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
    this.#change('open')
    this.#probeAt = now + waitMs * (1 + JITTER * this.random())
    this.#probeMs = Math.min(this.#probeMs * 2, MAX_PROBE_MS)
    this.#failures = 0
  }

  #change(state: BreakerState): void {
    this.#state = state
    this.#isProbing = false
    this.#period++
  }
}
