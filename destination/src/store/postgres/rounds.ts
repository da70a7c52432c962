/** One call of a caller, and who waits for it. */
interface Ask<T, R> {
  items: T[]
  resolve: (results: R[]) => void
  reject: (error: unknown) => void
}

/**
 * Joins calls into rounds: what is asked while one is under way makes the next. The slower the store, the larger the
 * rounds; a call on its own never waits.
 */
export class Rounds<T, R> {
  readonly #run: (items: T[]) => Promise<R[]>
  readonly #maxItems: number
  #waiting: Ask<T, R>[] = []
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
      const asks = this.#take()
      try {
        const results = await this.#run(asks.flatMap(({ items }) => items))
        let from = 0
        for (const { items, resolve } of asks) resolve(results.slice(from, (from += items.length)))
      } catch (error) {
        for (const { reject } of asks) reject(error)
      }
    }
    this.#isBusy = false
  }

  #take(): Ask<T, R>[] {
    let count = 0
    const end = this.#waiting.findIndex(({ items }) => (count += items.length) > this.#maxItems)
    return this.#waiting.splice(0, end < 0 ? Infinity : Math.max(1, end))
  }
}
