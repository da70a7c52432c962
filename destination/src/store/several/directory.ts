import { StoreError } from '../store-error.js'
import type { Directory, OwnShare, ServerState, SharePlace } from '../servers.js'
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
  readonly #changed: (state: ServerState) => void
  #present: Directory
  #reading: Promise<Directory> | undefined
  #unknown: ServerState[] = []

  /** @param changed - Is told of each server that has messages, and that this process does not know. */
  constructor(
    home: Server,
    servers: readonly Server[],
    present: Directory,
    changed: (state: ServerState) => void,
  ) {
    this.#home = home
    this.#servers = servers
    this.#present = present
    this.#changed = changed
  }

  /** The servers that may have messages, and that this process does not know. It has to be started again with the present settings. */
  get unknown(): readonly ServerState[] {
    return this.#unknown
  }

  /** The names of the former owners of shares that this process does not know. They may have what is done or dead. */
  get former(): string[] {
    const { names, shares } = this.#present
    const numbers = new Set(shares.flatMap(({ former }) => former.map(({ server }) => server)))
    return Array.from(numbers)
      .filter((number) => !this.#find(number))
      .map((number) => names[number] ?? String(number))
  }

  nameOf(number: number): string | undefined {
    return this.#present.names[number]
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

  /** The names of the servers that may have messages of a source because its share has moved, or moves; none if it has not. */
  movedBetween(source: string): string[] {
    // There is one for each share.
    const { server, next, former } = this.#present.shares[shareOf(source)] as SharePlace
    const others = [...former.map((one) => one.server), ...(next === null ? [] : [next])]
    if (others.length === 0) return []
    return [server, ...others].map((number) => this.#present.names[number] ?? String(number))
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
    const { names, shares } = this.#present
    const numbers = new Set(
      shares.flatMap(({ server, former }) => [
        server,
        ...former.flatMap((one) => (one.isMoving ? [one.server] : [])),
      ]),
    )
    const unknown = Array.from(numbers).filter((number) => !this.#find(number))
    this.#noteUnknown(unknown.map((number) => names[number] ?? String(number)))
    return this.#present
  }

  #noteUnknown(names: readonly string[]): void {
    const before = this.#unknown
    this.#unknown = names.map((name) => {
      const noted = before.find((one) => one.name === name)
      return noted ?? { name, error: notKnown(name) }
    })
    for (const one of this.#unknown) if (!before.includes(one)) this.#changed(one)
    for (const one of before) {
      if (!this.#unknown.includes(one)) this.#changed({ ...one, error: undefined })
    }
  }

  #find(number: number): Server | undefined {
    return this.#servers.find((one) => one.number === number)
  }

  #require(share: number, number: number): Server {
    const server = this.#find(number)
    if (server) return server
    const name = this.#present.names[number] ?? String(number)
    const message = `store: the share ${share} is not here: ${notKnown(name).message}`
    throw new StoreError('failed', message, { server: name })
  }
}

function notKnown(name: string): StoreError {
  return new StoreError(
    'failed',
    `this process does not know the server ${name}: start it again with the present settings.`,
    { server: name },
  )
}
