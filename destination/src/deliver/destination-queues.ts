import { isDeepStrictEqual } from 'node:util'
import type { Poster } from '../post/poster.js'
import type { Destination, Endpoint } from '../settings/settings.js'
import { Gate } from './breaker.js'
import { Line } from './endpoint-queue.js'
import { Target } from './destination-queue.js'

/** What targets are made with. */
export interface AimParts {
  /** Makes the connections to an endpoint. */
  connect: (endpoint: Endpoint) => Poster
  /** A monotonic clock, in ms. */
  now: () => number
}

/**
 * The targets for new settings. An endpoint that is as before keeps its connections, its gate and what waits for it; one
 * of which just the headers changed keeps its gate, as it is no more and no less well than before.
 *
 * @param before - The targets so far.
 * @param isSameNetwork - Whether connections made before may stay: they know the trusted certificates and the networks.
 */
export function aim(
  destinations: readonly Destination[],
  before: readonly Target[],
  isSameNetwork: boolean,
  { connect, now }: AimParts,
): Target[] {
  return destinations.map((destination) => {
    const known = before.find((target) => target.destination.name === destination.name)?.lines ?? []
    const lines = destination.webhooks.map((endpoint) => {
      const line = known.find((line) => line.endpoint.url === endpoint.url)
      if (line && isSameNetwork && isDeepStrictEqual(line.endpoint, endpoint)) return line
      const isSameCap = line?.gate.cap === endpoint.concurrency
      const gate = line && isSameCap ? line.gate : new Gate(endpoint.concurrency)
      return new Line(endpoint, gate, connect(endpoint), now)
    })
    return new Target(destination, lines, now)
  })
}
