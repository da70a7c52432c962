import type { Claim, Delivery, DeliveryId, Lane } from '../model/delivery.js'
import { createSigning, type Signing } from '../post/signing.js'
import type { Destination } from '../settings/settings.js'
import { LANES } from '../store/states.js'
import { Ahead } from './ahead.js'
import type { EndpointQueue } from './endpoint-queue.js'
import { LaneTurns } from './lane-turns.js'
import type { TenantRoom } from './tenant-room.js'

/** The share of the room that the other lanes leave to each lane, so that no lane starves. */
const KEPT_SHARES: Readonly<Record<Lane, number>> = { fresh: 1 / 4, backlog: 1 / 4, bulk: 1 / 8 }

/** With room for fewer requests at once than this, no lane has a share. Then the lanes take turns. */
const MIN_SHARED = 4

/** A claim waits until this share of the room is free, because many small claims cost more than one large claim. */
const CLAIM_SHARE = 1 / 8

/**
 * As many new messages may wait in memory as an endpoint takes in this time, in s. They were measured to cost half as much as those
 * that wait in the store. Where the process can't keep up, there are more than this, and the store has them.
 */
const AHEAD_S = 0.5

/** The most deliveries that are claimed at once for one lane. */
const MAX_CLAIM = 256

/**
 * What probes are claimed as, in turn. Messages that always fail must not take all probes, because the endpoint would seem
 * to be down: so most probes are messages that were not tried before. Those that were claimed and given back count as tried, and
 * may wait in each lane: a lane without a turn for them would never be probed if nothing else waits.
 */
const PROBES: readonly Pick<Claim, 'lane' | 'isUntried'>[] = [
  { lane: 'backlog', isUntried: true },
  { lane: 'fresh', isUntried: true },
  { lane: 'backlog', isUntried: true },
  { lane: 'backlog' },
  { lane: 'bulk', isUntried: true },
  { lane: 'bulk' },
  { lane: 'fresh' },
]

/** What is known of a lane of one destination. */
interface LaneState {
  /** Deliveries that are being put or claimed: room is reserved for them. */
  coming: number
  /** Deliveries from this lane that are under way. */
  underWay: number
  /** Whether the store certainly has something due for it. */
  hasWaiting: boolean
  /** Whether the store got something for it since the last claim was made. */
  hasMore: boolean
  /** When something becomes due that does not wait yet, as far as is known. */
  dueAt: number
}

/** Where a new message starts: in a lane of the store; or leased, to be sent at once, or when it is its turn. */
export type Place = Lane | 'leased' | 'ahead'

/** What follows from the end of a claim. */
interface Claimed {
  hasMore: boolean
  withoutRoom: number
}

/** The room of a tenant, which the queues of its destinations share. */
export type Room = TenantRoom<DestinationQueue>

