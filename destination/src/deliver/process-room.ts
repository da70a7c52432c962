/** The most requests under way at once where files are not scarce. */
export const MAX_UNDER_WAY = 4_096

/** In characters: the bodies of the requests under way have no more than about this together. In memory, each takes a few bytes. */
const MAX_BODIES = 32 * 1_048_576

/** Before the first claim of a destination, nobody knows how large its messages are: each counts for this share of the room. */
const UNKNOWN_SHARE = 1 / 64

/**
 * Claims that had to wait for room begin once this share of the room is free. It is small, because slow endpoints may hold all the
 * rest of the room for long, and a fast one must not wait for them.
 */
const FREE_SHARE = 1 / 64

/** Room is scarce while more than this share of it is taken. */
const SCARCE_SHARE = 1 / 4

/**
 * How many requests may wait at each endpoint of a destination: half of its share of a room, in equal parts. Else those of a slow endpoint
 * would take all of the share, and delay the fast ones. Until the room is scarce, there is no limit.
 *
 * @param room - How many requests may be under way, and how many are.
 * @param width - How many endpoints there are.
 */
export function mostWaiting(room: { max: number; taken: number }, share: number, width: number) {
  return room.taken > room.max * SCARCE_SHARE ? share / (2 * width) : Infinity
}

/** What takes room: the queue of a destination. */
export interface Taker {
  /** The requests of one delivery at once. */
  readonly width: number
  /** For how many requests its largest messages count at an endpoint; `undefined` as long as nobody knows. */
  readonly weight: number | undefined
  /** Its deliveries under way. */
  readonly underWay: number
  /** For how many requests they count. */
  readonly load: number
}

/** The requests that may be under way at once in this process, for all destinations together. */
export class ProcessRoom {
  readonly #max: number
  /** The requests of the deliveries under way: one for each endpoint, and more for a large body ({@link weightOf}). */
  #requests = 0
  /** The requests of the messages that are being stored as leased, or held. */
  #coming = 0
  /**
   * How many requests of one destination may be under way while half of the room is taken: the same part for each
   * destination that sends or waits, so that slow endpoints do not take all of it.
   */
  #share = Infinity

  /** @param max - The most requests. It bounds the memory and the files that they take. */
  constructor(max = MAX_UNDER_WAY) {
    this.#max = max
  }

  /** How many more requests may be under way. */
  get free(): number {
    return this.#max - this.#requests - this.#coming
  }

  /** Whether enough is free for a round of claims. */
  get isWorthClaiming(): boolean {
    return this.free >= this.#max * FREE_SHARE
  }

  /** Whether a new message for a destination may be sent now. */
  hasRoomFor(taker: Taker): boolean {
    const { free } = this
    return free > this.#max / 2 || (free > 0 && taker.load < this.#share)
  }

  /** For how many requests a body counts at each endpoint: large bodies must not take all of the memory. */
  weightOf(body: string): number {
    return Math.max(1, Math.ceil((body.length * this.#max) / MAX_BODIES))
  }

  /** So many more requests are about to be under way; or fewer, if the number is negative. */
  expect(requests: number): void {
    this.#coming += requests
  }

  /** So many more requests are under way; or fewer, if the number is negative. */
  take(requests: number): void {
    this.#requests += requests
  }

  /** Divides the room among so many destinations that send or wait. */
  shareAmong(destinations: number): void {
    this.#share = Math.max(1, Math.floor(this.#max / Math.max(1, destinations)))
  }

  /** See {@link mostWaiting}. */
  waitingAt({ width }: Pick<Taker, 'width'>): number {
    return mostWaiting({ max: this.#max, taken: this.#max - this.free }, this.#share, width)
  }

  /** For how many requests each message of a destination counts, as far as is known. */
  roomOfEach({ width, weight }: Taker): number {
    return width * (weight ?? Math.max(1, Math.floor(this.#max * UNKNOWN_SHARE)))
  }

  /**
   * The most messages of a destination that a claim may bring.
   *
   * @param left - What other claims have left of {@link free}.
   */
  mostOf(taker: Taker, left: number): number {
    const { width, underWay, load } = taker
    const room = Math.min(left, Math.max(this.#share - load, left - this.#max / 2))
    // Whoever has less than its share gets something, however large it may be.
    const isShort = underWay === 0 || load + width <= this.#share
    return Math.max(Math.floor(room / this.roomOfEach(taker)), isShort ? 1 : 0)
  }
}
