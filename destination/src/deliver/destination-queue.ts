import { createSigning, type Signing } from '../post/signing.js'
import type { Destination } from '../settings/settings.js'
import type { Claim, Lane } from '../model/delivery.js'
import type { Line } from './endpoint-queue.js'

/** How often a lane is looked at, in ms, if nothing is known to wait there: other processes may have put something. */
const LOOK_MS = 1_000

/** The share of the room that is kept for the other lane: fresh messages and the backlog never starve each other. */
const KEPT_SHARE = 1 / 4

/** Claims wait until this share of the room is free: one claim of many costs little more than one of one. */
const CLAIM_SHARE = 1 / 8

/** At most so many deliveries are claimed at once for one lane. */
const MAX_CLAIM = 256

/** What is known of a lane of one destination. */
interface LaneState {
  /** Deliveries that are being put or claimed: room is reserved for them. */
  coming: number
  /** Deliveries under way that came from it. */
  underWay: number
  /** Whether it surely has something due in the store. */
  hasWaiting: boolean
  /** Whether it got something since the last claim was made. */
  hasMore: boolean
  /** When to look whether it has. */
  lookAt: number
}

/** One destination as the dispatcher sees it: the lines to its endpoints, what is under way, what waits in the store. */
export class Target {
  /** What an earlier process left is looked for at once. */
  readonly #lanes: Record<Lane, LaneState> = {
    fresh: { coming: 0, underWay: 0, hasWaiting: true, hasMore: false, lookAt: 0 },
    backlog: { coming: 0, underWay: 0, hasWaiting: true, hasMore: false, lookAt: 0 },
  }

  /** The URLs of its endpoints. */
  readonly urls: readonly string[]

  /** How its requests are signed. */
  readonly signing: Signing

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly destination: Destination,
    readonly lines: readonly Line[],
    readonly now: () => number,
  ) {
    this.signing = createSigning(destination)
    this.urls = lines.map(({ endpoint }) => endpoint.url)
  }

  /**
   * Where a new message starts. If it is `leased`, room is reserved for it, until {@link arrive}.
   *
   * A destination with every gate shut parks its messages in the backlog, so that once it is well again what is fresh
   * by then goes first. Behind messages that wait in the fresh lane a new one waits too.
   */
  place(): Lane | 'leased' {
    if (!this.#lanes.fresh.hasWaiting && this.#room('fresh') > 0) {
      this.#lanes.fresh.coming++
      return 'leased'
    }
    return this.isShut ? 'backlog' : 'fresh'
  }

  /** What to claim now; room is reserved for it, until {@link arrive}. */
  claims(): Claim[] {
    const claims: Claim[] = []
    // A probe is for those whose time runs.
    const lanes = this.isShut ? (['backlog', 'fresh'] as const) : (['fresh', 'backlog'] as const)
    for (const lane of lanes) {
      const limit = this.#isToLookAt(lane) ? Math.min(this.#room(lane), MAX_CLAIM) : 0
      if (limit <= 0 || limit < this.#limit() * CLAIM_SHARE) continue
      const state = this.#lanes[lane]
      state.coming += limit
      state.hasMore = false
      state.lookAt = this.now() + LOOK_MS
      claims.push({ destination: this.destination.name, lane, limit })
    }
    return claims
  }

  /** What {@link claims} asked for has been claimed, so many of it; or the claim failed. */
  claimed({ lane, limit }: Claim, count: number): void {
    const state = this.#lanes[lane]
    state.coming -= limit
    state.hasWaiting = count === limit || state.hasMore
  }

  /** Reserved room is given back: what was put is there already, or could not be put. */
  arrive(): void {
    this.#lanes.fresh.coming--
  }

  /** A lane of the store has something more, due after a while. */
  expect(lane: Lane, delayMs: number): void {
    const state = this.#lanes[lane]
    if (delayMs === 0) state.hasWaiting = state.hasMore = true
    else state.lookAt = Math.min(state.lookAt, this.now() + delayMs)
  }

  /** An attempt starts, of a delivery from a lane. */
  start(lane: Lane): void {
    this.#lanes[lane].underWay++
  }

  /** It has ended. */
  end(lane: Lane): void {
    this.#lanes[lane].underWay--
  }

  /** Whether every endpoint is down: nothing but probes is sent. */
  get isShut(): boolean {
    return this.lines.every(({ gate }) => gate.isShut)
  }

  /** Whether a lane has something due that could be claimed once there is room. */
  get hasWaiting(): boolean {
    return this.#lanes.fresh.hasWaiting || this.#lanes.backlog.hasWaiting
  }

  #isToLookAt(lane: Lane): boolean {
    const { hasWaiting, lookAt } = this.#lanes[lane]
    return hasWaiting || this.now() >= lookAt
  }

  /**
   * How many deliveries of a lane may start now.
   *
   * The quickest endpoint decides for fresh messages, so that a slow one beside it does not delay them. For the backlog
   * the slowest does: nobody waits for it, and it is to reach every endpoint that is well.
   */
  #room(lane: Lane): number {
    const areAllShut = this.isShut
    let room = lane === 'fresh' ? -Infinity : Infinity
    for (const line of this.lines) {
      if (line.gate.isShut && !areAllShut) continue
      room = lane === 'fresh' ? Math.max(room, line.room()) : Math.min(room, line.room())
    }
    room -= this.#lanes.fresh.coming + this.#lanes.backlog.coming
    if (room <= 0) return room

    const other = this.#lanes[lane === 'fresh' ? 'backlog' : 'fresh']
    if (lane === 'fresh' && !other.hasWaiting) return room
    const kept = Math.floor(this.#limit() * KEPT_SHARE)
    return room - Math.max(0, kept - other.coming - other.underWay)
  }

  /** How many requests may be under way at the endpoint that takes the most. */
  #limit(): number {
    let limit = 0
    for (const { gate } of this.lines)
      limit = Math.max(limit, gate.room(this.now()) + gate.inFlight)
    return limit
  }
}
