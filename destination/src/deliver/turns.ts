import type { Delivery } from '../model/delivery.js'
import { addToGroup } from '../model/grouped.js'
import type { DestinationQueue } from './destination-queue.js'

/** How many deliveries are sent in one turn of the event loop: about a ms. Other work of the process comes in between. */
const SENT_IN_TURN = 32

/** Sends deliveries, a few in each turn of the event loop. */
export class Turns {
  /** Deliveries that wait for a turn of the event loop. The destination whose turn it is comes first. */
  readonly #held = new Map<DestinationQueue, Delivery[]>()
  /** How many deliveries were sent in this turn of the event loop. */
  #sentInTurn = 0
  readonly #send: (delivery: Delivery, queue: DestinationQueue) => void

  /** @param send - Sends a delivery that was held, and calls {@link noteSent}. */
  constructor(send: (delivery: Delivery, queue: DestinationQueue) => void) {
    this.#send = send
  }

  /** Whether a delivery may be sent at once: few were sent in this turn, and none waits for the next one. */
  get hasRoom(): boolean {
    return this.#held.size === 0 && this.#sentInTurn < SENT_IN_TURN
  }

  /** Whether no delivery waits. */
  get isEmpty(): boolean {
    return this.#held.size === 0
  }

  /** The delivery is sent in one of the next turns. */
  hold(delivery: Delivery, queue: DestinationQueue): void {
    addToGroup(this.#held, queue, delivery)
  }

  /** A delivery is sent in this turn. */
  noteSent(): void {
    this.#sentInTurn++
    if (this.#sentInTurn > 1) return
    setImmediate(() => {
      this.#sentInTurn = 0
      this.#sendHeld()
    })
  }

  /** Sends what is held, as much as one turn of the event loop takes. The destinations take turns. */
  #sendHeld(): void {
    for (const [queue, deliveries] of this.#held) {
      if (this.#sentInTurn >= SENT_IN_TURN) return
      this.#held.delete(queue)
      const next = deliveries.shift()
      if (deliveries.length > 0) this.#held.set(queue, deliveries)
      if (next) this.#send(next, queue)
    }
  }
}
