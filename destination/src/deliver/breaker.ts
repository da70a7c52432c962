import type { BreakerState } from '../model/answers.js'

/** This many failures in a row open a breaker. */
const FAILURES_TO_OPEN = 5

/**
 * A breaker that opens again and again, and one of whose first probes succeeds each time, is opened by messages that fail
 * at a healthy endpoint. Each time it takes twice as many failures in a row to open it, up to this multiple.
 */
const MAX_LENIENCY = 8

/** One of so many first probes must succeed: the others may be messages that always fail. */
const MISTAKEN_PROBES = 4

/** How long a breaker stays lenient after it has recovered, in ms. */
const LENIENT_MS = 300_000

/**
 * For this time after a success, in ms, the failure of a message that failed before is taken for the message's own fault,
 * and does not count.
 */
const TRUST_MS = 10_000

/** At most this many failures in a row are taken for the faults of messages. */
const MAX_TRUSTED = 200

/**
 * The wait before the first probe, in ms. It doubles after each probe that fails, up to the longest wait. The longest
 * wait is shorter than the waits between the later attempts of a message (45 s and more), so that a single message
 * keeps to its schedule.
 */
export const PROBE_MS = 1_000
export const MAX_PROBE_MS = 30_000

/** The longest wait before the first probe of an endpoint that goes down again while it recovers, in ms. */
const PROBE_AGAIN_MS = 2 * PROBE_MS

/** Up to this share of a wait is added to it at random, so that breakers that open together do not probe together. */
const JITTER = 0.2

/** What the end of a request tells a breaker. */
export interface Signal {
  /** An endpoint that answers is healthy, even if it refuses the message or asks for fewer requests. */
  isHealthy: boolean
  /** The wait that an endpoint that is not healthy asked for, in ms; 0 for none. */
  retryAfterMs: number
  /** Whether the message was claimed before, as in {@link EndpointRequest}. */
  wasTried: boolean
}

/**
 * Identifies the time between two changes of a breaker. {@link Breaker.start} returns it, {@link Breaker.end} takes it.
 */
export type Period = number

/**
 * Decides how many requests an endpoint gets at once, so that an endpoint that is down costs only a few requests.
 *
 *     closed ── 5 failures in a row, a Retry-After, ─────► open ◄───────────┐
 *        ▲      or other workers have found it down         │               │
 *        │                                                  │ wait is over  │ failure
 *        │ limit reaches the share of the cap               ▼               │
 *     half-open ◄──────────── success ──────────── open, with a probe ──────┤
 *      ▲ └── as many failures in a row as its limit, 5 at most ─────────────┘
 *      └──── other workers have found it healthy ──── open
 *
 * Some messages fail at a healthy endpoint. They must not pass for an endpoint that is down: after a success, messages
 * that failed before may fail again, and a breaker that opened by mistake takes more failures to open again.
 *
 * Where other workers deliver to the same endpoint, this process has a share of the cap, and it sends a probe only with
 * the permission of all workers: see {@link SharedBreakers}.
 *
 * The caller passes the current time, in ms, of any monotonic clock.
 */
export class Breaker {
  readonly #random: () => number
  #state: BreakerState = 'closed'
  #cap: number
  /** How many workers share the cap, including this one. */
  #workers = 1
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
  /** Failures in a row that count. */
  #failures = 0
  /** Failures since the last success that were taken for faults of messages. */
  #trusted = 0
  #succeededAt = -Infinity
  /** By how much the failures in a row that open it are multiplied for {@link LENIENT_MS}. */
  #leniency = 1
  #recoveredAt = -Infinity
  /** Probes in a row that failed. */
  #failedProbes = 0
  /** Successes since the limit was raised last. */
  #successes = 0
  /** The wait before the next probe, without its jitter. */
  #probeMs = PROBE_MS
  /** When the next probe may be sent. */
  #probeAt = 0
  /** As {@link askedUntil}. */
  #askedUntil = -Infinity
  /** As {@link isHearsay}. */
  #isHearsay = false
  /**
   * Increases with each change. The end of a request that started before a change says nothing about the time after it.
   */
  #period: Period = 0

  constructor(cap: number, random: () => number = Math.random) {
    this.#random = random
    this.#cap = this.#share = this.#limit = cap
  }

  /** How many requests all workers together may have under way. */
  get cap(): number {
    return this.#cap
  }

  /** The requests under way count towards the new cap too. */
  set cap(cap: number) {
    this.#cap = cap
    this.#divide()
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
    this.#workers = workers
    this.#divide()
  }

