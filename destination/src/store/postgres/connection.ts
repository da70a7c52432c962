import { createHash } from 'node:crypto'
import { Socket } from 'node:net'
import pg from 'pg'
import { StoreError } from '../store-error.js'
import {
  isOfPrepared,
  isCancelledWait,
  isSilence,
  isToRepeat,
  isUnsupportedSetting,
  SILENCE,
  toStoreError,
  unconfirmed,
} from './failure.js'
import type { Address } from './url.js'

/** In ms: the most time to connect, and to wait for a free connection. */
const CONNECT_MS = 3_000

/**
 * In ms: how long to wait for an answer after the server's own timeout. After that, the server or the network is down.
 */
const SILENCE_MS = 2_000

/** In ms: when the server ends the open transaction of a process that was suspended, so that it releases its locks. */
const IDLE_IN_TRANSACTION_MS = 10_000

/** In ms: after this time without traffic, TCP keepalive checks whether the server is still there. */
const KEEPALIVE_MS = 10_000

/** In ms: how long closing waits for the connections to end. */
const GOODBYE_MS = 1_000

/**
 * In ms: when the server ends a connection whose other end does not take its answer, as a process that was stopped or cut
 * off. Without this, the rows that its statement has locked stay locked for a minute and a half. The server ignores it on a
 * Unix socket.
 */
const UNTAKEN_MS = 10_000

/**
 * A role or a database could hide the warning that {@link isCancelledWait} looks for.
 *
 * Just-in-time compilation takes hundreds of ms for a statement that runs for less than one. The planner assumes that a
 * claim finds a part of all rows that wait, so that even an idle worker's claims are compiled.
 */
const OPTIONS = `-c jit=off -c client_min_messages=warning -c tcp_user_timeout=${UNTAKEN_MS}`

/** The isolation for which all statements are written. With another one, a snapshot may be older than the locks that were waited for. */
const ISOLATION = 'read committed'

const BEGIN = `BEGIN ISOLATION LEVEL ${ISOLATION}`

/**
 * An SQL statement that makes the commit of its transaction wait for the disk, where `synchronous_commit` is off. That may change
 * while the process runs, for each connection and within it. Other values are left as they are.
 */
