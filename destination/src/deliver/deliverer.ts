import { isDeepStrictEqual } from 'node:util'
import { inSlices } from '../model/slices.js'
import { createNetwork, type Network } from '../post/network.js'
import { createPoster } from '../post/poster.js'
import { MAX_RETRY_AFTER_MS } from '../post/retry-after.js'
import type { Endpoint, Settings } from '../settings/settings.js'
import type { DispatchPort, SharedPort } from '../store/store.js'
import type { DestinationQueue, Room } from './destination-queue.js'
import {
  destinationQueues,
  unusedEndpoints,
  type FormerEndpoint,
  type QueueParts,
} from './destination-queues.js'
import { Dispatcher, type DispatcherParts, type DispatchEvents } from './dispatcher.js'
import type { EndpointQueue } from './endpoint-queue.js'
import { Settler, type SettleEvents } from './settler.js'
import { SharedBreakers, type WorkersEvents } from './shared-breakers.js'
import { TenantRoom } from './tenant-room.js'

/** Everything that happens while deliveries are sent. */
export type DeliverEvents = DispatchEvents & SettleEvents & WorkersEvents

/** The settings that say where and how deliveries are sent. */
type DeliverSettings = Pick<Settings, 'destinations' | 'tenants' | 'allowNetworks' | 'ca'>

/** What a deliverer needs. */
export interface DelivererParts {
  store: DispatchPort & SharedPort<'workers' | 'onPut' | 'gone'>
  events: DeliverEvents
  /** `false` in a process that only collects: it claims nothing, and leaves everything to the workers. */
  isDelivering: boolean
  /** A monotonic clock, in ms. */
  now: () => number
  /** As in {@link QueueParts}. */
  wall?: QueueParts['wall']
  /** As in {@link DispatcherParts}. */
  maxUnderWay?: DispatcherParts['maxUnderWay']
}

/** Delivers from a store, by the settings that were prepared and used last. */
export class Deliverer {
  readonly dispatcher: Dispatcher
  readonly settler: Settler
  readonly #parts: DelivererParts
  readonly #sharedBreakers: SharedBreakers | undefined
  #queues: DestinationQueue[] = []
  /** By the name of the tenant. A room is kept as long as the tenant, so that it knows the requests to former queues. */
  readonly #rooms = new Map<string, Room>()
  /** What is known of endpoints that were used until a while ago, by destination and URL. */
  readonly #former = new Map<string, FormerEndpoint & { until: number }>()
  #settings: DeliverSettings | undefined
  #network: Network | undefined
  #isStopped = false

