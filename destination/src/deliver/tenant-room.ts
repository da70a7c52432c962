import { mostWaiting } from './process-room.js'

/** A queue that shares the room of its tenant with others. */
export interface Sharer {
  /** The requests of one delivery at once. */
  readonly width: number
  /** Its requests that are under way and were not answered, or are being put or claimed. */
  readonly requests: number
  /** Whether it would claim something if its tenant had room. */
  readonly wantsRoom: boolean
}

/**
 * The requests that may be under way at once to all destinations of a tenant.
 *
 * While there is room, each destination takes what it can use. Destinations that find none stand in line, and get equal parts of the
 * room. So one with slow endpoints, which holds its room for long, does not keep it from the others.
 */
export class TenantRoom<Queue extends Sharer = Sharer> {
  /** The most requests at once. A message to more endpoints than this is sent alone. */
  limit = Infinity
  #taken = 0
  /** Those that found no room, the first one first. */
  readonly #line = new Set<Queue>()
  /** The requests of those in line. */
  #takenInLine = 0

  /** Whether there is a limit. */
  get isLimited(): boolean {
    return this.limit < Infinity
  }

  /** See {@link mostWaiting}. */
  waitingAt(sharer: Queue): number {
    const room = { max: this.limit, taken: this.#taken }
    return mostWaiting(room, this.#partOf(sharer), sharer.width)
  }

  /** A sharer has more requests than before; or fewer, if the number is negative. */
  take(sharer: Queue, requests: number): void {
    this.#taken += requests
    if (this.#line.has(sharer)) this.#takenInLine += requests
  }

  /** How many deliveries of a sharer may start now. */
  roomFor(sharer: Queue): number {
    if (this.limit === Infinity) return Infinity
    const first = this.#first()
    if (first && first !== sharer) return 0
    const requests = Math.min(this.#free, this.#partOf(sharer) - sharer.requests)
    return Math.max(Math.floor(requests / sharer.width), this.#taken === 0 ? 1 : 0)
  }

  /** Whether a sharer can't have this many requests, because others of the tenant have the room. */
  isShort(sharer: Queue, requests: number): boolean {
    return this.#line.has(sharer) || this.#partOf(sharer) < requests
  }

  /** The sharer found no room. It is told by {@link next} when it is its turn. */
  wait(sharer: Queue): void {
    if (this.#line.has(sharer)) return
    this.#line.add(sharer)
    this.#takenInLine += sharer.requests
  }

  /** The sharer has got room, needs none, or is no longer used. */
  leave(sharer: Queue): void {
    if (this.#line.delete(sharer)) this.#takenInLine -= sharer.requests
  }

  /** Who may start something now; `undefined` if nobody waits for room, or if there is not enough. */
  next(): Queue | undefined {
    if (this.#line.size === 0) return undefined
    const first = this.#first()
    return first && (this.#free >= first.width || this.#taken === 0) ? first : undefined
  }

  /** How many requests a sharer may have: an equal part of the free room and of what those in line have already. */
  #partOf(sharer: Queue): number {
    const isInLine = this.#line.has(sharer)
    const shared = this.#free + this.#takenInLine + (isInLine ? 0 : sharer.requests)
    return Math.max(sharer.width, Math.ceil(shared / (this.#line.size + (isInLine ? 0 : 1))))
  }

  get #free(): number {
    return this.limit - this.#taken
  }

  /**
   * Whose turn it is: the first in line that has less than its part. The others wait for it, or else one with several endpoints
   * would never find enough room at once.
   */
  #first(): Queue | undefined {
    for (const sharer of this.#line) {
      if (!sharer.wantsRoom) this.leave(sharer)
      else if (sharer.requests + sharer.width <= this.#partOf(sharer)) return sharer
    }
    return undefined
  }
}
