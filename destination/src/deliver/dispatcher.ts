import type { Claim, Delivery, DeliveryId, Lane, Next } from '../model/delivery.js'
import { grouped } from '../model/grouped.js'
import { unsent } from '../model/unsent.js'
import { retryLane } from '../store/states.js'
import { LEASE_MS, type DispatchPort, type DueLane, type SharedPort } from '../store/store.js'
import { decide, isAnySent, type EndpointOutcome } from './decide.js'
import type { DestinationQueue } from './destination-queue.js'
import type { EndpointQueue } from './endpoint-queue.js'
import { ProcessRoom } from './process-room.js'
import { send } from './send.js'
import type { Settler } from './settler.js'
import { Turns } from './turns.js'

/** How often deliveries that have become due are claimed, and the queues of endpoints are swept, in ms. */
const TICK_MS = 250

/** How often the store is asked which lanes have something due, in ms. */
const POLL_MS = 1_000

/** What happens to deliveries. */
export interface DispatchEvents {
  /**
   * All attempts of one claim have ended, one at each endpoint. `next` is the decision about the delivery, which the store may
   * refuse: what has become of the message is told by `messagesEnded`. A claim that sent nothing, because every
   * endpoint was down or busy, is not reported.
   */
  attempted(delivery: Delivery, outcomes: EndpointOutcome[], next: Next): void
  /** The store could not be asked for deliveries, and is asked again. Reported once for several failures in a row. */
  claimFailed(error: unknown): void
}

/** Where a new message starts, and the queue of its destination at that time. */
export interface Placement {
  state: Lane | 'leased'
  queue: DestinationQueue | undefined
  /** Whether it is leased, but waits in memory for its turn. */
  isAhead?: boolean
}

/** A claim of a queue. */
interface QueueClaim {
  queue: DestinationQueue
  claim: Claim
}

/** What the dispatcher needs. */
export interface DispatcherParts {
  store: Pick<DispatchPort, 'claim' | 'due'> & SharedPort<'gone'>
  settler: Settler
  events: DispatchEvents
  /** A monotonic clock, in ms. */
  now: () => number
  random: () => number
  /**
   * The most requests under way at once, for all destinations together. It bounds the memory and the files that they take.
   *
   * @defaultValue as that of {@link ProcessRoom}
   */
  maxUnderWay?: number | undefined
}

/** The most messages of one round of claims. They may be larger than those before. */
const MAX_ROUND = 512

/**
 * Sends the deliveries that are due, as far as the endpoints have room for requests.
 *
 * A new message for a healthy destination is stored already leased and passed in directly ({@link place}, then
 * {@link placed}), which saves a claim. All other deliveries are claimed from the store.
 */
