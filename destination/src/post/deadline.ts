/** An operation with a deadline. */
export interface Timed {
  /** When it started, on the clock of `performance.now()`. */
  readonly startedAt: number
  /** The deadline has passed. Called at most once. */
  expire(): void
}

/** The least time between two sweeps, in ms, so that many operations that expire one after another share a timer. */
const MIN_SWEEP_MS = 50

/**
 * One deadline and one timer for all operations. A timer for each operation would cost too much at thousands of
 * requests per second. An operation expires up to 50 ms after its deadline, and never before.
 */
export class Deadline {
  /** In the order in which they started. All have the same time, so they expire in this order too. */
  readonly #underWay = new Set<Timed>()
  #timer: NodeJS.Timeout | undefined

  /** @param ms - How long each operation may take. */
  constructor(readonly ms: number) {}

  /** Adds an operation. Operations must be added in the order of their `startedAt`. */
  add(timed: Timed): void {
    this.#underWay.add(timed)
    if (this.#timer === undefined) this.#arm(this.ms)
  }

  delete(timed: Timed): void {
    this.#underWay.delete(timed)
  }

  /** The timer does not keep the process alive. The sockets of the operations do. */
  #arm(delayMs: number): void {
    this.#timer = setTimeout(this.#sweepSoon, delayMs).unref()
  }

  /**
   * The event loop runs timers before it reads sockets. If the loop was blocked, answers may have arrived in time that
   * are not read yet. An immediate runs after the sockets are read, so these answers still count.
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
