import { overloaded, type Refusal } from './refusal.js'

/**
 * The most bytes of bodies that have arrived in part. A body takes a few ms to arrive as a whole, so only clients that are slow or
 * send nothing more reach this. Each may hold a body of the greatest size for as long as a request may take.
 */
const MAX_ARRIVING_BYTES = 64_000_000

/** A body that has arrived in part. */
export interface ArrivingBody {
  /** Another part of it has arrived. */
  add(bytes: number): void
  /** It has arrived as a whole, or will not. */
  end(): void
}

interface Counted {
  bytes: number
  giveUp: (refusal: Refusal) => void
}

/**
 * Counts the bytes of bodies that have arrived in part. If there is no room for more, the body that began to arrive first is given
 * up. So whoever holds the room with slow bodies loses them, and everybody else is answered as always.
 */
export class ArrivingBytes {
  #bytes = 0
  /** In the order in which they began to arrive. */
  readonly #bodies = new Set<Counted>()

  constructor(readonly maxBytes = MAX_ARRIVING_BYTES) {}

  /** @param giveUp - Called with a 503 if the body has to be dropped. Nothing of it is counted any more. */
  begin(giveUp: (refusal: Refusal) => void): ArrivingBody {
    const body: Counted = { bytes: 0, giveUp }
    this.#bodies.add(body)
    return {
      add: (bytes) => {
        if (!this.#bodies.has(body)) return
        body.bytes += bytes
        this.#bytes += bytes
        while (this.#bytes > this.maxBytes) this.#giveUpOldest()
      },
      end: () => {
        this.#remove(body)
      },
    }
  }

  #giveUpOldest(): void {
    const [oldest] = this.#bodies
    if (!oldest) return
    this.#remove(oldest)
    oldest.giveUp(overloaded('Too many bodies arrive slowly at once, and this one began first'))
  }

  #remove(body: Counted): void {
    if (this.#bodies.delete(body)) this.#bytes -= body.bytes
  }
}
