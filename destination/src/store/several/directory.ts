import { StoreError } from '../store-error.js'
import type { Directory, OwnShare } from '../store.js'
import { shareOf } from '../shares.js'
import type { Server } from './server.js'

/** Where a share is now, as this process knows it. */
export interface Place {
  server: Server
  share: OwnShare
}

/**
 * Knows which server owns which share. The servers themselves refuse what is not their own, so a process that has a former directory
 * does no harm: it reads the present one, and asks again.
 */
export class Directories {
  readonly #home: Server
  readonly #servers: readonly Server[]
  #present: Directory
  #reading: Promise<void> | undefined

  constructor(home: Server, servers: readonly Server[], present: Directory) {
    this.#home = home
    this.#servers = servers
    this.#present = present
  }

  /** @throws StoreError if the server is not among those of the settings. */
  placeOf(source: string): Place {
    const share = shareOf(source)
    const { server: number, epoch } = this.#present.shares[share] ?? { server: -1, epoch: 0 }
    const server = this.#servers.find((one) => one.number === number)
    if (server) return { server, share: { share, epoch } }
    const name = this.#present.names[number] ?? String(number)
    throw new StoreError(
      'failed',
      `store: the share ${share} is on the server ${name}, which this process does not know: start it again with the present settings.`,
      { server: name },
    )
  }

  /** Reads the directory again. @throws StoreError */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  async #read(): Promise<void> {
    this.#present = await this.#home.ask((store) => store.asServer.directory())
  }
}
