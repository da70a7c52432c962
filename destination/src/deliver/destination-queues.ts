import { isDeepStrictEqual } from 'node:util'
import type { Poster } from '../post/poster.js'
import type { Destination, Endpoint } from '../settings/settings.js'
import { Breaker } from './breaker.js'
import { DestinationQueue, type Room } from './destination-queue.js'
import { EndpointQueue } from './endpoint-queue.js'
import { Pace } from './pace.js'

/** What is known of an endpoint, whatever its settings are. */
export type FormerEndpoint = Pick<EndpointQueue, 'breaker' | 'pace'>

/** What the queues need. */
export interface QueueParts {
  /** Makes the connections to an endpoint. */
  connect: (endpoint: Endpoint) => Poster
  /** What is known of an endpoint that the present queues do not have. By default nothing is. */
  formerOf?: (destination: string, url: string) => FormerEndpoint | undefined
  /** The room that all destinations of a tenant share. By default there is no limit. */
  roomOf?: (tenant: string) => Room
  /** A monotonic clock, in ms. */
  now: () => number
  /** The time of day that endpoints are told; by default the one of this machine. */
  wall?: (() => number) | undefined
}

/**
 * Makes the queues for new settings, each when it is asked for. A destination whose settings did not change keeps its
 * queue. In one that changed, an endpoint keeps its breaker and its pace, because they know of the requests under way, and what
 * the endpoint takes. An endpoint whose settings did not change keeps its waiting requests too.
 *
 * Nothing changes for the present queues: {@link EndpointQueue.useLimits} is called when the new ones are used.
 *
 * @param before - The present queues.
 * @param isSameNetwork - Whether the allowed networks and the trusted certificates did not change.
 */
export function* destinationQueues(
  destinations: readonly Destination[],
  before: readonly DestinationQueue[],
  isSameNetwork: boolean,
  { connect, formerOf, roomOf, now, wall }: QueueParts,
): Generator<DestinationQueue> {
  const toEndpointQueue = (
    name: string,
    endpoint: Endpoint,
    present: EndpointQueue | undefined,
  ) => {
    if (present && isSameNetwork && isDeepStrictEqual(present.endpoint, endpoint)) return present
    const known = present ?? formerOf?.(name, endpoint.url)
    const breaker = known?.breaker ?? new Breaker(endpoint.concurrency)
    const pace = known?.pace ?? new Pace(endpoint.rateLimit)
    return new EndpointQueue(endpoint, breaker, pace, connect(endpoint), now)
  }
  const queues = new Map(before.map((queue) => [queue.destination.name, queue]))
  for (const destination of destinations) {
    const known = queues.get(destination.name)
    if (known && isSameNetwork && isDeepStrictEqual(known.destination, destination)) {
      yield known
      continue
    }
    const endpoints = destination.webhooks.map((endpoint) =>
      toEndpointQueue(
        destination.name,
        endpoint,
        known?.endpoints.find((queue) => queue.endpoint.url === endpoint.url),
      ),
    )
    const { tenant } = destination
    const room = tenant === undefined ? undefined : roomOf?.(tenant)
    yield new DestinationQueue(destination, endpoints, now, room, wall)
  }
}

/** The endpoints of the former queues that new queues do not use, each when it is asked for. */
export function* unusedEndpoints(
  before: Iterable<DestinationQueue>,
  queues: readonly DestinationQueue[],
): Generator<EndpointQueue> {
  const kept = new Map(queues.map((queue) => [queue.destination.name, queue]))
  for (const queue of before) {
    const now = kept.get(queue.destination.name)
    if (now === queue) continue
    for (const endpoint of queue.endpoints) if (!now?.endpoints.includes(endpoint)) yield endpoint
  }
}
