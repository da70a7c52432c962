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
   * @param run - Answers each item, in their order.
   * @param maxItems - A round that has so many takes no further call. One call alone may have more.
   */
  constructor(run: (items: T[]) => Promise<R[]>, maxItems: number) {
    this.#run = run
    this.#maxItems = maxItems
  }

  /** @throws whatever the round that it is in throws. */
  ask(items: T[]): Promise<R[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      if (this.#isBusy) return
      this.#isBusy = true
      // After all that the sockets bring in the same turn of the event loop.
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
