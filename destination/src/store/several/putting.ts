import { setTimeout as pause } from 'node:timers/promises'
import type { DeliveryId, NewDelivery } from '../../model/delivery.js'
import { StoreError } from '../store-error.js'
import type { Claiming } from './claiming.js'
import type { Directories, Place } from './directory.js'
import { isAway, type Server } from './server.js'

/** How often a put looks for the present owner of a share. */
const TRIES = 5

/** In ms: the wait before the third time. A share that moves has no owner for a moment. It is longer for each further time. */
const PAUSE_MS = 50

/**
 * Puts messages on the server that owns the share of their source. The directory of this process may be out of date: a server refuses
 * what is not its own, and then the put looks for the present owner.
 */
export class Putting {
  readonly #home: Server
  readonly #directories: Directories
  readonly #claiming: Claiming
  readonly #takesResults: (server: Server) => boolean

  /** @param takesResults - Whether a server takes the results of attempts. */
  constructor(
    home: Server,
    directories: Directories,
    claiming: Claiming,
    takesResults: (server: Server) => boolean,
  ) {
    this.#home = home
    this.#directories = directories
    this.#claiming = claiming
    this.#takesResults = takesResults
  }

  /**
   * Puts messages of one source.
   *
   * @throws StoreError if its server is away or fails, or if its share is moving for too long.
   */
  async put(source: string, deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]> {
    for (let tries = 1; ; tries++) {
      const place = this.#directories.placeOf(source)
      const ids = await this.#putUnknown(place, deliveries)
      if (ids) return ids
      if (tries === TRIES) {
        const message = `server ${place.server.name}: the messages of ${source} are moving to another server.`
        throw new StoreError('failed', message, { server: place.server.name })
      }
      if (tries > 1) {
        // The owner does not have the share any more, although the present directory says so.
        if (place.isLeaving) await this.#handOver(place)
        await pause((tries - 1) * PAUSE_MS)
      }
      await this.#directories.refresh()
    }
  }

  /** Completes a move that was interrupted after the share was taken away. */
  #handOver({ share }: Place): Promise<void> {
    return this.#home.ask((store) => store.asServer.moving.handOver([share]))
  }

  /** Puts what no former owner of the share has. */
  async #putUnknown(
    place: Place,
    deliveries: NewDelivery[],
  ): Promise<(DeliveryId | undefined)[] | undefined> {
    if (place.former.length === 0) return this.#putAt(place, deliveries)
    const answers = await Promise.all(
      place.former.map(({ server, isMoving }) => knownAt(server, isMoving, deliveries)),
    )
    const isNew = deliveries.map((_, i) => !answers.some((known) => known[i]))
    const ids = await this.#putAt(
      place,
      deliveries.filter((_, i) => isNew[i]),
    )
    if (!ids) return undefined
    const left = ids.values()
    return isNew.map((is) => (is ? left.next().value : undefined))
  }

  async #putAt(
    { server, share }: Place,
    deliveries: NewDelivery[],
  ): Promise<(DeliveryId | undefined)[] | undefined> {
    // Results would pile up, as long as the server takes messages but no results.
    if (!this.#takesResults(server)) {
      const message = `server ${server.name}: it does not take the results of attempts.`
      throw new StoreError('failed', message, {
        server: server.name,
        cause: server.error,
        isUnreachable: server.isAway,
      })
    }
    const ids = await this.#putOwn(server, deliveries, share)
    for (const { destination, state } of ids ? deliveries : []) {
      if (state !== 'leased' && state !== 'skipped') this.#claiming.note(server, destination, state)
    }
    return ids
  }

  /** Says of a server whether it takes messages: it may be full, and answer everything else. */
  async #putOwn(server: Server, deliveries: NewDelivery[], share: Place['share']) {
    try {
      const ids = await server.ask((store) => store.asServer.putOwn(deliveries, share))
      server.noteSuccess('put')
      return ids
    } catch (error) {
      if (error instanceof StoreError && error.mayPass) server.noteFailure('put', error)
      throw error
    }
  }
}

/**
 * Which messages a former owner of a share has.
 *
 * @throws StoreError if it is away while messages are moved from it. Later it is left out: nothing should wait for the server that a
 * share has left, and a message that comes twice is better than one that is not taken.
 */
async function knownAt(
  server: Server,
  isMoving: boolean,
  deliveries: NewDelivery[],
): Promise<boolean[]> {
  const ask = () => server.ask((store) => store.asServer.knows(deliveries))
  try {
    return await ask().catch((error: unknown) => {
      // A connection that was cut says nothing of the server.
      const isCut = error instanceof StoreError && error.isUnreachable && !server.isAway
      if (isCut) return ask()
      throw error
    })
  } catch (error) {
    if (isMoving || !isAway(error)) throw error
    return []
  }
}
