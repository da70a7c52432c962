import { Rate } from './rate.js'

/** In ms: after the last dead letter, the store is asked once more, because other workers may have had some until then. */
const SETTLED_MS = 5_000

/** In ms: if a server of the store can't be asked, all are asked again after this time. */
export const ASK_AGAIN_MS = 60_000

/**
 * The dead letters of one destination, as far as one process knows. It counts those that the process sees itself, and says when to
 * ask the store, which has those of a former process and of the other workers too. A question costs as much as the limit has dead
 * letters, so it is asked seldom.
 */
export class DeadLetters {
  readonly #seen: Rate
  /** What the store has answered last, and how many this process has seen since then. */
  #stored = 0
  #newer = 0
  #lastAt = -Infinity
  #askedAt = -Infinity
  /** When the store is to be asked, whatever this process has seen. */
  #askAt = Infinity

  constructor(withinMs: number) {
    this.#seen = new Rate(withinMs)
  }

  add(now: number, count: number): void {
    this.#seen.add(now, count)
    this.#newer += count
    this.#lastAt = now
  }

  /** There may be some that this process has not seen. */
  look(): void {
    this.#askAt = -Infinity
  }

  /** How many of the window this process has seen. */
  count(now: number): number {
    return this.#seen.count(now)
  }

  /**
   * Whether the store is to be asked now: if the limit may have been reached, if this process has seen a tenth of it since the last
   * answer, because other workers may have seen as many, and once nothing has died for a while.
   */
  isToAsk(now: number, limit: number): boolean {
    if (now >= this.#askAt) return true
    // Counting a million takes 100 ms.
    if (now - this.#askedAt < limit / 100) return false
    if (this.#newer > 0 && this.#stored + this.#newer >= limit) return true
    return this.#newer >= limit / 10 || (this.#isUnsettled && now - this.#lastAt >= SETTLED_MS)
  }

  /**
   * The store was asked.
   *
   * @param isComplete - Whether all of its servers have answered.
   */
  answered(now: number, count: number, isComplete: boolean): void {
    this.#askAt = isComplete ? Infinity : now + ASK_AGAIN_MS
    this.#stored = count
    this.#newer = 0
    this.#askedAt = now
  }

  /** Whether nothing is left to count or to ask. */
  isOver(now: number): boolean {
    return this.#askAt === Infinity && !this.#isUnsettled && this.count(now) === 0
  }

  /** Whether the last answer came too early to have all dead letters of the other workers. */
  get #isUnsettled(): boolean {
    return this.#askedAt < this.#lastAt + SETTLED_MS
  }
}
