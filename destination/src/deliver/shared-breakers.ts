import { HEARTBEAT_MS, WORKER_TIMEOUT_MS, type Workers } from '../store/workers.js'
import { MAX_PROBE_MS, PROBE_MS } from './breaker.js'
import type { DestinationQueue } from './destination-queue.js'
import type { EndpointQueue } from './endpoint-queue.js'

/** How often the breakers are checked, in ms. */
const TICK_MS = 250

/** How long to wait before asking for the permission to probe again, in ms, if another worker probes the endpoint. */
const ASK_AGAIN_MS = 1_000

/** What happens between the workers. */
export interface WorkersEvents {
  /** The other workers could not be reached through the store. Reported once for several failures in a row. */
  workersFailed(error: unknown): void
}

/** What shared breakers need. */
export interface SharedBreakersParts {
  workers: Workers
  events: WorkersEvents
  /** A monotonic clock, in ms. */
  now: () => number
}

/** For so many endpoints at a time the store is asked. A heartbeat that is due does not wait for the others. */
const SLICE = 500

interface SharedBreaker {
  /** The name for which the workers share it. */
  readonly name: string
  endpoint: EndpointQueue
  /** Whether its breaker was open at the last check. */
  wasOpen: boolean
  /** When the permission to probe may be asked for again. */
  askAt: number
  /** The breaker's `askedUntil` that the other workers know. */
  toldUntil: number
}

/**
 * Shares the breakers of this process with the other workers of the store. Each worker has a part of an endpoint's cap,
 * and one worker at a time probes an endpoint that is down, at the pace of a single worker.
 *
 * A worker that joins begins with the breakers that the others have opened: else each endpoint that is down would get a burst from
 * it. The same holds for endpoints that its settings get later, and for a worker that the others took for gone.
 *
 * It uses the last answer of the store. While the store can't be reached, no probe is sent. Nothing else changes.
 */
export class SharedBreakers {
  readonly #parts: SharedBreakersParts
  #shared = new Map<string, SharedBreaker>()
  #workerCount: number
  #heartbeatAt: number
  /** When the other workers heard of this one last. */
  #heardAt: number
  /** The endpoints that are down, as they were at the last heartbeat, and when each may be probed. */
  #down: ReadonlyMap<string, number>
  #hasFailed = false
  #working: Promise<void> | undefined
  readonly #timer: NodeJS.Timeout