  private constructor(parts: DelivererParts, sharedBreakers: SharedBreakers | undefined) {
    this.#parts = parts
    this.#sharedBreakers = sharedBreakers
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
   * Joins the other workers of the store, if the store can have several. Nothing is sent before settings are used.
   *
   * @throws StoreError
   */
  static async join(parts: DelivererParts): Promise<Deliverer> {
    const { store, events, isDelivering, now } = parts
    const workers = store.shared?.workers
    const sharedBreakers =
      isDelivering && workers ? await SharedBreakers.join({ workers, events, now }) : undefined
    return new Deliverer(parts, sharedBreakers)
  }

  /** The queues of the destinations that are enabled; empty in a process that only collects. */
  get queues(): readonly DestinationQueue[] {
    return this.#queues
  }

  /**
   * Prepares the use of other settings, while deliveries go on by the present ones. Only one change may be prepared at a
   * time.
   *
   * @returns Call it to use the settings; after {@link stop} it does nothing. It resolves once the requests to endpoints
   * that are no longer used have ended, and every attempt that was under way was told: one message may be sent to
   * such an endpoint and to others, which answer later.
   * @throws TypeError if the networks or the certificates are invalid. Nothing changes then.
   */
  async prepare(settings: DeliverSettings): Promise<() => Promise<void>> {
    const { isDelivering, maxUnderWay, now, wall } = this.#parts
    const before = { queues: this.#queues, network: this.#network }
    const isSameNetwork = isDeepStrictEqual(
      networkOf(settings),
      this.#settings && networkOf(this.#settings),
    )
    const network =
      isSameNetwork && before.network
        ? before.network
        : createNetwork({ ...networkOf(settings), maxConnections: maxUnderWay })
    const connect = (endpoint: Endpoint) => createPoster(endpoint, network)
    const destinations = isDelivering ? settings.destinations.filter(({ enabled }) => enabled) : []
    const queues = await inSlices(
      destinationQueues(destinations, before.queues, isSameNetwork, {
        connect,
        formerOf: (destination, url) => this.#formerOf(destination, url),
        roomOf: (tenant) => this.#roomOf(tenant),
        now,
        wall,
      }),
    )
    const unused = await inSlices(unusedEndpoints(before.queues, queues))
    return () => {
      if (this.#isStopped) return Promise.resolve()
      this.#settings = settings
      this.#network = network
      this.#queues = queues
      this.#setLimits(settings)
      this.#sharedBreakers?.use(queues)
      this.dispatcher.use(queues, unused)
      this.#noteFormer(before.queues)
      const closing = this.#end(unused)
      return isSameNetwork ? closing : closeNetwork(before.network, closing)
    }
  }

  async #end(unused: readonly EndpointQueue[]): Promise<void> {
    await Promise.all([closeEndpoints(unused), this.dispatcher.presentEnded()])
  }

  #formerOf(destination: string, url: string): FormerEndpoint | undefined {
    const known = this.#former.get(`${destination} ${url}`)
    return known && known.until >= this.#parts.now() ? known : undefined
  }

  #noteFormer(before: readonly DestinationQueue[]): void {
    const now = this.#parts.now()
    for (const [key, { until }] of this.#former) if (until < now) this.#former.delete(key)
    for (const { destination, endpoints } of before) {
      for (const { isRetired, endpoint, breaker, pace } of endpoints) {
        if (!isRetired) continue
        const key = `${destination.name} ${endpoint.url}`
        this.#former.set(key, { breaker, pace, until: now + MAX_RETRY_AFTER_MS })
      }
    }
  }

  #roomOf(tenant: string): Room {
    const known = this.#rooms.get(tenant)
    if (known) return known
    const room: Room = new TenantRoom()
    this.#rooms.set(tenant, room)
    return room
  }

  #setLimits({ tenants = [] }: DeliverSettings): void {
    const names = new Set(tenants.map(({ name }) => name))
    for (const name of this.#rooms.keys()) if (!names.has(name)) this.#rooms.delete(name)
    for (const { name, quotas } of tenants) {
      this.#roomOf(name).limit = quotas?.concurrency ?? Infinity
    }
  }

  /**
   * Claims the deliveries that other processes put as soon as the store reports them, instead of at the next poll, and does not send
   * those of users who are deleted.
   */
  listen(): void {
    if (!this.#parts.isDelivering) return
    this.#parts.store.shared?.onPut((destination, lane) => {
      this.dispatcher.wake(destination, lane)
    })
    this.#parts.store.onRemoved((ids) => {
      this.dispatcher.recall(new Set(ids))
    })
  }

  /** Starts no more attempts. */
  stop(): void {
    this.#isStopped = true
    this.dispatcher.stop()
  }

  /** Resolves once all attempts under way have ended and are settled, and all connections are closed. */
  async close(): Promise<void> {
    await this.dispatcher.close()
    await this.#sharedBreakers?.close()
    await closeNetwork(
      this.#network,
      closeEndpoints(this.#queues.flatMap(({ endpoints }) => endpoints)),
    )
  }
}

function networkOf({ allowNetworks, ca }: DeliverSettings) {
  return { allowNetworks, ca }
}

/** Waits until the requests under way to these endpoints have ended. */
async function closeEndpoints(endpoints: readonly EndpointQueue[]): Promise<void> {
  await Promise.all(endpoints.map(({ poster }) => poster.close()))
}

/** Closes the connections of a network whose requests end with `closing`. */
async function closeNetwork(network: Network | undefined, closing: Promise<void>): Promise<void> {
  await Promise.all([closing, network?.connections.close()])
}