export class Dispatcher {
  readonly #parts: DispatcherParts
  #queues = new Map<string, DestinationQueue>()
  #underWay = 0
  /** When the deliveries under way were sent, the oldest first. */
  readonly #sentAt = new Map<DeliveryId, number>()
  /**
   * When deliveries were recalled that may still be leased by this process: one may be under way, or come from the store a moment
   * after it was deleted there.
   */
  readonly #recalled = new Map<DeliveryId, number>()
  /** The queues with deliveries under way. */
  readonly #busy = new Set<DestinationQueue>()
  /** The queues that new messages wait for. */
  readonly #behind = new Set<DestinationQueue>()
  readonly #room: ProcessRoom
  readonly #turns = new Turns((delivery, queue) => {
    this.#releaseRoom(queue, delivery.lane, this.#roomOf(queue, delivery))
    this.#start(delivery)
    this.#tellIfIdle()
  })
  #isStopped = false
  #isClaiming = false
  #claiming = Promise.resolve()
  /** The queues that may have something to claim, each behind those that came before it. */
  readonly #toClaim = new Set<DestinationQueue>()
  /** When the store is asked for the lanes with something due. */
  #pollAt = -Infinity
  #hasClaimFailed = false
  /** When the last tick was. */
  #tickedAt: number
  /** When the question to the store that is under way started; `undefined` if none is. */
  #askedAt: number | undefined
  #timer: NodeJS.Timeout
  #idle: (() => void)[] = []
  /** Who waits for the end of what was under way, the one that has waited longest first. */
  readonly #ends: { at: number; resolve: () => void }[] = []

  constructor(parts: DispatcherParts) {
    this.#parts = parts
    this.#room = new ProcessRoom(parts.maxUnderWay)
    this.#tickedAt = parts.now()
    this.#timer = setInterval(() => {
      this.#tick()
    }, TICK_MS)
  }

  /**
   * Replaces the destinations. Attempts under way to the former ones end as usual. Requests that wait for their turn at
   * an endpoint that is no longer used are not sent: their messages are retried by the new settings.
   *
   * @param unused - The endpoints of the former queues that are no longer used.
   */
  use(queues: readonly DestinationQueue[], unused: readonly EndpointQueue[]): void {
    const former = this.#queues
    this.#queues = new Map(queues.map((queue) => [queue.destination.name, queue]))
    for (const endpoint of unused) endpoint.retire()
    for (const queue of queues) for (const endpoint of queue.endpoints) endpoint.useLimits()
    for (const queue of this.#toClaim) if (!this.#isUsed(queue)) this.#toClaim.delete(queue)
    for (const queue of former.values()) {
      if (this.#isUsed(queue)) continue
      queue.tenant?.leave(queue)
      this.#behind.delete(queue)
      // Those that come after it take the new settings.
      this.#giveUp(queue, true)
    }
    this.#pollAt = -Infinity
    this.#claim()
  }

  /** The store has another delivery in a lane of a destination, which is due now. */
  wake(destination: string, lane: Lane): void {
    const queue = this.#queues.get(destination)
    if (!queue) return
    queue.noteDue(lane, 0)
    this.#claim(queue)
  }

  /** Deliveries were deleted: what is not on its way to an endpoint yet is not sent. */
  recall(ids: ReadonlySet<DeliveryId>): void {
    const at = this.#parts.now()
    for (const id of ids) this.#recalled.set(id, at)
    for (const { endpoints } of this.#busy) {
      for (const endpoint of endpoints) endpoint.withdraw(ids)
    }
  }

  /** Where a new message for a destination starts. Bulk work always waits in its lane. */
  place(destination: string, isBulk = false): Placement {
    const queue = this.#queues.get(destination)
    if (isBulk) return { state: 'bulk', queue }
    if (!queue || this.#isStopped || this.#parts.settler.isFailing) return { state: 'fresh', queue }
    if (!this.#room.hasRoomFor(queue)) return { state: 'fresh', queue }
    const place = queue.place()
    if (place !== 'leased' && place !== 'ahead') return { state: place, queue }
    this.#room.expect(queue.width)
    return { state: 'leased', queue, isAhead: place === 'ahead' }
  }

  /**
   * A message has been stored where it was placed. A leased message is sent. Another one is claimed when there is room.
   */
  placed(placement: Placement, delivery: Delivery): void {
    const { state, isAhead, queue } = placement
    if (state === 'leased') {
      this.notPlaced(placement)
      if (isAhead && queue) this.#hold(delivery, queue)
      else this.#send(delivery)
    } else {
      const current = this.#queues.get(delivery.destination)
      if (!current) return
      current.notePut(state)
      this.#behind.add(current)
      this.#claim(current)
    }
  }

  /** New messages that wait although their endpoints would take more: only this process holds them up. */
  behind(): number {
    let sum = 0
    for (const queue of this.#behind) {
      sum += queue.behind
      const isWaitedFor = queue.hasWaiting || queue.hasAhead
      if (!isWaitedFor) this.#behind.delete(queue)
    }
    return sum
  }

  /** A message that was placed is not stored: the store failed, or it has the message already. */
  notPlaced({ state, queue, isAhead = false }: Placement): void {
    if (state !== 'leased' || !queue) return
    if (!isAhead) this.#releaseRoom(queue, 'fresh', queue.width)
    else {
      this.#room.expect(-queue.width)
      queue.expectAhead(-1)
      this.#dropIfIdle(queue)
    }
  }

  #releaseRoom(queue: DestinationQueue, lane: Lane, room: number): void {
    this.#room.expect(-room)
    queue.releaseRoom(lane)
    this.#dropIfIdle(queue)
  }

  /** A queue that has nothing under way any more does not take part in the room of the process. */
  #dropIfIdle(queue: DestinationQueue): void {
    if (queue.underWay === 0) this.#busy.delete(queue)
  }

  /** Deliveries under way. */
  get underWay(): number {
    return this.#underWay
  }

  /** For how long the dispatcher has been waiting for its timer or for the store, in ms. */
  stalledMs(): number {
    return this.#parts.now() - Math.min(this.#tickedAt, this.#askedAt ?? Infinity)
  }

  /** Whether the last claim failed. */
  get hasClaimFailed(): boolean {
    return this.#hasClaimFailed
  }

  /**
   * Stops claiming and leasing. No other request starts: what waits for its turn, or comes from the store or from a client at this moment,
   * is not sent, and keeps its place.
   */
  stop(): void {
    this.#isStopped = true
    for (const queue of this.#queues.values()) {
      this.#giveUp(queue, true)
      for (const endpoint of queue.endpoints) endpoint.retire()
    }
  }

  /** Resolves once all attempts under way have ended and are settled. Nothing may be placed after the call. */
  async close(): Promise<void> {
    this.stop()
    await this.#claiming
    if (!this.#isIdle) await new Promise<void>((resolve) => this.#idle.push(resolve))
    clearInterval(this.#timer)
    await this.#parts.settler.drain()
  }

  /** Resolves once the attempts that are under way now have ended, and were told. */
  presentEnded(): Promise<void> {
    return new Promise((resolve) => {
      this.#ends.push({ at: this.#parts.now(), resolve })
      this.#tellEnded()
    })
  }

  get #isIdle(): boolean {
    return this.#underWay === 0 && this.#turns.isEmpty
  }

  #tick(): void {
    this.#tickedAt = this.#parts.now()
    for (const queue of this.#queues.values()) {
      for (const endpoint of queue.endpoints) endpoint.sweep()
      if (queue.hasAhead) {
        this.#giveUp(queue)
        this.#sendAhead(queue)
      }
      if (queue.hasWaiting) this.#toClaim.add(queue)
    }
    for (const [id, at] of this.#recalled) {
      if (this.#tickedAt - at < LEASE_MS) break
      this.#recalled.delete(id)
    }
    this.#claim()
  }

  /** A queue may have something to claim. A queue of former settings has a successor, which claims in its place. */
  #note(queue: DestinationQueue): void {
    if (this.#isUsed(queue)) this.#toClaim.add(queue)
  }

  /** Room has become free, so that another destination of the tenant may have something to claim. */
  #noteTenant(queue: DestinationQueue): void {
    const next = queue.tenant?.next()
    if (next && next !== queue) this.#note(next)
  }

  #isUsed(queue: DestinationQueue): boolean {
    return this.#queues.get(queue.destination.name) === queue
  }

  /** Claims for the queues that may have something to claim, and for one more. */
  #claim(queue?: DestinationQueue): void {
    if (queue) this.#note(queue)
    if (!this.#isClaiming) this.#claiming = this.#runClaims()
  }

  async #runClaims(): Promise<void> {
    this.#isClaiming = true
    while (!this.#isStopped && !this.#parts.settler.isFailing) {
      if (this.#parts.now() >= this.#pollAt) await this.#poll()
      const claims = this.#takeClaims()
      if (!claims) break
      await this.#claimFor(claims)
    }
    this.#isClaiming = false
  }

  /** The next claims; `undefined` if there is none, or no room. Those that have waited longest come first. */
  #takeClaims(): QueueClaim[] | undefined {
    if (!this.#room.isWorthClaiming) return undefined
    let left = this.#room.free
    let messages = MAX_ROUND
    this.#shareRoom()
    const claims: QueueClaim[] = []
    for (const queue of this.#toClaim) {
      if (left < 1 || messages < 1) break
      const each = this.#room.roomOfEach(queue)
      const most = Math.min(messages, this.#room.mostOf(queue, left))
      if (most < 1) continue
      this.#toClaim.delete(queue)
      for (const claim of queue.claims(most)) {
        claims.push({ queue, claim })
        left -= claim.limit * each
        messages -= claim.limit
      }
      this.#noteTenant(queue)
    }
    return claims.length > 0 ? claims : undefined
  }

  /** Divides the room among the destinations that send or wait. */
  #shareRoom(): void {
    let active = this.#busy.size
    for (const queue of this.#toClaim) if (!this.#busy.has(queue)) active++
    this.#room.shareAmong(active)
  }

  /** The room that a message takes at its start. */
  #roomOf(queue: DestinationQueue, { body }: Delivery): number {
    return queue.width * this.#room.weightOf(body)
  }

  /** Asks the store for the lanes with something due, and for deliveries that were deleted without a word to this process. */
  async #poll(): Promise<void> {
    this.#pollAt = this.#parts.now() + POLL_MS
    const queues = this.#queues
    const [due] = await Promise.all([
      this.#ask(() => this.#parts.store.due()),
      this.#recallGone().catch(() => undefined), // The store does not answer: the other question tells of it.
    ])
    if (!due) return
    const lanes = lanesOf(due)
    for (const [name, queue] of queues) {
      queue.noteLanes(lanes.get(name) ?? NO_LANES)
      if (queue.hasWaiting) this.#note(queue)
    }
  }

  /** Recalls what was deleted of the deliveries that have been under way for a while, as those that wait at a busy endpoint. */
  async #recallGone(): Promise<void> {
    const { shared } = this.#parts.store
    if (!shared) return
    const latest = this.#parts.now() - TICK_MS
    const ids: DeliveryId[] = []
    for (const [id, at] of this.#sentAt) {
      if (at > latest) break
      ids.push(id)
    }
    for (const { waitingIds } of this.#behind) ids.push(...waitingIds)
    if (ids.length === 0) return
    const gone = await shared.gone(ids)
    if (gone.length > 0) this.recall(new Set(gone))
  }

  /** Asks the store. The answer is `undefined` if it fails. */
  async #ask<T>(question: () => Promise<T>): Promise<T | undefined> {
    this.#askedAt = this.#parts.now()
    try {
      const answer = await question()
      this.#hasClaimFailed = false
      return answer
    } catch (error) {
      if (!this.#hasClaimFailed) this.#parts.events.claimFailed(error)
      this.#hasClaimFailed = true
      return undefined
    } finally {
      this.#askedAt = undefined
    }
  }

  async #claimFor(claims: QueueClaim[]): Promise<void> {
    const deliveries =
      (await this.#ask(() => this.#parts.store.claim(claims.map(({ claim }) => claim)))) ?? []
    const byLane = grouped(deliveries, laneOf)
    const ahead: { queue: DestinationQueue; claimed: Delivery[] }[] = []
    for (const { queue, claim } of claims) {
      const claimed = byLane.get(laneOf(claim)) ?? []
      const largest = claimed.reduce(
        (most, one) => Math.max(most, this.#room.weightOf(one.body)),
        0,
      )
      if (largest > 0) queue.weight = Math.max(largest, Math.floor((queue.weight ?? 0) / 2))
      const { hasMore, withoutRoom } = queue.claimed(claim, claimed.length)
      this.#dropIfIdle(queue)
      if (hasMore) this.#note(queue)
      this.#noteTenant(queue)
      if (withoutRoom > 0)
        ahead.push({ queue, claimed: claimed.splice(claimed.length - withoutRoom) })
    }
    for (const claimed of byLane.values()) for (const delivery of claimed) this.#send(delivery)
    for (const { queue, claimed } of ahead)
      for (const delivery of claimed) this.#hold(delivery, queue)
  }

  /** A leased message waits in memory until there is room for it. */
  #hold(delivery: Delivery, queue: DestinationQueue): void {
    if (this.#isStopped || !this.#isUsed(queue)) {
      this.#giveBack(delivery, 'fresh')
      return
    }
    queue.hold(delivery)
    this.#room.expect(this.#roomOf(queue, delivery))
    this.#behind.add(queue)
    this.#sendAhead(queue)
  }

  /** Sends the messages that wait in memory, as far as there is room. */
  #sendAhead(queue: DestinationQueue): void {
    for (let next = queue.next(); next; next = queue.next()) {
      this.#room.expect(-this.#roomOf(queue, next))
      this.#send(next)
    }
  }

  /** Gives messages back to the store that must not wait in memory any longer. */
  #giveUp(queue: DestinationQueue, isAll?: boolean): void {
    const lane = queue.isDown ? 'backlog' : 'fresh'
    for (const delivery of queue.giveUp(isAll)) {
      this.#room.expect(-this.#roomOf(queue, delivery))
      this.#giveBack(delivery, lane)
    }
    this.#dropIfIdle(queue)
  }

  /** A leased delivery is not sent. It goes back to the place in its lane that it had before. */
  #giveBack(delivery: Delivery, lane: Lane): void {
    this.#parts.settler.add(unsent(delivery, lane))
    this.#queues.get(delivery.destination)?.notePut(lane)
  }

  /** Sends a delivery at once if few were sent in this turn of the event loop, or else in one of the next turns. */
  #send(delivery: Delivery): void {
    const { lane } = delivery
    const queue = this.#queues.get(delivery.destination)
    if (!queue || this.#turns.hasRoom) {
      this.#start(delivery)
      return
    }
    queue.holdRoom(lane)
    this.#room.expect(this.#roomOf(queue, delivery))
    this.#turns.hold(delivery, queue)
  }

  /** Sends a delivery by the present settings, which may be newer than those by which it was claimed. */
  #start(delivery: Delivery): void {
    this.#turns.noteSent()
    const { id } = delivery
    if (this.#recalled.has(id)) return
    if (this.#isStopped) {
      this.#giveBack(delivery, delivery.lane)
      return
    }
    const { settler, events, now, random } = this.#parts
    const queue = this.#queues.get(delivery.destination)
    if (!queue) {
      this.#giveBack(delivery, retryLane(delivery))
      return
    }
    const current = () => this.#queues.get(delivery.destination) ?? queue
    const startedAt = now()
    this.#underWay++
    this.#sentAt.set(id, startedAt)
    const weight = this.#room.weightOf(delivery.body)
    this.#room.take(queue.width * weight)
    queue.start(delivery.lane, weight)
    this.#busy.add(queue)
    let answers = 0
    const ended = (outcomes: EndpointOutcome[]) => {
      this.#sentAt.delete(id)
      const elapsedMs = now() - startedAt
      const present = current()
      const isOutdated = present !== queue
      const settlement = decide(delivery, elapsedMs, present.urls, outcomes, random, isOutdated)
      const { next } = settlement
      settler.add(settlement)
      if (isAnySent(outcomes) || next.state === 'dead') events.attempted(delivery, outcomes, next)
      if ('delayMs' in next) queue.noteDue(next.state, next.delayMs)
      queue.end(delivery.lane, weight, answers)
      this.#dropIfIdle(queue)
      this.#underWay--
      this.#release(queue, (queue.width - answers) * weight)
      this.#tellIfIdle()
      this.#tellEnded()
    }
    // An endpoint that has answered has room for the next message, although a slower one still has this one.
    const answered = () => {
      answers++
      queue.answer(weight)
      this.#release(queue, weight)
    }
    const isRecalled = () => this.#recalled.has(id)
    const receivers = queue.receivers(delivery)
    const most = Math.min(this.#room.waitingAt(queue), queue.tenant?.waitingAt(queue) ?? Infinity)
    const takesAtOnce = (one: EndpointQueue) => one.isAvailable && one.room() > 0
    const mostWaiting = most < Infinity && receivers.some(takesAtOnce) ? most : Infinity
    const signingNow = () => current().signing
    send(delivery, { receivers, mostWaiting, signingNow, ended, answered, isRecalled })
  }

  /** Requests of a destination have ended: others may start. */
  #release(queue: DestinationQueue, room: number): void {
    this.#room.take(-room)
    this.#sendAhead(queue)
    if (queue.hasWaiting) this.#note(queue)
    this.#noteTenant(queue)
    if (this.#toClaim.size > 0) this.#claim()
  }

  #tellEnded(): void {
    if (this.#ends.length === 0) return
    const [oldest = Infinity] = this.#sentAt.values()
    while ((this.#ends[0]?.at ?? Infinity) < oldest) this.#ends.shift()?.resolve()
  }

  #tellIfIdle(): void {
    if (!this.#isIdle) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

const NO_LANES: ReadonlySet<Lane> = new Set()

function lanesOf(due: readonly DueLane[]): Map<string, Set<Lane>> {
  const lanes = new Map<string, Set<Lane>>()
  for (const { destination, lane } of due) {
    const others = lanes.get(destination)
    if (others) others.add(lane)
    else lanes.set(destination, new Set([lane]))
  }
  return lanes
}

function laneOf({ destination, lane }: { destination: string; lane: Lane }): string {
  return `${lane} ${destination}`
}
