import type { Delivery, Next, Settlement } from '../model/delivery.js'
import type { DispatchPort } from '../store/store.js'

/** The wait before settlements that the store could not take are written again, in ms. */
const RETRY_MS = 250

/** A message that was delivered, or has become a dead letter. */
export interface EndedMessage {
  /** As it was claimed for its last attempt. */
  delivery: Delivery
  next: Extract<Next, { state: 'done' | 'dead' }>
}

/** What happens to settlements. */
export interface SettleEvents {
  /** The store has taken the settlements of these messages. A settlement that it refuses ends no message. */
  messagesEnded(messages: readonly EndedMessage[]): void
  /** The store could not take settlements. They are written again. Reported once for several failures in a row. */
  settleFailed(error: unknown): void
  /** The store takes settlements again. */
  settleRecovered(): void
  /** This many settlements came too late. Another claim has these deliveries and sends them again. */
  settlementsRefused(count: number): void
}

/**
 * Writes settlements to the store: first all of one turn of the event loop together, then all that arrived meanwhile.
 * It keeps each settlement until the store has it, because a delivery that is not settled is sent again.
 */
export class Settler {
  readonly #store: Pick<DispatchPort, 'settle'>
  readonly #events: SettleEvents
  readonly #now: () => number
  #waiting: Settlement[] = []
  #isBusy = false
  #isFailing = false
  /** When the write under way started; `undefined` if none is. */
  #askedAt: number | undefined
  #drained: (() => void)[] = []

  /** @param now - A monotonic clock, in ms. */
  constructor(
    store: Pick<DispatchPort, 'settle' | 'onSettled'>,
    events: SettleEvents,
    now: () => number = () => performance.now(),
  ) {
    this.#store = store
    this.#events = events
    this.#now = now
    store.onSettled((settlements) => {
      const ended = settlements.filter(hasEnded)
      if (ended.length > 0) events.messagesEnded(ended)
    })
  }

  /** For how long the settler has been waiting for the store, in ms. */
  stalledMs(): number {
    return this.#askedAt === undefined ? 0 : this.#now() - this.#askedAt
  }

  /** Whether the store could not take the last settlements. Nothing should be sent until it takes them. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  add(settlement: Settlement): void {
    this.#waiting.push(settlement)
    if (this.#isBusy) return
    this.#isBusy = true
    setImmediate(() => void this.#run())
  }

  /** Resolves once the store has all settlements. */
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
    this.#askedAt = this.#now()
    try {
      const refused = await this.#store.settle(settlements)
      if (refused > 0) this.#events.settlementsRefused(refused)
      if (this.#isFailing) this.#events.settleRecovered()
      this.#isFailing = false
      return true
    } catch (error) {
      if (!this.#isFailing) this.#events.settleFailed(error)
      this.#isFailing = true
      return false
    } finally {
      this.#askedAt = undefined
    }
  }
}

function hasEnded(settlement: Settlement): settlement is Settlement & EndedMessage {
  const { state } = settlement.next
  return (state === 'done' || state === 'dead') && settlement.delivery !== undefined
}
