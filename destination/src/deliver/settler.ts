import type { Settlement } from '../model/delivery.js'
import type { DispatchPort } from '../store/store.js'

/** If the store could not take settlements, the wait before it is given them again, in ms. */
const RETRY_MS = 250

/** What happens to settlements. */
export interface SettleEvents {
  /** The store could not take settlements; they are given to it again. Told once for failures in a row. */
  settleFailed(error: unknown): void
  /** The store takes settlements again. */
  settleRecovered(): void
  /** So many settlements came too late: another claim has the delivery, and sends it again. */
  settlementsRefused(count: number): void
}

/**
 * Gives settlements to the store: all of one turn of the event loop together, and then all that arrived while the store
 * was busy. It keeps each settlement until the store has it, because a delivery that is not settled is sent again.
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
    readonly store: Pick<DispatchPort, 'settle'>,
    readonly events: SettleEvents,
    readonly now: () => number = () => performance.now(),
  ) {}

  /** For how long it has waited for the store, in ms. */
  stalledMs(): number {
    return this.#askedAt === undefined ? 0 : this.now() - this.#askedAt
  }

  /** Whether the store did not take the last settlements. Nothing more should be sent until it does. */
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
      if (refused > 0) this.events.settlementsRefused(refused)
      if (this.#isFailing) this.events.settleRecovered()
      this.#isFailing = false
      return true
    } catch (error) {
      if (!this.#isFailing) this.events.settleFailed(error)
      this.#isFailing = true
      return false
    } finally {
      this.#askedAt = undefined
    }
  }
}
