import type { Batch } from './entry.js'

/** How often a message that fails alone is tried, beside the others, before it is given up. */
export const MAX_LONE_ATTEMPTS = 10

/** How many such messages may wait; beyond that, the one that was tried most is given up. */
export const MAX_ISOLATED = 100

interface Waiting {
  readonly batch: Batch
  dueMs: number
  attempts: number
}

/**
 * Messages that an endpoint fails for, each in a batch of its own, while it takes the others. They are tried
 * alone and slowly, so that nobody waits behind them.
 */
export class Isolation {
  readonly #backoffMs: (failures: number, random: number) => number
  #waiting: Waiting[] = []
  /** Attempts here that failed since the endpoint took a message of the others. */
  #failures = 0
  #pausedUntilMs = 0

  constructor(backoffMs: (failures: number, random: number) => number) {
    this.#backoffMs = backoffMs
  }

  get size(): number {
    return this.#waiting.length
  }

  /** Whether some message here fails in this way. */
  knows(failure: string): boolean {
    return this.#waiting.some(({ batch }) => batch.failure === failure)
  }

  /** When the next message may be tried, on the clock of `performance.now()`; Infinity if there is none. */
  get dueMs(): number {
    const first = Math.min(...this.#waiting.map(({ dueMs }) => dueMs))
    return Math.max(first, this.#pausedUntilMs)
  }

  /** Adds a message that failed. Gives back the one that has to leave in its place, if there are too many. */
  add(batch: Batch, attempts = 0): Batch | undefined {
    const dueMs = performance.now() + this.#backoffMs(attempts + 1, Math.random())
    this.#waiting.push({ batch, dueMs, attempts })
    if (this.#waiting.length <= MAX_ISOLATED) return undefined
    const most = this.#waiting.reduce((one, other) => (other.attempts > one.attempts ? other : one))
    return this.#remove(most)
  }

  /** Takes the message that is due first, and says how often it was tried here. */
  take(): { batch: Batch; attempts: number } | undefined {
    const [first, ...others] = this.#waiting
    if (!first) return undefined
    const next = others.reduce((one, other) => (other.dueMs < one.dueMs ? other : one), first)
    this.#remove(next)
    return next
  }

  /** An attempt here failed: the next one waits. */
  failed(): void {
    this.#failures++
    this.#pausedUntilMs = performance.now() + this.#backoffMs(this.#failures, Math.random())
  }

  /** The endpoint took a message of the others. */
  endpointTakes(): void {
    this.#failures = 0
  }

  /** Time is short: everything here is due now. */
  hurry(): void {
    this.#pausedUntilMs = 0
    for (const waiting of this.#waiting) waiting.dueMs = 0
  }

  takeAll(): Batch[] {
    const batches = this.#waiting.map(({ batch }) => batch)
    this.#waiting = []
    return batches
  }

  #remove(waiting: Waiting): Batch {
    this.#waiting = this.#waiting.filter((other) => other !== waiting)
    return waiting.batch
  }
}
