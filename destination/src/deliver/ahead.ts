import type { Delivery, DeliveryId } from '../model/delivery.js'

/** A message that waits in memory for longer than this, in ms, goes back to the store, well before its lease ends. */
const MAX_WAIT_MS = 5_000

/**
 * New messages of one destination that are leased and wait in memory until an endpoint has room, the oldest first. They need no
 * claim, which costs as much as storing them. No room is reserved for them, so that the other lanes keep their shares of it.
 */
export class Ahead {
  readonly #waiting: { delivery: Delivery; since: number }[] = []
  /** How many more are being put or claimed. */
  #coming = 0

  /** How many wait, or are being put or claimed. */
  get size(): number {
    return this.#waiting.length + this.#coming
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** So many more are being put or claimed; or fewer, if the number is negative. */
  expect(deliveries: number): void {
    this.#coming += deliveries
  }

  add(delivery: Delivery, now: number): void {
    this.#waiting.push({ delivery, since: now })
  }

  /** Removes and returns the oldest one. */
  take(): Delivery | undefined {
    return this.#waiting.shift()?.delivery
  }

  /** Removes and returns those that have waited for too long, or all. */
  giveUp(now: number, isAll: boolean): Delivery[] {
    const isKept = ({ since }: { since: number }) => !isAll && since > now - MAX_WAIT_MS
    const first = this.#waiting.findIndex(isKept)
    const given = this.#waiting.splice(0, first < 0 ? this.#waiting.length : first)
    return given.map(({ delivery, since }) => ({
      ...delivery,
      dueForMs: (delivery.dueForMs ?? 0) + now - since,
    }))
  }

  /** The ids of those that wait. */
  *ids(): Generator<DeliveryId> {
    for (const { delivery } of this.#waiting) yield delivery.id
  }
}
