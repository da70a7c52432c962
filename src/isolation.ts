import { entryBytes, type Batch, type Entry } from './entry.js'
import { nowMs } from './runtime.js'

/** How often a message that fails alone is tried, beside the others, before it is given up. */
export const MAX_LONE_ATTEMPTS = 10

/** How many such messages may wait. Beyond that, and beyond their bytes, those that were tried most are given up. */
const MAX_ISOLATED = 10_000

/** Attempts of different messages wait for 1 to 2 s at the most, though those of one message wait for longer. */
const MAX_SHARED_FAILURES = 3

interface Waiting {
  readonly batch: Batch
  readonly attempts: number
  /** Until when the server asked to wait; 0 if it did not. */
  readonly askedUntilMs: number
  dueMs: number
}

/**
 * Messages that an endpoint fails for, each in a batch of its own, while it takes the others. They are tried
 * alone and slowly, so that nobody waits behind them.
 */
export class Isolation {
  readonly #backoffMs: (failures: number, random: number) => number
  readonly #maxBytes: number
  /** The one that is due first comes first. */
  #waiting: Waiting[] = []
  /** Size of all that waits, in bytes of JSON. */
  #bytes = 0
  /** How many messages fail in which way. */
  readonly #kinds = new Map<string | undefined, number>()
  /** Attempts here that failed since the endpoint took any message. */
  #failures = 0
  #pausedUntilMs = 0

  /** @param maxBytes - how much may wait, in bytes of JSON: with a spool, it would not be counted otherwise */
  constructor(backoffMs: (failures: number, random: number) => number, maxBytes: number) {
    this.#backoffMs = backoffMs
    this.#maxBytes = maxBytes
  }

  /** Whether some message here fails in this way. */
  knows(failure: string): boolean {
    return (this.#kinds.get(failure) ?? 0) > 0
  }

  /** When the next message may be tried, on the clock of `nowMs()`; Infinity if there is none. */
  get dueMs(): number {
    return Math.max(this.#waiting[0]?.dueMs ?? Infinity, this.#pausedUntilMs)
  }

  /**
   * Adds a message that failed, and that the server asked to send again after `askedMs`. Gives back those that have
   * to leave, if there are too many.
   */
  add(batch: Batch, attempts: number, askedMs: number): Batch[] {
    const fromMs = nowMs()
    const askedUntilMs = askedMs > 0 ? fromMs + askedMs : 0
    const dueMs = Math.max(fromMs + this.#backoffMs(attempts + 1, Math.random()), askedUntilMs)
    const at = this.#waiting.findLastIndex((other) => other.dueMs <= dueMs) + 1
    const alone = { ...batch, entries: batch.entries.map(inOwnSlab) }
    this.#waiting.splice(at, 0, { batch: alone, attempts, askedUntilMs, dueMs })
    this.#count(alone, 1)
    const left: Batch[] = []
    while (this.#waiting.length > MAX_ISOLATED || this.#bytes > this.#maxBytes) {
      const most = this.#waiting.reduce((one, other) =>
        other.attempts > one.attempts ? other : one,
      )
      this.#remove(this.#waiting.indexOf(most))
      left.push(most.batch)
    }
    return left
  }

  /** Takes the message that is due first, and says how often it was tried here. */
  take(): { batch: Batch; attempts: number } {
    return this.#remove(0)
  }

  /** An attempt here failed: the next one waits. */
  failed(): void {
    this.#failures = Math.min(this.#failures + 1, MAX_SHARED_FAILURES)
    this.#pausedUntilMs = nowMs() + this.#backoffMs(this.#failures, Math.random())
  }

  /** The endpoint took a message, of the others or of these. */
  endpointTakes(): void {
    this.#failures = 0
  }

  /** The endpoint took one of these: the next ones need not wait for each other. */
  recovered(): void {
    this.#failures = 0
    this.#pausedUntilMs = 0
  }

  /** Time is short: everything here is due now, but for what the server asked to wait with. */
  hurry(): void {
    this.#pausedUntilMs = 0
    for (const waiting of this.#waiting) waiting.dueMs = waiting.askedUntilMs
    this.#waiting.sort((one, other) => one.dueMs - other.dueMs)
  }

  takeAll(): Batch[] {
    const batches = this.#waiting.map(({ batch }) => batch)
    this.#waiting = []
    this.#bytes = 0
    this.#kinds.clear()
    return batches
  }

  #remove(at: number): Waiting {
    const [waiting] = this.#waiting.splice(at, 1) as [Waiting] // the callers know that it is there
    this.#count(waiting.batch, -1)
    return waiting
  }

  #count({ entries, failure }: Batch, by: 1 | -1): void {
    for (const entry of entries) this.#bytes += by * entryBytes(entry)
    this.#kinds.set(failure, (this.#kinds.get(failure) ?? 0) + by)
  }
}

/** A slab that messages share would stay in memory for as long as one of them waits. */
function inOwnSlab({ slab, start, end, ...entry }: Entry): Entry {
  return { ...entry, slab: slab.slice(start - 1, end), start: 1, end: end - start + 1 }
}
