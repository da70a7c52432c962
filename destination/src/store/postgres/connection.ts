import { Socket } from 'node:net'
import pg from 'pg'
import { StoreError } from '../store-error.js'
import { isSilence, isToRepeat, isUnsupportedSetting, toStoreError } from './failure.js'
import type { Address } from './url.js'

/** In ms: how long a connection may take, and the wait for one that is free. */
const CONNECT_MS = 3_000

/** In ms: how much longer an answer may take than the server's own timeout. After that, nobody is there to give one. */
const SILENCE_MS = 2_000

/** In ms: when the server lets go of a transaction that a process left open as it was stopped. */
const IDLE_IN_TRANSACTION_MS = 10_000

/** In ms: after so long without a word the system asks whether the other side is there. */
const KEEPALIVE_MS = 10_000

/** In ms: the wait for goodbyes at closing. */
const GOODBYE_MS = 1_000

/** How often what deadlocked is made again. */
const REPEATS = 5

/** Runs one statement: `$1` and so on stand for the values. */
export type RunQuery = <Row>(text: string, values?: unknown[]) => Promise<Row[]>

/**
 * The connections of one process. They are made when they are needed, and again when they were lost.
 *
 * A statement is a transaction of its own, and is sent without a name: it works through PgBouncer, and is planned for
 * the tables as they are at that time, at a cost of well under a millisecond that a round of hundreds shares. One
 * whose connection is lost may have been carried out or not.
 */
export class Connection {
  readonly #address: Address
  readonly #sockets = new Set<Socket>()
  #pool: pg.Pool
  /** Whether the server takes settings along with the connection. */
  #hasSettings = true
  #isClosed = false

  constructor(address: Address) {
    this.#address = address
    this.#pool = this.#createPool()
  }

  /** @throws StoreError */
  readonly query: RunQuery = async (text, values) => {
    const { rows } = await this.#run((pool) => pool.query(text, values))
    return rows as never
  }

  /**
   * Does it all, or nothing, on a connection of its own, and takes whatever time it takes.
   *
   * @throws StoreError
   */
  transact<T>(work: (query: RunQuery) => Promise<T>): Promise<T> {
    return this.#run(async () => {
      const client = new pg.Client({ ...this.#config(), query_timeout: 0 })
      client.on('error', () => undefined)
      try {
        await client.connect()
        await client.query('BEGIN')
        const value = await work(
          async (text, values) => (await client.query(text, values)).rows as never,
        )
        await client.query('COMMIT')
        return value
      } finally {
        await client.end()
      }
    })
  }

  /** A connection beside the others, that somebody has to himself; not connected yet. */
  createClient(): pg.Client {
    return new pg.Client(this.#config())
  }

  /** Lets go of all connections. For when nothing is under way. */
  async close(): Promise<void> {
    this.#isClosed = true
    // Nothing is under way any more. A goodbye that nobody takes is not waited for.
    const late = setTimeout(() => {
      this.#cut()
    }, GOODBYE_MS)
    await this.#pool.end()
    clearTimeout(late)
  }

  async #run<T>(work: (pool: pg.Pool) => Promise<T>): Promise<T> {
    for (let repeats = 0; ; repeats++) {
      if (this.#isClosed) throw new StoreError('failed', 'The store is closed.')
      const pool = this.#pool
      try {
        return await work(pool)
      } catch (error) {
        if (isSilence(error)) {
          this.#cut()
          this.#replace(pool)
        }
        if (isUnsupportedSetting(error)) {
          // Then this side's clock has to do.
          this.#hasSettings = false
          this.#replace(pool)
        } else if (!isToRepeat(error) || repeats >= REPEATS) {
          throw toStoreError(error, this.#address.name)
        }
      }
    }
  }

  #replace(pool: pg.Pool): void {
    if (pool !== this.#pool) return
    this.#pool = this.#createPool()
    void pool.end()
  }

  /** Where one connection has gone silent, the others are no better: whoever waits on them need not wait as long. */
  #cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #createPool(): pg.Pool {
    const pool = new pg.Pool({ ...this.#config(), max: this.#address.connections })
    // One that is lost while nobody uses it is replaced; whoever uses one is told by the call.
    pool.on('error', () => undefined)
    return pool
  }

  #config(): pg.ClientConfig {
    const { host, port, user, password, database, tls, applicationName } = this.#address
    const { statementTimeoutMs } = this.#address
    return {
      host,
      port,
      user,
      password,
      database,
      ssl: tls,
      application_name: applicationName,
      stream: () => this.#createSocket(),
      types: { getTypeParser },
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MS,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: statementTimeoutMs + SILENCE_MS,
      ...(this.#hasSettings && {
        statement_timeout: statementTimeoutMs,
        lock_timeout: Math.ceil(statementTimeoutMs / 2),
        idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
      }),
    }
  }

  #createSocket(): Socket {
    const socket = new Socket()
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    return socket
  }
}

const INT8 = 20

/** Ids and times come as numbers: they are far below 2^53. */
const getTypeParser: NonNullable<pg.ClientConfig['types']>['getTypeParser'] = (oid, format) =>
  (oid as number) === INT8 ? Number : (pg.types.getTypeParser(oid, format) as unknown)
