import { itemsOf, rejectCalls, resolveCalls, type PendingCall } from '../rounds.js'

/**
 * Joins calls into rounds: the calls that come while a round is under way make the next one. The slower the store, the
 * larger the rounds. A call that comes while nothing is under way does not wait.
 */
export class Rounds<T, R> {
  readonly #run: (items: T[]) => Promise<R[]>
  readonly #maxItems: number
  #waiting: PendingCall<T, R[]>[] = []
  #isBusy = false

  /**
   * @param run - Carries out a round. It returns one result for each item, in the same order.
   * @param maxItems - The most items of a round. Only a single call with more items exceeds it.
   */
  constructor(run: (items: T[]) => Promise<R[]>, maxItems: number) {
    this.#run = run
    this.#maxItems = maxItems
  }

  /**
   * Adds items to the next round and returns their results.
   *
   * @throws the error of the round, for every call in it.
   */
  ask(items: T[]): Promise<R[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (this.#isBusy) return
      this.#isBusy = true
      // setImmediate runs after all sockets that are readable now, so that their calls share this round.
      setImmediate(() => void this.#work())
    })
  }

  async #work(): Promise<void> {
    while (this.#waiting.length > 0) {
      const calls = this.#take()
      try {
        resolveCalls(calls, await this.#run(itemsOf(calls)), (results) => results)
      } catch (error) {
        rejectCalls(calls, error)
      }
    }
    this.#isBusy = false
  }

  #take(): PendingCall<T, R[]>[] {
    let count = 0
    const end = this.#waiting.findIndex(({ items }) => (count += items.length) > this.#maxItems)
    return this.#waiting.splice(0, end < 0 ? Infinity : Math.max(1, end))
  }
}
