/** The part of the measured rate that an endpoint gets after it asked for fewer requests. */
const DECREASE = 0.75

/**
 * How much each success adds to a limited rate, in requests per second: this, times the square of the seconds since the pause. So the
 * rate stays close to the one that was too much for 10 s, and is soon far above it if the endpoint takes more (as in RFC 9438, 4.1).
 */
const INCREASE = 0.0005

/** How much each success adds while no rate is known that is too much, in requests per second: the rate grows 2.7 times in a second. */
const SLOW_START = 1

/** A rate that has grown to this multiple of the rate that last was too much is not limited any more. */
const FORGET = 5

/** A rate that has worked for this long, in ms, is not limited any more: few messages would raise it too slowly. */
const FORGET_MS = 300_000

/**
 * After a pause, an endpoint with a limit reaches it within this time, in ms. A 429 after that, with no rate known that is too much, may
 * have another reason: it does not tell the limit either.
 */
const SLOW_START_MS = 15_000

/** The lowest rate, in requests per second: an endpoint that always asks for fewer requests gets one in 5 s. */
const MIN_RATE = 0.2

/** An endpoint that took nothing in the last seconds has at most this rate after it asked for fewer requests, in requests per second. */
const IDLE_RATE = 1

/** The pause after an answer that asks for fewer requests and does not say how long to wait, in ms. */
const PAUSE_MS = 1_000

/**
 * Unused requests are kept for this time, in ms, because requests that wait start at a tick: four times a second. So an
 * endpoint may get the requests of this time at once.
 */
const BURST_MS = 300

/** In ms: the time between two ticks. What is left of a request at a tick is kept beside what comes until the next one. */
const TICK_MS = 250

/** The rate of the answers is measured over this time, in ms. */
const WINDOW_MS = 1_000

/**
 * Decides how many requests an endpoint gets in a second. It is a token bucket.
 *
 * Without a limit in the settings, the rate is not limited until the endpoint answers 429. Then the endpoint gets three
 * quarters of what it took before that answer. What it took says nothing of what it can take: few messages may have been sent. So
 * the rate then grows fast, up to the next 429, which shows a rate that is too much. From then on, the rate stays close to that one for
 * some seconds after each 429, and grows fast again if no other follows.
 *
 * The caller passes the current time, in ms, of any monotonic clock.
 */
export class Pace {
  #limit: number
  /** How many workers share the limit, including this one. */
  #workers = 1
  /** The part of the limit that this process may use. */
  #share: number
  /** The rate that the endpoint gets because it answered 429, in requests per second. It does not depend on the limit. */
  #learned = Infinity
  /** The rate that was too much, in requests per second; `Infinity` while none is known. Up to it, the rate grows fast. */
  #tooMuch = Infinity
  #tokens = 0
  #filledAt = -Infinity
  #pausedUntil = -Infinity
  /** When the rate was lowered last. */
  #loweredAt = -Infinity
  #windowStart = -Infinity
  /** Successes in the present and in the previous {@link WINDOW_MS}. */
  #taken = 0
  #takenBefore = 0

  /** @param limit - The most requests per second of all workers together; `Infinity` for no limit. */
  constructor(limit = Infinity) {
    this.#limit = this.#share = limit
  }

  /** Requests per second that the endpoint gets at most now; `Infinity` if there is no limit. */
  get rate(): number {
    return Math.min(this.#share, this.#learned)
  }

  /** Shares the limit among this many workers, including this one. */
  shareAmong(workers: number): void {
    this.#workers = workers
    this.#share = this.#limit / workers
  }

  /** Changes the limit. What has started before counts, so a new limit is no new burst. */
  setLimit(limit: number, now: number): void {
    if (limit === this.#limit) return
    if (this.rate === Infinity) {
      this.#tokens = 0
      this.#filledAt = now
    } else this.#fill(now)
    this.#limit = limit
    this.#share = limit / this.#workers
  }

  /** How many requests the endpoint takes in a second, as far as it was measured in the last two. */
  recentRate(now: number): number {
    const ageMs = now - this.#windowStart
    if (ageMs >= 2 * WINDOW_MS) return 0
    return ageMs >= WINDOW_MS ? this.#taken : Math.max(this.#taken, this.#takenBefore)
  }

  /** How many requests may start at once if none has started for a while. */
  get burst(): number {
    return Math.max(this.rate * BURST_MS, 1_000 + this.rate * TICK_MS) / 1_000
  }

  /** How many requests may start now. */
  room(now: number): number {
    if (now < this.#pausedUntil) return 0
    if (this.rate === Infinity) return Infinity
    this.#fill(now)
    return Math.floor(this.#tokens)
  }

  /** For how long the endpoint is paused, in ms. */
  pauseMs(now: number): number {
    return Math.max(0, this.#pausedUntil - now)
  }

  /** A request starts. */
  start(now: number): void {
    if (this.rate === Infinity) return
    this.#fill(now)
    this.#tokens--
  }

  /** The endpoint took a request. */
  succeed(now: number): void {
    this.#measure(now)
    this.#taken++
    if (this.#learned === Infinity) return
    this.#fill(now)
    // At the limit of the settings, successes say nothing about more than that.
    if (this.#learned < this.#share) this.#learned += this.#step(now)
    const isForgotten = this.#learned > this.#tooMuch * FORGET || now - this.#loweredAt > FORGET_MS
    if (isForgotten) this.#learned = this.#tooMuch = Infinity
  }

  /**
   * The endpoint asked for fewer requests.
   *
   * @param retryAfterMs - The wait that it asked for, in ms; 0 for none.
   * @param startedAt - When the request started. The answer to a request from before the rate was lowered says nothing
   * about the lower rate.
   */
  throttle(retryAfterMs: number, startedAt: number, now: number): void {
    const sincePauseMs = now - this.#pausedUntil
    if (retryAfterMs > 0) this.#pauseUntil(now + retryAfterMs)
    if (startedAt <= this.#loweredAt) return
    this.#measure(now)
    const measured = Math.max(this.#taken, this.#takenBefore)
    const took = Math.min(measured || IDLE_RATE, this.rate)
    const known = this.#tooMuch < Infinity ? this.#tooMuch / 2 : 0
    const isKnown = measured > 0 && (known > 0 || sincePauseMs < SLOW_START_MS)
    this.#tooMuch = isKnown ? Math.max(took, known) : Infinity
    this.#learned = Math.max(MIN_RATE, took * DECREASE)
    this.#tokens = 0
    this.#filledAt = this.#loweredAt = now
    if (retryAfterMs === 0) this.#pauseUntil(now + PAUSE_MS)
  }

  /** How much a success adds to the rate, in requests per second. */
  #step(now: number): number {
    if (this.#learned < this.#tooMuch * DECREASE) return SLOW_START
    const seconds = (now - this.#pausedUntil) / 1_000
    return Math.min(SLOW_START, INCREASE * seconds ** 2)
  }

  #pauseUntil(time: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, time)
  }

  #fill(now: number): void {
    const tokens = this.#tokens + ((now - this.#filledAt) * this.rate) / 1_000
    this.#tokens = Math.min(this.burst, tokens)
    this.#filledAt = now
  }

  #measure(now: number): void {
    if (now - this.#windowStart < WINDOW_MS) return
    this.#takenBefore = now - this.#windowStart < 2 * WINDOW_MS ? this.#taken : 0
    this.#taken = 0
    this.#windowStart = now
  }
}
