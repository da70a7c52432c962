import type { Settlement } from '../model/delivery.js'
import type { Store } from '../store/store.js'

/** The wait before settlements are given to a store again that could not take them, in ms. */
const RETRY_MS = 250

/** What a settler tells of. */
export interface SettlerReport {
  /** The store could not take settlements; they are given again. Told once for a failure in a row. */
  failed(error: unknown): void
  /** The store takes settlements again. */
  recovered(): void
  /** So many were late: another claim has the delivery, and sends it again. */
  refused(count: number): void
}

/**
 * Hands settlements to the store, those of one turn of the event loop together, and what comes while the store is
 * busy together after that. None is let go of before the store has it: what is not settled would be sent again.
 */
export class Settler {
  #waiting: Settlement[] = []
  #isBusy = false
  #isFailing = false
  /** When the store was asked, if it has not answered yet. */
  #askedAt: number | undefined
  #drained: (() => void)[] = []

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly store: Pick<Store, 'settle'>,
    readonly report: SettlerReport,
    readonly now: () => number = () => performance.now(),
  ) {}

  /** For how long it has waited for the store, in ms. */
  stalledMs(): number {
    return this.#askedAt === undefined ? 0 : this.now() - this.#askedAt
  }

  /** Whether the store did not take the last ones: nothing more should be sent until it does. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  add(settlement: Settlement): void {
    this.#waiting.push(settlement)
    if (this.#isBusy) return
    this.#isBusy = true
    setImmediate(() => void this.#run())
  }

  /** Resolves once the store has everything. */
  drain(): Promise<void> {
    if (!this.#isBusy) return Promise.resolve()
    return new Promise((resolve) => this.#drained.push(resolve))
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const settlements = this.#waiting
      this.#waiting = []
      if (await this.#settle(settlements)) continue
      this.#waiting = settlements.concat(this.#waiting)
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
    this.#isBusy = false
    for (const resolve of this.#drained.splice(0)) resolve()
  }

  async #settle(settlements: Settlement[]): Promise<boolean> {
    this.#askedAt = this.now()
    try {
      const refused = await this.store.settle(settlements)
      if (refused > 0) this.report.refused(refused)
      if (this.#isFailing) this.report.recovered()
      this.#isFailing = false
      return true
    } catch (error) {
      if (!this.#isFailing) this.report.failed(error)
      this.#isFailing = true
      return false
    } finally {
      this.#askedAt = undefined
    }
  }
}
