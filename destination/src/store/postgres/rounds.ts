import { itemsOf, rejectCalls, resolveCalls, type PendingCall } from '../rounds.js'

/** The most items of a round. Larger rounds are not faster, and their callers wait longer. Only a single call may have more. */
const MAX_ITEMS = 2_000

/** A round of so many items starts at once: what a statement costs is little beside what its rows cost. */
const LARGE = 256

/**
 * Joins calls into rounds: the calls that come while a round is under way make the next one. The slower the store, the
 * larger the rounds. A call that comes while nothing is under way does not wait.
 */
export class Rounds<T, R> {
  readonly #run: (items: T[]) => Promise<R[]>
  readonly #isOfOneCall: (error: unknown) => boolean
  readonly #pauseMs: number
  #waiting: PendingCall<T, R[]>[] = []
  #isBusy = false
  /** When the former round ended. */
  #endedAt = -Infinity
  /** Ends the pause in which others can join. */
  #endPause: (() => void) | undefined

  /**
   * @param run - Carries out a round. It returns one result for each item, in the same order.
   * @param isOfOneCall - Whether a round may have failed because of one of its calls. Then each call is carried out alone.
   * @param pauseMs - The least time between two rounds, in which others can join, unless the next one is large.
   */
  constructor(
    run: (items: T[]) => Promise<R[]>,
    isOfOneCall: (error: unknown) => boolean,
    pauseMs = 0,
  ) {
    this.#run = run
    this.#isOfOneCall = isOfOneCall
    this.#pauseMs = pauseMs
  }

  /**
   * Adds items to the next round and returns their results. A call without items makes the round start without a pause.
   *
   * @throws the error of the round; if that may be due to one call, the error of this call alone.
   */
  ask(items: T[]): Promise<R[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (items.length === 0) this.#endPause?.()
      if (this.#isBusy) return
      this.#isBusy = true
      // setImmediate runs after all sockets that are readable now, so that their calls share this round.
      setImmediate(() => void this.#work())
    })
  }

  /** Whether a round is under way or wanted. */
  get isBusy(): boolean {
    return this.#isBusy
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      await this.#pause()
      await this.#carryOut(this.#take())
      this.#endedAt = performance.now()
    }
    this.#isBusy = false
  }

  async #pause(): Promise<void> {
    const leftMs = this.#endedAt + this.#pauseMs - performance.now()
    const count = this.#waiting.reduce((sum, { items }) => sum + items.length, 0)
    const isUrgent = this.#waiting.some(({ items }) => items.length === 0)
    if (leftMs <= 0 || count >= LARGE || isUrgent) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, leftMs)
      this.#endPause = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#endPause = undefined
  }

  async #carryOut(calls: PendingCall<T, R[]>[]): Promise<void> {
    try {
      resolveCalls(calls, await this.#run(itemsOf(calls)), (results) => results)
    } catch (error) {
      if (calls.length === 1 || !this.#isOfOneCall(error)) {
        rejectCalls(calls, error)
        return
      }
      for (const call of calls) await this.#carryOut([call])
    }
  }

  #take(): PendingCall<T, R[]>[] {
    let count = 0
    const end = this.#waiting.findIndex(({ items }) => (count += items.length) > MAX_ITEMS)
    return this.#waiting.splice(0, end < 0 ? Infinity : Math.max(1, end))
  }
}
