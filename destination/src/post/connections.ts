import { Client, type buildConnector } from 'undici'

/**
 * In ms: no request begins on a connection that is older. A name gets new addresses, such as those of a new receiver, and only
 * new connections go there.
 */
const MAX_AGE_MS = 300_000

/** A connection to an origin. It carries one request at a time. */
export class Connection {
  /** Whether the socket was closed. The client would open another one. */
  isClosed = false
  /** The first error of its socket. undici may tell only of its end, and not of the TLS alert before it. */
  error: Error | undefined

  constructor(
    readonly client: Client,
    readonly origin: string,
    /** When it is too old for another request, on the clock of {@link Connections}. */
    readonly oldAt: number,
  ) {}
}

/**
 * The connections of a process. Endpoints of the same origin share those that are idle, because thousands of customers may
 * use the same host, and each new connection costs more than a request.
 *
 * undici's pool is not used: it drops a client whose connection failed, but that client still sends its waiting requests.
 * Such requests exceed the limit of connections, and the pool's `close` does not wait for them.
 */
export class Connections {
  /**
   * The idle connections of each origin. The one that was used last is used next, so that few connections stay open and
   * no idle one is used after a long time.
   */
  readonly #idle = new Map<string, Connection[]>()
  /** The idle connections of all origins. The one that was used last comes last. */
  readonly #all = new Set<Connection>()
  #open = 0
  #isClosed = false

  /**
   * @param connect - Opens a socket.
   * @param most - So many connections stay open. Beyond them, idle ones are closed for those in use.
   * @param now - A monotonic clock, in ms.
   */
  constructor(
    readonly connect: buildConnector.connector,
    readonly most: number,
    readonly now = () => performance.now(),
  ) {}

  /** The number of idle connections. */
  get idle(): number {
    return this.#all.size
  }

  /** Takes an idle connection, or makes one. */
  take(origin: string): Connection {
    for (let idle = this.#idle.get(origin)?.at(-1); idle; idle = this.#idle.get(origin)?.at(-1)) {
      if (this.now() < idle.oldAt) {
        this.#removeIdle(idle)
        return idle
      }
      this.drop(idle)
    }
    const [oldest] = this.#all
    if (this.#open >= this.most && oldest) this.drop(oldest)
    return this.#make(origin)
  }

  /** Gives a connection back after a complete answer. */
  give(connection: Connection): void {
    const isOver = connection.isClosed || this.now() >= connection.oldAt
    if (isOver || this.#isClosed || this.#open > this.most) {
      this.drop(connection)
      return
    }
    const { origin } = connection
    const others = this.#idle.get(origin)
    if (others) others.push(connection)
    else this.#idle.set(origin, [connection])
    this.#all.add(connection)
  }

  /** Closes a connection. After a failure it can't be used again, because undici may count the request as running. */
  drop(connection: Connection): void {
    this.#removeIdle(connection)
    this.#open--
    void connection.client.destroy()
  }

  /** Closes the idle connections at once, and those in use when they are given back. */
  async close(): Promise<void> {
    this.#isClosed = true
    const closing = Array.from(this.#all, ({ client }) => client.destroy())
    this.#open -= this.#all.size
    this.#all.clear()
    this.#idle.clear()
    await Promise.all(closing)
  }

  #make(origin: string): Connection {
    const connect: buildConnector.connector = (target, callback) => {
      connection.error = undefined
      this.connect(target, (...opened) => {
        opened[1]?.once('error', (error: Error) => {
          connection.error = error
        })
        callback(...opened)
      })
    }
    const client = new Client(origin, {
      pipelining: 1,
      connect,
      // Only the deadline of the exchange limits the time, counted from the start. undici's timeouts count from the last byte.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    // Some end earlier, so that not all of them are opened anew at the same moment.
    const oldAt = this.now() + MAX_AGE_MS * (1 - Math.random() / 4)
    const connection = new Connection(client, origin, oldAt)
    this.#open++
    client.on('disconnect', () => {
      connection.isClosed = true
      if (this.#all.has(connection)) this.drop(connection)
    })
    return connection
  }

  #removeIdle(connection: Connection): void {
    if (!this.#all.delete(connection)) return
    const { origin } = connection
    const others = this.#idle.get(origin) ?? []
    const at = others.lastIndexOf(connection)
    if (at !== -1) others.splice(at, 1)
    if (others.length === 0) this.#idle.delete(origin)
  }
}