/** What one destination may send now: the queues of its endpoints, what is under way, and what waits in the store. */
export class DestinationQueue {
  readonly #now: () => number
  readonly #lanes: Record<Lane, LaneState> = {
    fresh: unknown(),
    backlog: unknown(),
    bulk: unknown(),
  }

  /** New messages that are leased and wait in memory. */
  readonly #ahead = new Ahead()
  /** How many deliveries of the claim that is under way have no room, and are going to wait in {@link #ahead}. */
  #claimedAhead = 0
  /** The requests of deliveries under way that were answered. */
  #answered = 0
  /** What large bodies under way count for beyond the number of their requests. */
  #large = 0
  /** For how many requests the largest of the latest claimed messages counts at an endpoint; `undefined` before the first claim. */
  weight: number | undefined
  /** New messages in the store, as far as this process has put and claimed them. */
  #freshInStore = 0
  /** Which of {@link PROBES} is next. */
  #nextProbe = 0
  readonly #laneTurns = new LaneTurns()

  /** The URLs of its endpoints. */
  readonly urls: readonly string[]

  /** How its requests are signed. */
  readonly signing: Signing

  /**
   * @param now - A monotonic clock, in ms.
   * @param tenant - The room that it shares with the other destinations of its tenant.
   * @param wall - See {@link createSigning}.
   */
  constructor(
    readonly destination: Destination,
    readonly endpoints: readonly EndpointQueue[],
    now: () => number,
    readonly tenant?: Room,
    wall?: () => number,
  ) {
    this.#now = now
    this.signing = createSigning(destination, wall)
    this.urls = endpoints.map(({ endpoint }) => endpoint.url)
  }

  /**
   * Where a new message starts. If the answer is `leased`, room is reserved for it until {@link releaseRoom}. If it is `ahead`,
   * the message is to be given to {@link hold} after {@link expectAhead}.
   *
   * While all endpoints are down, new messages go to the backlog, so that the messages that arrive after the recovery
   * are sent first. While messages wait in the fresh lane, a new one waits behind them. Where the lanes take turns, it also
   * waits while another lane does.
   */
  place(): Place {
    const mustWait = this.#takesTurns ? this.hasWaiting : this.#lanes.fresh.hasWaiting
    if (!mustWait) {
      if (!this.hasAhead && this.hasRoom) {
        this.#count('fresh', 'coming', 1)
        return 'leased'
      }
      if (this.#roomAhead('fresh') > 0) {
        this.expectAhead(1)
        return 'ahead'
      }
    }
    return this.isDown ? 'backlog' : 'fresh'
  }

  /** So many leased messages are about to wait in memory; or fewer, if the number is negative. */
  expectAhead(deliveries: number): void {
    this.#ahead.expect(deliveries)
    this.tenant?.take(this, deliveries * this.width)
  }

  /** A leased message waits in memory until {@link next} or {@link giveUp}. */
  hold(delivery: Delivery): void {
    this.#ahead.add(delivery, this.#now())
    this.tenant?.take(this, this.width)
  }

  /** The message in memory that may be sent now, if there is one. */
  next(): Delivery | undefined {
    if (this.#ahead.waiting === 0 || this.#takesTurns || !this.hasRoom) return undefined
    this.tenant?.take(this, -this.width)
    return this.#ahead.take()
  }

  /**
   * The messages that must not wait in memory any longer: those that have waited for too long, and all of them if no endpoint takes
   * any, or if the lanes take turns.
   */
  giveUp(isAll = this.isDown || this.#takesTurns): Delivery[] {
    const given = this.#ahead.giveUp(this.#now(), isAll)
    this.tenant?.take(this, -given.length * this.width)
    return given
  }

  /** The messages that wait in memory. */
  get waitingIds(): Iterable<DeliveryId> {
    return this.#ahead.ids()
  }

  /** Whether messages wait in memory, or are about to. */
  get hasAhead(): boolean {
    return this.#ahead.size > 0
  }

  /** Whether a new message may be sent now. */
  get hasRoom(): boolean {
    return this.#room('fresh') > 0
  }

  /**
   * What to claim now. Room is reserved for it until {@link claimed}.
   *
   * @param most - The most deliveries in all lanes together.
   */
  claims(most = Infinity): Claim[] {
    const claims = this.#claims(most)
    if (claims.length === 0 && this.wantsRoom) this.tenant?.wait(this)
    else this.tenant?.leave(this)
    return claims
  }

  #claims(most: number): Claim[] {
    if (this.isDown) return this.#probes()
    if (this.#takesTurns) return this.#turns(most)
    const claims: Claim[] = []
    let left = most
    for (const lane of LANES) {
      if (left < 1 || !this.#isToClaim(lane)) continue
      const room = this.#roomToClaim(lane)
      if (room === -Infinity) continue
      const all = Math.max(0, room) + this.#roomAhead(lane)
      const claim = this.#claim({ lane }, Math.min(all, MAX_CLAIM, left), room)
      claims.push(claim)
      left -= claim.limit
    }
    return claims
  }

  /**
   * A claim of {@link claims} has ended.
   *
   * @param count - The number of its deliveries; 0 after an error.
   * @returns whether there may be more to claim at once, and how many of the deliveries have to wait in memory.
   */
  claimed({ lane, limit, isUntried }: Claim, count: number): Claimed {
    const state = this.#lanes[lane]
    let reserved = limit
    if (lane === 'fresh') {
      this.#freshInStore = Math.max(0, this.#freshInStore - count)
      this.expectAhead(-this.#claimedAhead)
      reserved -= this.#claimedAhead
      this.#claimedAhead = 0
    }
    this.#count(lane, 'coming', -reserved)
    const withoutRoom = Math.max(0, count - reserved)
    const isNoneUntried = isUntried === true && count === 0
    // The lane may still have what was tried before.
    if (isNoneUntried) state.dueAt = this.#now()
    else state.hasWaiting = count === limit || state.hasMore
    return { hasMore: count === limit || isNoneUntried, withoutRoom }
  }

  /** Reserves room for a delivery that is sent soon, until {@link releaseRoom}. */
  holdRoom(lane: Lane): void {
    this.#count(lane, 'coming', 1)
  }

  /** Gives back the room that {@link place}, for the fresh lane, or {@link holdRoom} reserved. */
  releaseRoom(lane: Lane): void {
    this.#count(lane, 'coming', -1)
  }

  /** A new message is in the store and waits to be claimed. */
  notePut(lane: Lane): void {
    if (lane === 'fresh') this.#freshInStore++
    this.noteDue(lane, 0)
  }

  /** New messages that wait although no endpoint is down, paused or limited by a rate. */
  get behind(): number {
    const isFree = this.endpoints.every(({ isAvailable, isPaced }) => isAvailable && !isPaced)
    return isFree ? this.#freshInStore + this.#ahead.size : 0
  }

  /** The store has another delivery for a lane, which is due after `delayMs`. */
  noteDue(lane: Lane, delayMs: number): void {
    const state = this.#lanes[lane]
    if (delayMs === 0) state.hasWaiting = state.hasMore = true
    else state.dueAt = Math.min(state.dueAt, this.#now() + delayMs)
  }

  /** The store says in which lanes something is due, and that nothing is due in the others. */
  noteLanes(due: ReadonlySet<Lane>): void {
    for (const lane of LANES) {
      if (due.has(lane)) this.noteDue(lane, 0)
      else this.#lanes[lane].hasWaiting &&= this.#lanes[lane].hasMore
      if (lane === 'fresh' && !this.#lanes.fresh.hasWaiting) this.#freshInStore = 0
    }
  }

  /** The endpoints that a delivery is for: those that have not refused it for good. */
  receivers({ refusedBy }: Pick<Delivery, 'refusedBy'>): readonly EndpointQueue[] {
    if (refusedBy.length === 0) return this.endpoints
    return this.endpoints.filter(({ endpoint }) => !refusedBy.includes(endpoint.url))
  }

  /** The attempts for a delivery from a lane start. @param weight - For how many requests its body counts at each endpoint. */
  start(lane: Lane, weight: number): void {
    this.#large += this.width * (weight - 1)
    this.#count(lane, 'underWay', 1)
  }

  /** One endpoint has answered, and others have not. @param weight - As at the {@link start}. */
  answer(weight: number): void {
    this.#large -= weight - 1
    this.#answered++
    this.tenant?.take(this, -1)
  }

  /** The attempts for a delivery from a lane have ended. @param answers - How often {@link answer} was called for it. */
  end(lane: Lane, weight: number, answers: number): void {
    this.#large -= (this.width - answers) * (weight - 1)
    this.#answered -= answers
    this.tenant?.take(this, answers)
    this.#count(lane, 'underWay', -1)
  }

  /** Deliveries that are under way, are being put or claimed, or wait in memory. */
  get underWay(): number {
    const { fresh, backlog, bulk } = this.#lanes
    const coming = fresh.coming + backlog.coming + bulk.coming
    return this.#ahead.size + coming + fresh.underWay + backlog.underWay + bulk.underWay
  }

  /** The requests of one delivery at once: one for each endpoint. */
  get width(): number {
    return this.endpoints.length
  }

  /** The requests of these deliveries that were not answered yet. */
  get requests(): number {
    return this.underWay * this.width - this.#answered
  }

  /** What they count for: a large body counts for several requests. */
  get load(): number {
    return this.requests + this.#large
  }

  /** Whether every endpoint is down or paused, so that only probes are sent. */
  get isDown(): boolean {
    for (const endpoint of this.endpoints) if (endpoint.isAvailable) return false
    return true
  }

  /** Whether a lane has something due that could be claimed once there is room. */
  get hasWaiting(): boolean {
    return this.#isToClaim('fresh') || this.#isToClaim('backlog') || this.#isToClaim('bulk')
  }

  /** Whether it would claim something if its tenant had room. */
  get wantsRoom(): boolean {
    if (!this.tenant || !this.hasWaiting) return false
    if (this.isDown) return this.#ownRoom() > 0
    if (this.#takesTurns) return this.#roomToClaim() > 0
    return LANES.some((lane) => this.#isToClaim(lane) && this.#roomToClaim(lane, Infinity) > 0)
  }

  #count(lane: Lane, what: 'coming' | 'underWay', deliveries: number): void {
    this.#lanes[lane][what] += deliveries
    this.tenant?.take(this, deliveries * this.width)
  }

  /** @param room - So many of the deliveries can be sent at once. The others are going to wait in memory. */
  #claim(what: Pick<Claim, 'lane' | 'isUntried'>, limit: number, room = limit): Claim {
    const state = this.#lanes[what.lane]
    const reserved = Math.min(limit, Math.max(0, Math.floor(room)))
    this.#count(what.lane, 'coming', reserved)
    if (reserved < limit) {
      this.#claimedAhead = limit - reserved
      this.expectAhead(this.#claimedAhead)
    }
    state.hasMore = false
    state.dueAt = Infinity
    return { destination: this.destination.name, ...what, limit }
  }

  /** The claim of the next probe, if one may be sent. */
  #probes(): Claim[] {
    const turns = [...PROBES.slice(this.#nextProbe), ...PROBES.slice(0, this.#nextProbe)]
    for (const probe of turns) {
      this.#nextProbe = (this.#nextProbe + 1) % PROBES.length
      const isPossible = this.#isToClaim(probe.lane) && this.#room(probe.lane) > 0
      if (isPossible) return [this.#claim(probe, 1)]
    }
    return []
  }

  /**
   * Whether the lanes take turns instead of keeping shares. The endpoint with the most room decides. With room for a few requests,
   * no share of it can be kept. Where a rate decides, requests hardly overlap, so there is nothing that a share could be kept
   * of. Where the room of the tenant decides, others wait for it, so none of it is kept unused.
   */
  get #takesTurns(): boolean {
    let most = -Infinity
    let limit = 0
    let isPaced = true
    for (const endpoint of this.endpoints) {
      if (!endpoint.isAvailable) continue
      const room = endpoint.room()
      const own = endpoint.limit()
      if (room < most || (room === most && own <= limit)) continue
      most = room
      limit = own
      isPaced = endpoint.isPaced
    }
    return isPaced || limit < MIN_SHARED || this.tenant?.isShort(this, limit * this.width) === true
  }

  /** Claims for the lanes that have something, each request in turn. */
  #turns(most: number): Claim[] {
    const waiting = LANES.filter((lane) => this.#isToClaim(lane))
    // What ends while the store answers is claimed together, so that a tenant without room makes no more claims than others.
    const own = this.#roomToClaim()
    if (waiting.length === 0 || own < 1) return []
    const room = Math.min(own, this.#tenantRoom(), MAX_CLAIM, most)
    if (room < 1) return []
    const limits: Record<Lane, number> = { fresh: 0, backlog: 0, bulk: 0 }
    for (let taken = 0; taken < Math.floor(room); taken++) {
      limits[this.#laneTurns.next((lane) => waiting.includes(lane))]++
    }
    return waiting
      .filter((lane) => limits[lane] > 0)
      .map((lane) => this.#claim({ lane }, limits[lane]))
  }

  /**
   * How many deliveries of a lane, or of any, may start at an endpoint where they are worth a claim; `-Infinity` if there is none. Of
   * several, the one with the most room decides.
   *
   * @param most - So many at most, by the room of the tenant.
   */
  #roomToClaim(lane?: Lane, most = lane ? this.#tenantRoom() : Infinity): number {
    const ahead = this.#roomAhead(lane)
    return this.#most((endpoint) => {
      const room = lane ? this.#laneRoom(lane, endpoint, most) : this.#ownRoomAt(endpoint)
      return Math.max(0, room) + ahead >= this.#leastClaim(endpoint, lane) ? room : -Infinity
    })
  }

  /**
   * The fewest deliveries that are worth a claim for an endpoint. Its pace never gives it more than a burst at once. Where new messages
   * wait in memory, half of them are sent in between.
   */
  #leastClaim(endpoint: EndpointQueue, lane?: Lane): number {
    const least = Math.floor(Math.min(endpoint.limit(), endpoint.pace.burst) * CLAIM_SHARE)
    const ahead = lane === 'fresh' ? Math.floor(this.#mostAhead() / 2) : 0
    return Math.max(1, Math.min(Math.max(least, ahead), MAX_CLAIM))
  }

  #isToClaim(lane: Lane): boolean {
    const { hasWaiting, dueAt } = this.#lanes[lane]
    return hasWaiting || (dueAt < Infinity && this.#now() >= dueAt)
  }

  /**
   * How many deliveries of a lane may start now. The endpoint with the most room for them decides, so that one that is slow,
   * busy or recovering does not delay the others.
   */
  #room(lane: Lane): number {
    const most = this.#tenantRoom()
    return this.#most((endpoint) => this.#laneRoom(lane, endpoint, most))
  }

  /** How many deliveries of a lane an endpoint takes, if there are `most` of them at most. */
  #laneRoom(lane: Lane, endpoint: EndpointQueue, most: number): number {
    const room = Math.min(this.#ownRoomAt(endpoint), most)
    if (room <= 0) return room

    let left = room
    for (const other of LANES) if (this.#isKept(lane, other)) left -= this.#unused(other, endpoint)
    // The others left this lane its own share, so it keeps nothing of that for them.
    return left === room ? room : Math.min(room, Math.max(left, this.#unused(lane, endpoint)))
  }

  /** How many more new messages may wait in memory. Those of other lanes don't. */
  #roomAhead(lane?: Lane): number {
    if (lane !== 'fresh') return 0
    return Math.max(0, this.#mostAhead() - this.#ahead.size)
  }

  /**
   * How many new messages may wait in memory: none where messages of other lanes or destinations may have to be sent before
   * them.
   */
  #mostAhead(): number {
    if (this.isDown || this.#takesTurns || this.tenant?.isLimited === true) return 0
    let rate = 0
    for (const endpoint of this.endpoints) {
      if (endpoint.isAvailable) rate = Math.max(rate, endpoint.recentRate)
    }
    return Math.floor(rate * AHEAD_S)
  }

  /** How many deliveries may start now by the limit of the tenant. */
  #tenantRoom(): number {
    return this.tenant && this.#ownRoom() > 0 ? this.tenant.roomFor(this) : Infinity
  }

  /** How many deliveries may start by the limits of the endpoints, without that of the tenant. */
  #ownRoom(): number {
    return this.#most((endpoint) => this.#ownRoomAt(endpoint))
  }

  #ownRoomAt(endpoint: EndpointQueue): number {
    const { fresh, backlog, bulk } = this.#lanes
    return endpoint.room() - fresh.coming - backlog.coming - bulk.coming
  }

  /** The most that one of the endpoints has of something. One that is down or paused does not count, unless all are. */
  #most(of: (endpoint: EndpointQueue) => number): number {
    const { isDown } = this
    let most = -Infinity
    for (const endpoint of this.endpoints) {
      if (endpoint.isAvailable || isDown) most = Math.max(most, of(endpoint))
    }
    return most
  }

  /**
   * Whether a lane leaves another lane its share. An earlier lane gets it even if nothing waits there, because a message may
   * come at any time.
   */
  #isKept(lane: Lane, other: Lane): boolean {
    if (lane === other) return false
    return LANES.indexOf(other) < LANES.indexOf(lane) || this.#isToClaim(other)
  }

  /** How much of its share of an endpoint a lane does not use now. */
  #unused(lane: Lane, endpoint: EndpointQueue): number {
    const limit = endpoint.limit()
    const share = limit < MIN_SHARED ? 0 : Math.max(1, Math.floor(limit * KEPT_SHARES[lane]))
    return Math.max(0, share - this.#lanes[lane].coming - endpoint.requestsOf(lane))
  }
}

/** An earlier process may have left deliveries, so a lane counts as waiting until the store says that it is not. */
function unknown(): LaneState {
  return { coming: 0, underWay: 0, hasWaiting: true, hasMore: false, dueAt: Infinity }
}
