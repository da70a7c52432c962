import type { Claim, Delivery, Lane } from '../../model/delivery.js'
import { StoreError } from '../store-error.js'
import { LEASE_MS, type DueLane } from '../store.js'
import { endOf } from './patience.js'
import type { Server } from './server.js'

/** In ms: deliveries that came late are still given to the caller for this time. Then it has the rest of the lease to send them. */
const KEPT_MS = LEASE_MS / 2

/** Deliveries that a server leased for a call that did not wait for them. */
interface Late {
  deliveries: Delivery[]
  /** When they were asked for, on the clock of the process. */
  askedAt: number
}

/** What is known of a server. */
interface Known {
  /** The lanes in which it may have something due. */
  lanes: Set<string>
  /** Whether a claim is under way that nobody waits for any more. */
  isLate: boolean
  isAskedForDue: boolean
}

/**
 * Claims from all servers. A lane of a destination may have deliveries on each of them, so each gets a part of a claim. A call waits
 * only shortly for a server: what comes later is kept for the next call, and the listener is told of it.
 */
export class Claiming {
  readonly #servers: readonly Server[]
  readonly #mayClaim: (server: Server) => boolean
  readonly #patienceMs: number
  readonly #known: Map<Server, Known>
  readonly #late: Late[] = []
  readonly #underWay = new Set<Promise<unknown>>()
  #listener: ((destination: string, lane: Lane) => void) | undefined
  /** The server that gets the rest of a claim that can't be divided evenly. It changes with each call. */
  #turn = 0

