import { attempt } from './send.js'
import { decide, type EndpointOutcome } from './decide.js'
import type { Settler } from './settler.js'
import type { Claim, Delivery, Lane } from '../model/delivery.js'
import type { Store } from '../store/store.js'
import type { Target } from './destination-queue.js'

/** How often the store is asked for what has become due, and queues are swept, in ms. */
const TICK_MS = 250

/** What the dispatcher tells of. */
export interface DispatchReport {
  /** An attempt has ended, with one outcome for each endpoint, and this is next for the delivery. */
  attempted(delivery: Delivery, outcomes: EndpointOutcome[], next: Next): void
  /** The store could not be claimed from; it is asked again. Told once for failures in a row. */
  claimFailed(error: unknown): void
}

/** Where a new message starts, and the destination's settings at that time. */
export interface Placement {
  state: Lane | 'leased'
  target: Target | undefined
}

type Next = ReturnType<typeof decide>['next']

/** What the dispatcher works with. */
export interface DispatcherParts {
  store: Pick<Store, 'claim'>
  settler: Settler
  report: DispatchReport
  /** A monotonic clock, in ms. */
  now: () => number
  random: () => number
}

/**
 * Sees to it that what is due is attempted, as far as there is room at the endpoints.
 *
 * A message for a destination that is well is handed over by whoever put it ({@link place}, then {@link take}): the
 * store has it leased already, and need not be asked. All else is claimed.
 */
export class Dispatcher {
  #targets = new Map<string, Target>()
  #underWay = 0
  #isStopped = false
  #isClaiming = false
  #claiming = Promise.resolve()
  #isToClaim = false
  #hasClaimFailed = false
  /** When the last tick was. */
  #tickedAt: number
  /** When the store was asked, if it has not answered yet. */
  #askedAt: number | undefined
  #timer: NodeJS.Timeout
  #idle: (() => void)[] = []

  constructor(readonly parts: DispatcherParts) {
    this.#tickedAt = parts.now()
    this.#timer = setInterval(() => {
      this.#tick()
    }, TICK_MS)
  }

  /** Replaces the destinations. What is under way to those before ends as it would have. */
  aim(targets: Iterable<Target>): void {
    this.#targets = new Map(Array.from(targets, (target) => [target.destination.name, target]))
    this.#claim()
  }

  /** Another process has put something in a lane just now. */
  heard(destination: string, lane: Lane): void {
    const target = this.#targets.get(destination)
    if (!target) return
    target.expect(lane, 0)
    this.#claim()
  }

  /** Where a new message for a destination starts. */
  place(destination: string): Placement {
    const target = this.#targets.get(destination)
    if (!target || this.#isStopped || this.parts.settler.isFailing)
      return { state: 'fresh', target }
    return { state: target.place(), target }
  }

  /** A message is where it was placed: it is attempted, if it was leased, or else claimed when there is room. */
  placed({ state, target }: Placement, delivery: Delivery): void {
    if (state === 'leased') {
      target?.arrive()
      if (target) this.#attempt(delivery, target)
    } else {
      target?.expect(state, 0)
      this.#claim()
    }
  }

  /** A message that was placed could not be put, or was known already. */
  notPlaced({ state, target }: Placement): void {
    if (state === 'leased') target?.arrive()
  }

  /** The store has got something more for the backlog of a destination. */
  expect(destination: string): void {
    this.#targets.get(destination)?.expect('backlog', 0)
    this.#claim()
  }

  /** Deliveries under way. */
  get underWay(): number {
    return this.#underWay
  }

  /** For how long it has not moved, in ms: it waits for its timer, or for the store. */
  stalledMs(): number {
    return this.parts.now() - Math.min(this.#tickedAt, this.#askedAt ?? Infinity)
  }

  /** Whether the store did not let it claim, the last time. */
  get hasClaimFailed(): boolean {
    return this.#hasClaimFailed
  }

  /** Claims nothing more, and leases nothing more to who puts it. What waits for its turn at an endpoint goes without. */
  stop(): void {
    this.#isStopped = true
    for (const { lines } of this.#targets.values()) for (const line of lines) line.sweep(0)
  }

  /** Resolves once what is under way has ended and is settled, if nothing is put any more. */
  async close(): Promise<void> {
    this.stop()
    await this.#claiming
    if (this.#underWay > 0) await new Promise<void>((resolve) => this.#idle.push(resolve))
    clearInterval(this.#timer)
    await this.parts.settler.drain()
  }

  #tick(): void {
    this.#tickedAt = this.parts.now()
    for (const { lines } of this.#targets.values()) for (const line of lines) line.sweep()
    this.#claim()
  }

  #claim(): void {
    this.#isToClaim = true
    if (!this.#isClaiming) this.#claiming = this.#runClaims()
  }

  async #runClaims(): Promise<void> {
    this.#isClaiming = true
    while (this.#isToClaim && !this.#isStopped && !this.parts.settler.isFailing) {
      this.#isToClaim = false
      const wants = Array.from(this.#targets.values(), (target) =>
        target.claims().map((claim) => ({ target, claim })),
      ).flat()
      if (wants.length > 0) await this.#claimFor(wants)
    }
    this.#isClaiming = false
  }

  async #claimFor(wants: { target: Target; claim: Claim }[]): Promise<void> {
    let deliveries: Delivery[] = []
    this.#askedAt = this.parts.now()
    try {
      deliveries = await this.parts.store.claim(wants.map(({ claim }) => claim))
      this.#hasClaimFailed = false
    } catch (error) {
      if (!this.#hasClaimFailed) this.parts.report.claimFailed(error)
      this.#hasClaimFailed = true
    } finally {
      this.#askedAt = undefined
    }
    const byLane = new Map<string, Delivery[]>(wants.map(({ claim }) => [laneOf(claim), []]))
    for (const delivery of deliveries) byLane.get(laneOf(delivery))?.push(delivery)
    for (const { target, claim } of wants) {
      const own = byLane.get(laneOf(claim)) ?? []
      target.claimed(claim, own.length)
      if (own.length === claim.limit) this.#isToClaim = true
      for (const delivery of own) this.#attempt(delivery, target)
    }
  }

  #attempt(delivery: Delivery, target: Target): void {
    const { signing, lines, urls } = target
    const startedAt = this.parts.now()
    this.#underWay++
    target.start(delivery.lane)
    attempt(delivery, signing, lines, (outcomes) => {
      const elapsedMs = this.parts.now() - startedAt
      const settlement = decide(delivery, elapsedMs, urls, outcomes, this.parts.random)
      const { next } = settlement
      this.parts.settler.add(settlement)
      this.parts.report.attempted(delivery, outcomes, next)
      if (next.state === 'backlog') target.expect('backlog', next.delayMs)
      target.end(delivery.lane)
      this.#end(target)
    })
  }

  #end(target: Target): void {
    this.#underWay--
    if (target.hasWaiting) this.#claim()
    if (this.#underWay > 0) return
    for (const resolve of this.#idle.splice(0)) resolve()
  }
}

function laneOf({ destination, lane }: { destination: string; lane: Lane }): string {
  return `${lane} ${destination}`
}
