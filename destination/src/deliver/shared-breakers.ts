import { HEARTBEAT_MS, type Workers } from '../store/store.js'
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

interface SharedBreaker {
  endpoint: EndpointQueue
  /** Whether its breaker was open at the last check. */
  wasOpen: boolean
  /** When the permission to probe may be asked for again. */
  askAt: number
}

/**
 * Shares the breakers of this process with the other workers of the store. Each worker has a part of an endpoint's cap,
 * and one worker at a time probes an endpoint that is down, at the pace of a single worker.
 *
 * It uses the last answer of the store. While the store can't be reached, no probe is sent. Nothing else changes.
 */
export class SharedBreakers {
  #shared = new Map<string, SharedBreaker>()
  #workerCount: number
  #heartbeatAt: number
  #hasFailed = false
  #working: Promise<void> | undefined
  readonly #timer: NodeJS.Timeout

  private constructor(
    readonly parts: SharedBreakersParts,
    workerCount: number,
  ) {
    this.#workerCount = workerCount
    this.#heartbeatAt = parts.now() + HEARTBEAT_MS
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
    return new SharedBreakers(parts, await parts.workers.heartbeat())
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
        const isSame = known?.endpoint.breaker === endpoint.breaker
        endpoint.shareAmong(this.#workerCount)
        this.#shared.set(name, { wasOpen: false, askAt: 0, ...(isSame && known), endpoint })
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
      for (const [name, shared] of this.#shared) await this.#share(name, shared)
      this.#hasFailed = false
    } catch (error) {
      if (!this.#hasFailed) this.parts.events.workersFailed(error)
      this.#hasFailed = true
    }
  }

  async #sendHeartbeat(): Promise<void> {
    const { workers, now } = this.parts
    if (now() < this.#heartbeatAt) return
    this.#heartbeatAt = now() + HEARTBEAT_MS
    const count = await workers.heartbeat()
    if (count === this.#workerCount) return
    this.#workerCount = count
    for (const { endpoint } of this.#shared.values()) endpoint.shareAmong(count)
  }

  async #share(name: string, shared: SharedBreaker): Promise<void> {
    const { workers, now } = this.parts
    const { wasOpen } = shared
    const { breaker } = shared.endpoint
    if (wasOpen && !breaker.isOpen) await workers.endProbes(name)
    shared.wasOpen = breaker.isOpen
    if (now() < shared.askAt || !breaker.needsPermission(now())) return
    if (breaker.hasUnusedPermission && this.#workerCount > 1) {
      // This worker had nothing to probe with. Another one may have, and must not always come too late.
      breaker.permitProbe(-Infinity)
      shared.askAt = now() + 2 * ASK_AGAIN_MS
      return
    }
    const askedAt = now()
    const holdMs = await workers.tryProbe(name, PROBE_MS, MAX_PROBE_MS)
    if (holdMs > 0) breaker.permitProbe(askedAt + holdMs)
    else shared.askAt = now() + ASK_AGAIN_MS
  }
}