  /** @param mayClaim - Whether more may be claimed from a server. */
  constructor(
    servers: readonly Server[],
    mayClaim: (server: Server) => boolean,
    patienceMs: number,
  ) {
    this.#patienceMs = patienceMs
    this.#servers = servers
    this.#mayClaim = mayClaim
    this.#known = new Map(
      servers.map((server) => [server, { lanes: new Set(), isLate: false, isAskedForDue: false }]),
    )
  }

  listen(listener: (destination: string, lane: Lane) => void): void {
    this.#listener = listener
  }

  /** Something is due in a lane of a server, or will be. */
  note(server: Server, destination: string, lane: Lane): void {
    this.#knownOf(server).lanes.add(keyOf(destination, lane))
  }

  /** As {@link note}, and tells the listener. */
  report(server: Server, destination: string, lane: Lane): void {
    this.note(server, destination, lane)
    this.#listener?.(destination, lane)
  }

  /** The lanes of the servers that answer in time. The listener is told of those of the others when they answer. */
  async due(): Promise<DueLane[]> {
    let isOver = false
    const found: DueLane[] = []
    const errors: unknown[] = []
    const asked = this.#servers
      .filter((server) => !this.#knownOf(server).isAskedForDue)
      .map(async (server) => {
        const known = this.#knownOf(server)
        known.isAskedForDue = true
        try {
          const lanes = await server.ask((store) => store.due())
          known.lanes = new Set(lanes.map(({ destination, lane }) => keyOf(destination, lane)))
          if (isOver) for (const { destination, lane } of lanes) this.#listener?.(destination, lane)
          else found.push(...lanes)
        } catch (error) {
          errors.push(error)
        } finally {
          known.isAskedForDue = false
        }
      })
    await endOf(
      asked.map((one) => this.#track(one)),
      this.#patienceMs,
    )
    isOver = true
    if (errors.length === this.#servers.length) throw errors[0]
    const lanes = new Map(found.map((one) => [keyOf(one.destination, one.lane), one]))
    return [...lanes.values()]
  }

  async claim(claims: readonly Claim[]): Promise<Delivery[]> {
    this.#requireOne()
    const found = this.#takeLate(claims)
    let isOver = false
    const keep = (deliveries: Delivery[], askedAt: number) => {
      if (!isOver) found.push(...deliveries)
      else if (deliveries.length > 0) {
        this.#late.push({ deliveries, askedAt })
        for (const { destination, lane } of deliveries) this.#listener?.(destination, lane)
      }
    }
    const asked = new Set<Server>()
    await endOf(
      [this.#track(this.#claimAll(claims, found, keep, asked, () => isOver))],
      this.#patienceMs,
    )
    isOver = true
    for (const server of asked) this.#knownOf(server).isLate = true
    this.#tellLeft(lessened(claims, found))
    return found
  }

  /**
   * Claims until the claims are full, or no server has more.
   *
   * @param asked - Has the servers that have not answered yet.
   */
  async #claimAll(
    claims: readonly Claim[],
    found: readonly Delivery[],
    keep: (deliveries: Delivery[], askedAt: number) => void,
    asked: Set<Server>,
    isOver: () => boolean,
  ): Promise<void> {
    /** The lanes in which a server has no more. */
    const ended = new Map<Server, Set<string>>(this.#servers.map((server) => [server, new Set()]))
    while (!isOver()) {
      const parts = this.#divide(lessened(claims, found), ended)
      if (parts.size === 0) return
      await Promise.all(
        Array.from(parts, async ([server, own]) => {
          const askedAt = performance.now()
          asked.add(server)
          const deliveries = await this.#claimFrom(server, own)
          asked.delete(server)
          if (isOver()) this.#knownOf(server).isLate = false
          const left = lessened(own, deliveries)
          for (const { destination, lane } of left) {
            ended.get(server)?.add(keyOf(destination, lane))
          }
          keep(deliveries, askedAt)
        }),
      )
    }
  }

  /** Resolves once nothing is under way, with what was leased and nobody has taken. */
  async close(): Promise<Delivery[]> {
    await Promise.allSettled(this.#underWay)
    return this.#late.splice(0).flatMap(({ deliveries }) => deliveries)
  }

  #track<T>(promise: Promise<T>): Promise<T> {
    const end = () => this.#underWay.delete(promise)
    this.#underWay.add(promise)
    promise.then(end, end)
    return promise
  }

  #knownOf(server: Server): Known {
    // There is one for each server.
    return this.#known.get(server) as Known
  }

  /** Whether a claim asks a server. */
  #isUsable(server: Server): boolean {
    return !server.isAway && !this.#knownOf(server).isLate && this.#mayClaim(server)
  }

  #requireOne(): void {
    if (this.#servers.some(({ isAway }) => !isAway)) return
    throw this.#servers[0]?.error ?? new StoreError('failed', 'store: there is no server.')
  }

  async #claimFrom(server: Server, claims: readonly Claim[]): Promise<Delivery[]> {
    const known = this.#knownOf(server)
    // What is put meanwhile may be too late for the claim, and must be noted again.
    for (const { destination, lane } of claims) known.lanes.delete(keyOf(destination, lane))
    try {
      const deliveries = await server.ask((store) => store.claim([...claims]))
      server.noteSuccess('claim')
      const left = new Set(
        lessened(claims, deliveries).map(({ destination, lane }) => keyOf(destination, lane)),
      )
      for (const { destination, lane } of claims) {
        const key = keyOf(destination, lane)
        if (!left.has(key)) known.lanes.add(key)
      }
      return deliveries
    } catch (error) {
      if (error instanceof StoreError && !error.isUnreachable) server.noteFailure('claim', error)
      return []
    }
  }

  /**
   * Gives each server that is known to have something due its part of each claim. If none is known, all others get a part.
   *
   * @param ended - The lanes in which a server has no more.
   */
  #divide(
    claims: readonly Claim[],
    ended: ReadonlyMap<Server, ReadonlySet<string>>,
  ): Map<Server, Claim[]> {
    const parts = new Map<Server, Claim[]>()
    const turn = this.#turn++
    const usable = this.#servers.filter((server) => this.#isUsable(server))
    for (const claim of claims) {
      const key = keyOf(claim.destination, claim.lane)
      const left = usable.filter((server) => !ended.get(server)?.has(key))
      const likely = left.filter((server) => this.#knownOf(server).lanes.has(key))
      const asked = likely.length > 0 ? likely : left
      for (const [i, server] of asked.entries()) {
        const isInTurn = (i + turn) % asked.length < claim.limit % asked.length
        const limit = Math.floor(claim.limit / asked.length) + (isInTurn ? 1 : 0)
        if (limit === 0) continue
        const part = parts.get(server) ?? []
        parts.set(server, part)
        part.push({ ...claim, limit })
      }
    }
    return parts
  }

  /** The deliveries that came late, as far as the claims ask for them. */
  #takeLate(claims: readonly Claim[]): Delivery[] {
    if (this.#late.length === 0) return []
    const taken: Delivery[] = []
    const room = new Map(
      claims.map(({ destination, lane, limit }) => [keyOf(destination, lane), limit]),
    )
    for (const late of this.#late.splice(0)) {
      if (performance.now() - late.askedAt > KEPT_MS) continue
      const kept = late.deliveries.filter((delivery) => {
        const key = keyOf(delivery.destination, delivery.lane)
        const left = room.get(key) ?? 0
        if (left === 0) return true
        room.set(key, left - 1)
        taken.push(delivery)
        return false
      })
      if (kept.length > 0) this.#late.push({ ...late, deliveries: kept })
    }
    return taken
  }

  /**
   * Tells the listener of lanes in which there may be more, although a claim did not get all that it asked for. It is not told of a
   * server that claims do not ask now: it would claim again at once, get nothing, and go on like that without a pause.
   */
  #tellLeft(left: readonly Claim[]): void {
    for (const { destination, lane } of left) {
      const key = keyOf(destination, lane)
      const isLeft = this.#servers.some(
        (server) => this.#isUsable(server) && this.#knownOf(server).lanes.has(key),
      )
      if (isLeft) this.#listener?.(destination, lane)
    }
  }
}

/** The claims that got less than they asked for, with limits that are lower by what they got. */
function lessened(claims: readonly Claim[], found: readonly Delivery[]): Claim[] {
  const counts = new Map<string, number>()
  for (const { destination, lane } of found) {
    const key = keyOf(destination, lane)
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return claims.flatMap((claim) => {
    const key = keyOf(claim.destination, claim.lane)
    const count = counts.get(key) ?? 0
    counts.set(key, Math.max(0, count - claim.limit))
    return count < claim.limit ? [{ ...claim, limit: claim.limit - count }] : []
  })
}

function keyOf(destination: string, lane: Lane): string {
  return `${lane} ${destination}`
}
