/** What must have ended in time. */
export interface Timed {
  /** By `performance.now()`. */
  readonly startedAt: number
  /** Time is up. Called once at most. */
  expire(): void
}

/** The least time between two looks at what has expired, so that a crowd of late ones costs no more. */
const MIN_SWEEP_MS = 50

/**
 * One deadline, and one timer, for all that is under way: a timer for each would cost more than what it guards.
 * What is late expires up to 50 ms after its time, and never before.
 */
export class Deadline {
  /** In the order of their start, which is the order of their end as well. */
  readonly #underWay = new Set<Timed>()
  #timer: NodeJS.Timeout | undefined

  /** @param ms - how long each may take */
  constructor(readonly ms: number) {}

  /** To be called in the order of `startedAt`. */
  add(timed: Timed): void {
    this.#underWay.add(timed)
    if (this.#timer === undefined) this.#arm(this.ms)
  }

  delete(timed: Timed): void {
    this.#underWay.delete(timed)
  }

  /** It keeps no process alive: the sockets of those under way do. */
  #arm(delayMs: number): void {
    this.#timer = setTimeout(this.#sweepSoon, delayMs).unref()
  }

  /**
   * Timers come before sockets in a turn of the event loop. After a turn that took long, answers may have arrived in
   * time and not been read yet: they go first.
   */
  readonly #sweepSoon = (): void => {
    setImmediate(this.#sweep)
  }

  readonly #sweep = (): void => {
    const now = performance.now()
    for (const timed of this.#underWay) {
      const leftMs = timed.startedAt + this.ms - now
      if (leftMs > 0) {
        this.#arm(Math.max(leftMs, MIN_SWEEP_MS))
        return
      }
      this.#underWay.delete(timed)
      timed.expire()
    }
    this.#timer = undefined
  }
}
