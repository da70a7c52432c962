/** Does one piece of work after the other, in the order of the calls. */
export class InOrder {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Resolves once all work that was given until now has ended. */
  async ended(): Promise<void> {
    await this.#last
  }
}
