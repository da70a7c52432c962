/** Failures in a row that shut a gate. */
const FAILURES_TO_OPEN = 5

/**
 * The wait before a first probe, in ms, doubled after each probe that failed, up to the longest. That one is less than
 * the waits between the later attempts of a message (45 s and more), so that a lone message keeps to its schedule.
 */
export const PROBE_MS = 1_000
export const MAX_PROBE_MS = 30_000

/** The longest that a `Retry-After` keeps a gate shut, in ms: an endpoint that asks for a day is asked again before. */
const MAX_RETRY_AFTER_MS = 300_000

/** Up to this share is added to each wait, so that gates that shut together do not probe together. */
const JITTER = 0.2

/** What came of a request, for its gate. An endpoint that answers is well, whatever it thinks of the message. */
export type Health = 'well' | 'ill' | 'throttled'

/** A leave to send one request, from {@link Gate.enter}; it belongs to {@link Gate.leave}. */
export type Pass = number

/**
 * Decides how many requests an endpoint gets at once, so that one that is down costs a request now and then.
 *
 *     closed ── 5 failures in a row, or "slow down" ──► open ◄───────────┐
 *        ▲                                               │ wait is over  │ failure
 *        │ limit reaches the cap                         ▼               │
 *       ramp ◄─────────────── success ──────────────── probe ────────────┤
 *        └── as many failures in a row as its limit, 5 at most ──────────┘
 *
 * Where other workers deliver to the same endpoint, it has its share of the cap, and sends a probe only with the leave
 * of all of them: see {@link Accord}.
 *
 * Only time that is handed in counts, and any monotonic clock will do.
 */
export class Gate {
  #state: 'closed' | 'open' | 'probe' | 'ramp' = 'closed'
  /** What this process has of the cap. */
  #share: number
  /** Whether no other process sends to the endpoint. */
  #isAlone = true
  /** Among others: until when a probe may be sent. */
  #leaveUntil = -Infinity
  /** Requests that may be under way at once, while closed or in the ramp. */
  #limit: number
  #inFlight = 0
  /** In a row. */
  #failures = 0
  /** In this step of the ramp. */
  #successes = 0
  /** The wait before the next probe, without its jitter. */
  #probeMs = PROBE_MS
  /** When the next probe may be sent. */
  #probeAt = 0
  /** Counts the times the gate shut and opened: what was sent before tells nothing of the time after. */
  #pass: Pass = 0

  constructor(
    readonly cap: number,
    readonly random: () => number = Math.random,
  ) {
    this.#share = cap
    this.#limit = cap
  }

  /** For logs and pages. */
  get state(): 'closed' | 'open' | 'probe' | 'ramp' {
    return this.#state
  }

  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether nothing but a probe can pass. */
  get isShut(): boolean {
    return this.#state === 'open' || this.#state === 'probe'
  }

  /** How many requests may start now. */
  room(now: number): number {
    if (this.#state === 'open') return this.#mayProbe(now) ? 1 : 0
    if (this.#state === 'probe') return 0
    return Math.max(0, this.#limit - this.#inFlight)
  }

  /** So many workers send to the endpoint, with this one: each has its part of the cap, and 1 at least. */
  share(workers: number): void {
    this.#isAlone = false
    this.#share = Math.max(1, Math.floor(this.cap / workers))
    this.#limit = this.#state === 'closed' ? this.#share : Math.min(this.#limit, this.#share)
  }

  /** Whether the others are to be asked for the leave to send a probe. */
  isToAsk(now: number): boolean {
    return (
      this.#state === 'open' && !this.#isAlone && now >= this.#probeAt && now >= this.#leaveUntil
    )
  }

  /** The others give leave to send one probe. */
  grant(until: number): void {
    this.#leaveUntil = until
  }

  /** A request starts. Only while there is {@link room}. */
  enter(): Pass {
    if (this.#state === 'open') this.#become('probe')
    this.#leaveUntil = -Infinity
    this.#inFlight++
    return this.#pass
  }

  /**
   * A request has ended.
   *
   * @param retryAfterMs - The wait that the endpoint asked for, in ms; 0 for none.
   */
  leave(pass: Pass, health: Health, retryAfterMs: number, now: number): void {
    this.#inFlight--
    if (pass !== this.#pass) return
    if (health === 'well') this.#succeed()
    else if (health === 'throttled' || retryAfterMs > 0) this.#open(retryAfterMs, now)
    else this.#fail(now)
  }

  #succeed(): void {
    this.#failures = 0
    if (this.#state === 'closed') return
    if (this.#state === 'probe') {
      this.#become('ramp')
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
    return now >= this.#probeAt && (this.#isAlone || now < this.#leaveUntil)
  }

  #fail(now: number): void {
    this.#failures++
    if (this.#state === 'probe' || this.#failures >= this.#tolerated()) this.#open(0, now)
  }

  #tolerated(): number {
    return this.#state === 'ramp' ? Math.min(FAILURES_TO_OPEN, this.#limit) : FAILURES_TO_OPEN
  }

  #open(retryAfterMs: number, now: number): void {
    const waitMs = Math.max(this.#probeMs, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS))
    this.#become('open')
    this.#probeAt = now + waitMs * (1 + JITTER * this.random())
    this.#probeMs = Math.min(this.#probeMs * 2, MAX_PROBE_MS)
    this.#failures = 0
  }

  #become(state: 'open' | 'probe' | 'ramp'): void {
    this.#state = state
    this.#pass++
  }
}
