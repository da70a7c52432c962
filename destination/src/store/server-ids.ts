import type { DeliveryId, SearchPlace } from '../model/delivery.js'

/**
 * How many ids a server has. With 10,000 messages a second they last for 200 years, and 128 servers have room below 2^53, so that
 * ids stay exact as numbers of JSON. The ids of the home are those of a single server, so that a store can grow.
 */
const RANGE = 2 ** 46

/** The most servers of a store. */
export const MAX_SERVERS = 128

/** The number of the server that gave an id. */
export function serverOf(id: DeliveryId): number {
  return Math.floor(id / RANGE)
}

/** All ids of a server are above this one. */
export function floorOf(server: number): DeliveryId {
  return server * RANGE
}

/** All ids of a server are below this one. */
export function ceilingOf(server: number): DeliveryId {
  return floorOf(server + 1)
}

/**
 * The place of a search in a store that has one server. A text is from a time with several: then the search goes on at the first of its
 * places, which is that of the home.
 */
export function idOf(place: SearchPlace | undefined): DeliveryId | undefined {
  return typeof place === 'string' ? Number.parseInt(place, 10) : place
}