  private constructor(
    parts: SharedBreakersParts,
    workerCount: number,
    down: ReadonlyMap<string, number>,
  ) {
    this.#parts = parts
    this.#workerCount = workerCount
    this.#down = down
    this.#heardAt = parts.now()
    this.#heartbeatAt = this.#heardAt + HEARTBEAT_MS
    this.#timer = setInterval(() => {
      void this.tick()
    }, TICK_MS)
  }

  /**
   * Makes this process one of the workers. The process must not send anything before, because the workers divide the
   * caps by their number.
   *
   * @throws StoreError
   */
  static async join(parts: SharedBreakersParts): Promise<SharedBreakers> {
    const workerCount = await parts.workers.heartbeat()
    return new SharedBreakers(parts, workerCount, await findDown(parts))
  }

  /** Replaces the breakers that are shared. */
  use(queues: readonly DestinationQueue[]): void {
    const before = this.#shared
    this.#shared = new Map()
    for (const { destination, endpoints } of queues) {
      for (const endpoint of endpoints) {
        // Two destinations may have the same URL. Each destination has a separate breaker for it.
        const name = `${destination.name} ${endpoint.endpoint.url}`
        const known = before.get(name)
        const { breaker } = endpoint
        const isSame = known?.endpoint.breaker === breaker
        endpoint.shareAmong(this.#workerCount)
        // A breaker from before a pause may be open, which the others knew then. Meanwhile they may have found the endpoint healthy.
        const told = { wasOpen: breaker.isOpen, toldUntil: breaker.askedUntil }
        const shared = isSame ? known : { name, endpoint, askAt: 0, ...told }
        shared.endpoint = endpoint
        this.#shared.set(name, shared)
        if (!isSame) this.#learn(name)
      }
    }
  }

  /** Sends the heartbeat and asks for permissions, if they are due. A timer calls it too. */
  tick(): Promise<void> {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined
    })
    return this.#working
  }

  /** Stops the timer. Resolves once the requests to the store under way have ended. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#working
  }

  async #work(): Promise<void> {
    try {
      await this.#sendHeartbeat()
      await this.#inSlices(isUp, (slice) => this.#tellUp(slice))
      await this.#inSlices(isNewlyDown, (slice) => this.#tellDown(slice))
      await this.#inSlices(
        (shared) => this.#wantsProbe(shared),
        (slice) => this.#askToProbe(slice),
      )
      this.#hasFailed = false
    } catch (error) {
      if (!this.#hasFailed) this.#parts.events.workersFailed(error)
      this.#hasFailed = true
    }
  }

  async #sendHeartbeat(): Promise<void> {
    const { workers, now } = this.#parts
    if (now() < this.#heartbeatAt) return
    this.#heartbeatAt = now() + HEARTBEAT_MS
    const count = await workers.heartbeat()
    if (count !== this.#workerCount) {
      this.#workerCount = count
      for (const { endpoint } of this.#shared.values()) endpoint.shareAmong(count)
    }
    this.#down = await findDown(this.#parts)
    const wasGone = now() - this.#heardAt >= WORKER_TIMEOUT_MS
    this.#heardAt = now()
    for (const [name, shared] of this.#shared) {
      const { breaker } = shared.endpoint
      if (!this.#down.has(name)) {
        if (breaker.isHearsay || !breaker.isOpen) this.#learnUp(shared)
      } else if (wasGone && !shared.wasOpen) {
        // A breaker that was open at the last check is told to the others by #work, and learns nothing from them.
        this.#learn(name)
      }
    }
  }

  /** The others have found an endpoint healthy. */
  #learnUp(shared: SharedBreaker): void {
    const { breaker } = shared.endpoint
    const { isOpen } = breaker
    breaker.expectUp()
    // It is not open any more, which is no news for the others.
    if (isOpen) shared.wasOpen = breaker.isOpen
  }

  /** Takes over what the other workers know of an endpoint that this one does not know, or has not heard of for a while. */
  #learn(name: string): void {
    const shared = this.#shared.get(name)
    const probeAt = this.#down.get(name)
    if (!shared || probeAt === undefined || shared.endpoint.breaker.isOpen) return
    const now = this.#parts.now()
    shared.endpoint.breaker.expectDown(Math.max(0, probeAt - now), now)
    shared.wasOpen = shared.endpoint.breaker.isOpen
  }

  /** Carries out work for all breakers that need it, for some of them at a time. */
  async #inSlices(
    needsIt: (shared: SharedBreaker) => boolean,
    work: (slice: readonly SharedBreaker[]) => Promise<void>,
  ): Promise<void> {
    const all: SharedBreaker[] = []
    for (const shared of this.#shared.values()) if (needsIt(shared)) all.push(shared)
    for (let from = 0; from < all.length; from += SLICE) {
      await this.#sendHeartbeat()
      await work(all.slice(from, from + SLICE))
    }
  }

  async #tellUp(slice: readonly SharedBreaker[]): Promise<void> {
    await this.#parts.workers.endProbes(slice.map(({ name }) => name))
    for (const shared of slice) shared.wasOpen = false
  }

  async #tellDown(slice: readonly SharedBreaker[]): Promise<void> {
    const { workers, now } = this.#parts
    const toDown = ({ name, endpoint: { breaker } }: SharedBreaker) => ({
      endpoint: name,
      forMs: breaker.probeInMs(now()),
    })
    const askedUntil = slice.map(({ endpoint }) => endpoint.breaker.askedUntil)
    await workers.noteDown(slice.map(toDown), PROBE_MS, MAX_PROBE_MS)
    for (const [i, shared] of slice.entries()) {
      shared.wasOpen = true
      shared.toldUntil = askedUntil[i] ?? shared.toldUntil
    }
  }

  #wantsProbe(shared: SharedBreaker): boolean {
    const { breaker } = shared.endpoint
    const now = this.#parts.now()
    if (now < shared.askAt || !breaker.needsPermission(now)) return false
    if (!breaker.hasUnusedPermission || this.#workerCount === 1) return true
    // This worker had nothing to probe with. Another one may have, and must not always come too late.
    breaker.permitProbe(-Infinity)
    shared.askAt = now + 2 * ASK_AGAIN_MS
    return false
  }

  async #askToProbe(slice: readonly SharedBreaker[]): Promise<void> {
    const { workers, now } = this.#parts
    const askedAt = now()
    const names = slice.map(({ name }) => name)
    const holds = await workers.tryProbes(names, PROBE_MS, MAX_PROBE_MS)
    for (const [i, shared] of slice.entries()) {
      const holdMs = holds[i]
      if (holdMs === undefined) this.#learnUp(shared)
      else if (holdMs > 0) shared.endpoint.breaker.permitProbe(askedAt + holdMs)
      else shared.askAt = now() + ASK_AGAIN_MS
    }
  }
}

/** Whether it is not open any more, which the other workers do not know yet. */
const isUp = ({ wasOpen, endpoint }: SharedBreaker): boolean => wasOpen && !endpoint.breaker.isOpen

/** Whether it is open, or has another `Retry-After`, which the other workers do not know yet. */
const isNewlyDown = ({ wasOpen, toldUntil, endpoint: { breaker } }: SharedBreaker): boolean =>
  breaker.isOpen && (!wasOpen || breaker.askedUntil > toldUntil)

/** The endpoints that other workers have found down, and when each may be probed. */
async function findDown({
  workers,
  now,
}: SharedBreakersParts): Promise<ReadonlyMap<string, number>> {
  const askedAt = now()
  const down = await workers.findDown(MAX_PROBE_MS)
  return new Map(down.map(({ endpoint, forMs }) => [endpoint, askedAt + forMs]))
}