export const BE_DURABLE = `
  SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

const BEGIN_DURABLY = `${BEGIN}; ${BE_DURABLE}`

/** How often a statement that met a deadlock or a serialization failure is repeated. */
const REPEATS = 5

/** Runs one statement, in which `$1` and so on stand for the values. */
export type RunQuery = <Row>(text: string, values?: unknown[]) => Promise<Row[]>

/** A statement, and the values of `$1` and so on in it. */
export interface Statement {
  text: string
  values?: unknown[] | undefined
}

/**
 * Runs statements in one transaction, which is sent at once and has one commit: all of them take effect, or none.
 *
 * @param lockMs - The most time that they wait for a lock, if it is not the usual one.
 */
export type RunAll = <Row>(statements: Statement[], lockMs?: number) => Promise<Row[][]>

/** Runs `work` in a transaction: all of its statements take effect, or none if it throws. */
export type Transact = <T>(work: (query: RunQuery) => Promise<T>) => Promise<T>

/**
 * The connections of one process. They open when they are needed, and lost ones are replaced.
 *
 * Nearly each statement is a transaction of its own. Those that store, claim and settle messages are prepared, because planning
 * them takes longer than carrying them out for a few messages. They are written so that one plan fits tables of any size.
 * Others are planned for their values each time. Through a server in between that can't have prepared statements, as some
 * PgBouncers, nothing is prepared. If the connection of a statement is lost, the statement may or may not have been carried out.
 */
export class Connection {
  readonly #address: Address
  readonly #sockets = new Set<Socket>()
  #pool: pg.Pool
  /** Whether the server accepts settings as startup parameters. A server in between may refuse them. */
  #hasSettings = true
  /** Whether statements can be prepared. */
  #hasPrepared = true
  /** Whether the database or the user has another isolation as the default. */
  #hasOtherIsolation = false
  /** The names of prepared statements, by their texts. */
  readonly #statementNames = new Map<string, string>()
  /** The clients whose last commit was reported as done, though it may be on no standby. */
  readonly #unconfirmed = new WeakSet<pg.ClientBase>()
  #check: ((query: RunQuery) => Promise<void>) | undefined
  #isClosed = false

  constructor(address: Address) {
    this.#address = address
    this.#pool = this.#createPool()
  }

  /**
   * Runs one statement on a free connection.
   *
   * @throws StoreError if it fails.
   */
  readonly query: RunQuery = async (text, values) => {
    const { rows } = await this.#withClient((client) => client.query(text, values))
    return rows as never
  }

  /**
   * Runs one statement on a free connection, as a prepared statement if that is possible.
   *
   * @throws StoreError if it fails.
   */
  readonly prepared: RunQuery = async (text, values) => {
    const { rows } = await this.#withClient((client) =>
      client.query(this.#toQuery({ text, values })),
    )
    return rows as never
  }

  /**
   * Runs statements together, as prepared statements if that is possible.
   *
   * @throws StoreError if one of them fails.
   */
  readonly preparedAll: RunAll = async (statements, lockMs) => {
    const [only] = statements
    if (only && statements.length === 1) return [await this.prepared(only.text, only.values)]
    const begin = lockMs === undefined ? BEGIN : `${BEGIN}; SET LOCAL lock_timeout = ${lockMs}`
    // The driver measures the time of each from now on, and not from the answer before it.
    const query_timeout = this.#silenceMs * (statements.length + 2)
    return this.#withClient(async (client) => {
      const send = (query: pg.QueryConfig) => {
        const timed: TimedQuery = { ...query, query_timeout }
        return client.query(timed)
      }
      const beginning = send({ text: begin })
      const running = statements.map((statement) => send(this.#toQuery(statement)))
      // If one has failed, this ends the transaction without an error and without an effect.
      const ending = send({ text: 'COMMIT' })
      const all = [beginning, ...running, ending]
      // All of them have ended before one of them rejects, and the client is released.
      await endOf(all, this.#silenceMs)
      await Promise.all(all)
      return Promise.all(running.map(async (one) => (await one).rows as never))
    })
  }

  /**
   * Runs `work` in a transaction on a free connection. If it throws, nothing is changed.
   *
   * @throws StoreError if it fails.
   */
  readonly transact: Transact = (work) => this.#withClient((client) => inTransaction(client, work))

  /**
   * Runs `work` as {@link transact} does, but on a connection of its own and without a time limit.
   *
   * @throws StoreError if it fails.
   */
  readonly transactAlone: Transact = (work) =>
    this.#run(async () => {
      const client = new pg.Client({ ...this.#config(), query_timeout: 0 })
      this.#listenTo(client)
      try {
        await client.connect()
        await this.#check?.(queryOf(client))
        const value = await inTransaction(client, work)
        this.#requireConfirmed(client)
        return value
      } finally {
        await client.end()
      }
    })

  /**
   * Checks each connection that opens from now on, before its first statement: by then, the address may lead to another server.
   * Those of {@link createClient} are not checked, since they only listen.
   *
   * @param check - Rejects with a StoreError if the connection must not be used.
   */
  checkEach(check: (query: RunQuery) => Promise<void>): void {
    this.#check = check
  }

  /**
   * Notes the default isolation of the connections. If it is not the one for which the statements are written, new connections set it.
   * They get this parameter only then, because a server in between may refuse parameters. If it refuses this one, a statement outside
   * of a transaction that collides with another one is repeated.
   */
  noteIsolation(isolation: string): void {
    if (isolation === ISOLATION) return
    this.#hasOtherIsolation = true
    this.#replace(this.#pool)
  }

  /** A client outside the pool, for one user. It is not connected yet. */
  createClient(): pg.Client {
    return new pg.Client(this.#config())
  }

  /** Closes all connections, once those of statements under way are free. Those that hear nothing are cut after a second. */
  async close(): Promise<void> {
    this.#isClosed = true
    // A server that has gone away never answers the end of a connection. The pool waits for those that are in use, but others would
    // stay open and keep the process from ending.
    setTimeout(() => {
      this.#cut()
    }, GOODBYE_MS).unref()
    await this.#pool.end()
  }

  /** Runs `work` on a free connection, which is closed if it throws: the server then rolls back its transaction. */
  #withClient<T>(work: (client: pg.ClientBase) => Promise<T>): Promise<T> {
    return this.#run(async (pool) => {
      const client = await pool.connect()
      let isOver = false
      try {
        const value = await work(client)
        this.#requireConfirmed(client)
        isOver = true
        return value
      } finally {
        client.release(!isOver)
      }
    })
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
        // A pool that was replaced meanwhile still had the settings.
        const hadSettings = this.#hasSettings || pool !== this.#pool
        if (hadSettings && isUnsupportedSetting(error)) {
          // Without the server's statement_timeout, the driver's query_timeout still limits each statement.
          this.#hasSettings = false
          this.#hasPrepared = false
          this.#replace(pool)
        } else if (isOfPrepared(error) && repeats < REPEATS) {
          this.#hasPrepared = false
        } else if (!isToRepeat(error) || repeats >= REPEATS) {
          throw toStoreError(error, this.#address.name)
        }
      }
    }
  }

  #toQuery({ text, values = [] }: Statement): pg.QueryConfig {
    return this.#hasPrepared ? { name: this.#nameOf(text), text, values } : { text, values }
  }

  /**
   * The name depends on the text alone. So if a server in between gives a connection of the server to several processes, a
   * name never runs the statement of another text.
   */
  #nameOf(text: string): string {
    let name = this.#statementNames.get(text)
    if (name === undefined) {
      name = `hookline_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`
      this.#statementNames.set(text, name)
    }
    return name
  }

  #replace(pool: pg.Pool): void {
    // close() ends the last pool, which accepts that only once.
    if (this.#isClosed || pool !== this.#pool) return
    this.#pool = this.#createPool()
    void pool.end()
  }

  /** In ms: how long to wait for the answer to a statement that is being carried out. */
  get #silenceMs(): number {
    return this.#address.statementTimeoutMs + SILENCE_MS
  }

  /** If one connection gets no answer, the others get none either. Cutting them makes their statements fail at once. */
  #cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  #createPool(): pg.Pool {
    const pool = new pg.Pool({
      ...this.#config(),
      max: this.#address.connections,
      pipeline: true,
      verify: (client, done) => {
        const checked = this.#check?.(queryOf(client)) ?? Promise.resolve()
        checked.then(() => {
          done()
        }, done)
      },
    })
    // The pool replaces a connection that is lost, and a call that uses it rejects. Without a listener, the loss of one that is in use
    // between two statements would be an uncaught error, too.
    pool.on('error', ignore)
    pool.on('connect', (client) => {
      this.#listenTo(client)
    })
    return pool
  }

  #listenTo(client: pg.ClientBase): void {
    client.on('error', ignore)
    client.on('notice', (notice) => {
      if (isCancelledWait(notice)) this.#unconfirmed.add(client)
    })
  }

  /** @throws StoreError if the server has told of a commit on this connection that it may be on no standby. */
  #requireConfirmed(client: pg.ClientBase): void {
    if (this.#unconfirmed.has(client)) throw unconfirmed(this.#address.name)
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
      query_timeout: this.#silenceMs,
      ...(this.#hasSettings && {
        options: [
          process.env['PGOPTIONS'],
          OPTIONS,
          this.#hasOtherIsolation &&
            `-c default_transaction_isolation=${ISOLATION.replace(' ', '\\ ')}`,
        ]
          .filter(Boolean)
          .join(' '),
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

/** A query with a time limit of its own, in ms. The types of the driver lack it. */
interface TimedQuery extends pg.QueryConfig {
  query_timeout: number
}

/**
 * Waits until all queries have ended, which were sent together and end one after the other.
 *
 * @throws Error as the driver does, if none ends for so long.
 */
async function endOf(queries: readonly Promise<unknown>[], silenceMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error(SILENCE))
    }, silenceMs)
  })
  const restart = () => timer?.refresh()
  const ends = queries.map((query) => query.then(restart, restart))
  try {
    await Promise.race([Promise.all(ends), silence])
  } finally {
    clearTimeout(timer)
  }
}

async function inTransaction<T>(
  client: pg.ClientBase,
  work: (query: RunQuery) => Promise<T>,
): Promise<T> {
  await client.query(BEGIN_DURABLY)
  const value = await work(queryOf(client))
  await client.query('COMMIT')
  return value
}

function queryOf(client: pg.ClientBase): RunQuery {
  return async (text, values) => (await client.query(text, values)).rows as never
}

/** The call that uses the connection reports the error. */
const ignore = () => undefined

const INT8 = 20

/** Reads bigint as a number instead of a string: ids and times are far below 2^53. */
const getTypeParser: NonNullable<pg.ClientConfig['types']>['getTypeParser'] = (oid, format) =>
  (oid as number) === INT8 ? Number : (pg.types.getTypeParser(oid, format) as unknown)
