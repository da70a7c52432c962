import { isDeepStrictEqual } from 'node:util'
import { createNetwork } from '../post/network.js'
import { createPoster } from '../post/poster.js'
import type { Endpoint, Settings } from '../settings/settings.js'
import type { DispatchPort } from '../store/store.js'
import type { DestinationQueue } from './destination-queue.js'
import { destinationQueues } from './destination-queues.js'
import { Dispatcher, type DispatcherParts, type DispatchEvents } from './dispatcher.js'
import { Settler, type SettleEvents } from './settler.js'
import { SharedBreakers, type WorkersEvents } from './shared-breakers.js'

/** Everything that happens while deliveries are sent. */
export type DeliverEvents = DispatchEvents & SettleEvents & WorkersEvents

/** The settings that say where and how deliveries are sent. */
type DeliverSettings = Pick<Settings, 'destinations' | 'allowNetworks' | 'ca'>

/** What a deliverer needs. */
export interface DelivererParts {
  store: DispatchPort
  events: DeliverEvents
  /** `false` in a process that only collects: it claims nothing, and leaves everything to the workers. */
  isDelivering: boolean
  /** A monotonic clock, in ms. */
  now: () => number
  /** As in {@link DispatcherParts}. */
  maxUnderWay?: DispatcherParts['maxUnderWay']
}

/** Delivers from a store, by the settings that were passed to {@link use} last. */
export class Deliverer {
  readonly dispatcher: Dispatcher
  readonly settler: Settler
  #queues: DestinationQueue[] = []
  #settings: DeliverSettings | undefined

  private constructor(
    readonly parts: DelivererParts,
    readonly sharedBreakers: SharedBreakers | undefined,
  ) {
    const { store, events, now, maxUnderWay } = parts
    this.settler = new Settler(store, events, now)
    this.dispatcher = new Dispatcher({
      store,
      settler: this.settler,
      events,
      now,
      random: Math.random,
      maxUnderWay,
    })
  }

  /**
   * Joins the other workers of the store, if the store can have several. Nothing is sent before {@link use}.
   *
   * @throws StoreError
   */
  static async join(parts: DelivererParts): Promise<Deliverer> {
    const { store, events, isDelivering, now } = parts
    const { workers } = store
    const sharedBreakers =
      isDelivering && workers ? await SharedBreakers.join({ workers, events, now }) : undefined
    return new Deliverer(parts, sharedBreakers)
  }

  /** The queues of the destinations that are enabled; empty in a process that only collects. */
  get queues(): readonly DestinationQueue[] {
    return this.#queues
  }

  /**
   * Delivers by these settings from now on.
   *
   * @returns Resolves once the connections that are no longer used are closed.
   * @throws TypeError if the networks or the certificates are invalid. Nothing changes then.
   */
  use(settings: DeliverSettings): Promise<void> {
    const { isDelivering, now } = this.parts
    const network = createNetwork(settings)
    const connect = (endpoint: Endpoint) => createPoster(endpoint, network)
    const isSameNetwork = isDeepStrictEqual(networkOf(settings), networkOf(this.#settings))
    const destinations = isDelivering ? settings.destinations.filter(({ enabled }) => enabled) : []
    const before = this.#queues
    this.#settings = settings
    this.#queues = destinationQueues(destinations, before, isSameNetwork, { connect, now })
    this.sharedBreakers?.use(this.#queues)
    this.dispatcher.use(this.#queues)
    return closeUnused(before, this.#queues)
  }

  /** Claims the deliveries that other processes put as soon as the store reports them, instead of at the next poll. */
  listen(): void {
    if (!this.parts.isDelivering) return
    this.parts.store.onPut?.((destination, lane) => {
      this.dispatcher.wake(destination, lane)
    })
  }

  /** Starts no more attempts. */
  stop(): void {
    this.dispatcher.stop()
  }

  /** Resolves once all attempts under way have ended and are settled, and all connections are closed. */
  async close(): Promise<void> {
    await this.dispatcher.close()
    await this.sharedBreakers?.close()
    await closeUnused(this.#queues, [])
  }
}

function networkOf(settings: DeliverSettings | undefined) {
  return [settings?.allowNetworks, settings?.ca]
}

/** Closes the connections of endpoints that are no longer used, once their requests under way have ended. */
async function closeUnused(
  before: readonly DestinationQueue[],
  after: readonly DestinationQueue[],
): Promise<void> {
  const postersOf = (queues: readonly DestinationQueue[]) =>
    new Set(queues.flatMap(({ endpoints }) => endpoints.map(({ poster }) => poster)))
  const used = postersOf(after)
  const unused = Array.from(postersOf(before)).filter((poster) => !used.has(poster))
  await Promise.all(unused.map((poster) => poster.close()))
}