  /** Whether a probe is due that needs the permission of the other workers. */
  needsPermission(now: number): boolean {
    if (this.#state !== 'open' || this.#isProbing || this.#isAlone) return false
    return now >= this.#probeAt && now >= this.#permittedUntil
  }

  /** Whether a permission has run out, or will, without a probe. */
  get hasUnusedPermission(): boolean {
    return this.#permittedUntil > -Infinity
  }

  /** The other workers permit one probe until this time. */
  permitProbe(until: number): void {
    this.#permittedUntil = until
  }

  /** How long it takes until a probe may be sent, in ms; 0 if one may be, or if requests may. */
  probeInMs(now: number): number {
    return this.#state === 'open' ? Math.max(0, this.#probeAt - now) : 0
  }

  /** Until when the endpoint itself has asked for no requests, by its last `Retry-After` that opened the breaker. */
  get askedUntil(): number {
    return this.#askedUntil
  }

  /**
   * Other workers have found the endpoint down. A breaker that is closed knows nothing of that: it opens, and the first probe is sent
   * after this wait.
   */
  expectDown(waitMs: number, now: number): void {
    if (this.#state !== 'closed') return
    this.#change('open')
    this.#isHearsay = true
    this.#probeAt = now + waitMs
    this.#failures = 0
  }

  /** Whether it is open only by what other workers have found. */
  get isHearsay(): boolean {
    return this.#isHearsay
  }

  /**
   * No other worker finds the endpoint down any more. A breaker that is open becomes half-open, as after a probe that succeeds: a full
   * share of each worker at once would hit an endpoint of which one request is known. One that is half-open takes it for a round of
   * successes, unless its own requests say more: else it would stay half-open for as long as it has nothing to send.
   */
  expectUp(): void {
    if (this.#state === 'closed' || this.#isProbing) return
    if (this.#state === 'open') this.#ramp()
    else if (this.#inFlight === 0 && this.#failures === 0) this.#raise()
    this.#closeAtShare()
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
   */
  end(period: Period, signal: Signal, now: number): void {
    this.#inFlight--
    if (period !== this.#period) return
    if (signal.isHealthy) this.#succeed(now)
    else if (signal.retryAfterMs > 0) this.#open(signal.retryAfterMs, now)
    else this.#fail(signal.wasTried, now)
  }

  #divide(): void {
    this.#share = Math.max(1, Math.floor(this.#cap / this.#workers))
    this.#limit = this.#state === 'closed' ? this.#share : Math.min(this.#limit, this.#share)
  }

  #succeed(now: number): void {
    this.#failures = this.#trusted = 0
    this.#succeededAt = now
    if (this.#state === 'closed') return
    if (this.#state === 'open') this.#recover(now)
    else if (++this.#successes >= this.#limit) this.#raise()
    this.#closeAtShare()
  }

  #recover(now: number): void {
    const isMistaken = this.#failedProbes < MISTAKEN_PROBES && now - this.#recoveredAt < LENIENT_MS
    this.#leniency = isMistaken ? Math.min(this.#leniency * 2, MAX_LENIENCY) : 1
    this.#recoveredAt = now
    this.#ramp()
  }

  #ramp(): void {
    this.#probeMs = Math.min(this.#probeMs, PROBE_AGAIN_MS)
    this.#failedProbes = 0
    this.#change('half-open')
    this.#limit = Math.min(2, this.#share)
    this.#successes = 0
  }

  #raise(): void {
    this.#limit = Math.min(this.#limit * 2, this.#share)
    this.#successes = 0
  }

  #closeAtShare(): void {
    if (this.#limit < this.#share) return
    this.#state = 'closed'
    this.#probeMs = PROBE_MS
  }

  #mayProbe(now: number): boolean {
    if (this.#isProbing || now < this.#probeAt) return false
    return this.#isAlone || now < this.#permittedUntil
  }

  #fail(wasTried: boolean, now: number): void {
    const isTrusted = wasTried && now - this.#succeededAt < TRUST_MS && this.#trusted < MAX_TRUSTED
    if (isTrusted && !this.#isProbing) {
      this.#trusted++
      return
    }
    this.#failures++
    if (this.#isProbing) this.#failedProbes++
    if (this.#isProbing || this.#failures >= this.#tolerated(now)) this.#open(0, now)
  }

  #tolerated(now: number): number {
    const failures =
      this.#state === 'half-open' ? Math.min(FAILURES_TO_OPEN, this.#limit) : FAILURES_TO_OPEN
    return now - this.#recoveredAt < LENIENT_MS ? failures * this.#leniency : failures
  }

  #open(retryAfterMs: number, now: number): void {
    const waitMs = Math.max(this.#probeMs, retryAfterMs)
    this.#change('open')
    this.#probeAt = now + waitMs * (1 + JITTER * this.#random())
    if (retryAfterMs > 0) this.#askedUntil = this.#probeAt
    this.#probeMs = Math.min(this.#probeMs * 2, MAX_PROBE_MS)
    this.#failures = 0
  }

  #change(state: BreakerState): void {
    this.#state = state
    this.#isHearsay = false
    this.#isProbing = false
    this.#period++
  }
}
