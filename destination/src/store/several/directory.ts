import { StoreError } from '../store-error.js'
import type { Directory, OwnShare, SharePlace } from '../store.js'
import { shareOf } from '../shares.js'
import type { Server } from './server.js'

/** Where a share is now, as this process knows it. */
export interface Place {
  server: Server
  share: OwnShare
  /** Whether it is about to go to another server. */
  isLeaving: boolean
  /** The servers that owned it before, and may have its messages. */
  former: { server: Server; isMoving: boolean }[]
}

/**
 * Knows which server owns which share. The servers themselves refuse what is not their own, so a process that has a former directory
 * does no harm: it reads the present one, and asks again.
 */
export class Directories {
  readonly #home: Server
  readonly #servers: readonly Server[]
  #present: Directory
  #reading: Promise<Directory> | undefined

  constructor(home: Server, servers: readonly Server[], present: Directory) {
    this.#home = home
    this.#servers = servers
    this.#present = present
  }

  /** Whether a share is being moved, or was not long ago. */
  get isMoving(): boolean {
    return this.#present.shares.some(({ next, former }) => next !== null || former.length > 0)
  }

  /** @throws StoreError if a server that has to be asked is not among those of the settings. */
  placeOf(source: string): Place {
    const share = shareOf(source)
    // There is one for each share.
    const { server, epoch, next, former } = this.#present.shares[share] as SharePlace
    return {
      server: this.#require(share, server),
      share: { share, epoch },
      isLeaving: next !== null,
      former: former.flatMap(({ server, isMoving }) => {
        const known = isMoving ? this.#require(share, server) : this.#find(server)
        return known ? [{ server: known, isMoving }] : []
      }),
    }
  }

  /** Reads the directory again. @throws StoreError */
  refresh(): Promise<Directory> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<Directory> {
    this.#present = await this.#home.ask((store) => store.asServer.directory())
    return this.#present
  }

  #find(number: number): Server | undefined {
    return this.#servers.find((one) => one.number === number)
  }

  #require(share: number, number: number): Server {
    const server = this.#find(number)
    if (server) return server
    const name = this.#present.names[number] ?? String(number)
    throw new StoreError(
      'failed',
      `store: the share ${share} is on the server ${name}, which this process does not know: start it again with the present settings.`,
      { server: name },
    )
  }
}
