import type {
  Claim,
  Copy,
  DeadGroups,
  DeadPlace,
  Delivery,
  DeliveryId,
  Filter,
  Findings,
  Matches,
  NewDelivery,
  SearchPlace,
  Settlement,
  Stats,
  Trace,
} from '../../model/delivery.js'
import type { Clock } from '../../model/clock.js'
import type { HistoryCounts, HistoryPlace, HistoryRow, HistorySpan } from '../../model/history.js'
import type { ServerPort } from '../servers.js'
import type {
  AudienceDestination,
  CaughtUp,
  DeadCounts,
  DueLane,
  Left,
  LogEntry,
  MemberMessage,
  OnExpired,
  Purged,
  RecordChange,
  RecordKey,
  Records,
  ReplayLane,
  Shared,
  Store,
  StoredRecord,
  Sync,
} from '../store.js'
import { idOf, serverOf } from '../server-ids.js'
import { StoreError } from '../store-error.js'
import { prepareAudience } from './audience.js'
import { prepareClaim, prepareDue } from './claim.js'
import { SERVER_AT, ServerClock } from './clock.js'
import { Connection } from './connection.js'
import { prepareCopy } from './copy.js'
import { prepareDeadCounts, prepareDeadGroups } from './dead-groups.js'
import { createWorkers } from './workers.js'
import { prepareDiscard } from './discard.js'
import { prepareFind } from './find.js'
import { prepareHistory } from './history.js'
import { prepareMove } from './move.js'
import { Names } from './names.js'
import { Notifications } from './notifications.js'
import { prepareGone, preparePurge } from './purge.js'
import { preparePut, preparePutOwn, type OwnDelivery } from './put.js'
import { prepareRecords } from './records.js'
import { prepareReplay } from './replay.js'
import { Rounds } from './rounds.js'
import { hasTable, migrate } from './schema.js'
import { prepareSettle } from './settle.js'
import { SettleRounds } from './settle-rounds.js'
import {
  formerServersOf,
  notAlone,
  othersOf,
  prepareShares,
  refuseOneOfSeveral,
  type Others,
} from './shares.js'
import { prepareStats } from './stats.js'
import { prepareSweep } from './sweep.js'
import type { Tables } from './tables.js'
import { prepareGet, prepareTrace } from './trace.js'
import { isOfValues } from './failure.js'
import { parseUrl } from './url.js'

/** PostgreSQL 15, as `server_version_num` reports it. */
const OLDEST_VERSION = 150_000

/** The encodings that can store every character. `SQL_ASCII` stores the bytes as they come. */
const ENCODINGS: ReadonlySet<string> = new Set(['UTF8', 'SQL_ASCII'])

/**
 * Opens a store in a PostgreSQL database. Any number of processes on any number of machines can use it at once. Missing
 * tables are created.
 *
 * @param url - See {@link parseUrl}.
 * @param now - The store's clock for tests, in ms since the epoch; by default the server's clock.
 * @param mustExist - Whether missing tables are an error.
 * @param isServer - Whether the database is one of several servers of a store: then it has {@link Store.asServer}.
 * @throws StoreError `unsupported`, `newer`, `full` or `failed`.
 */
export async function openPostgres(
  url: string,
  now?: () => number,
  mustExist = false,
  isServer = false,
): Promise<Store> {
  const { schema, ...address } = parseUrl(url)
  const connection = new Connection({ schema, ...address })
  const clock = new ServerClock()
  let formerServers: readonly string[] = []
  try {
    await check(connection, address.name, clock)
    if (mustExist) await requireTables(connection, address.name, schema)
    await migrate(connection, schema)
    if (!isServer) {
      await refuseOneOfSeveral(connection, schema)
      formerServers = await formerServersOf(connection, schema)
    }
  } catch (error) {
    await connection.close()
    throw error
  }
  const { query, prepared, preparedAll, transact } = connection
  return new PostgresStore(
    {
      query,
      prepared,
      preparedAll,
      transact,
      schema,
      names: new Names(connection, schema),
      now: () => (now ? Math.round(now()) : null),
      clock,
    },
    connection,
    isServer,
    now ? { now, wall: now } : clock,
    formerServers,
  )
}

async function check(connection: Connection, name: string, clock: ServerClock): Promise<void> {
  const askedAt = performance.now()
  const [server] = await connection.query<{
    version: number
    text: string
    commit: string
    isolation: string
    encoding: string
    at: number
  }>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS text,
       current_setting('synchronous_commit') AS commit, current_setting('server_encoding') AS encoding,
       current_setting('default_transaction_isolation') AS isolation, ${SERVER_AT} AS at`,
  )
  if (server) clock.note(server.at, askedAt)
  if (!server || server.version < OLDEST_VERSION) {
    throw new StoreError(
      'unsupported',
      `store: the server runs PostgreSQL ${server?.text ?? ''}. Use version 15 or newer.`,
    )
  }
  if (server.commit === 'off') {
    throw new StoreError(
      'unsupported',
      'store: synchronous_commit is off on the server, so a crash would lose accepted calls. Turn it on for this ' +
        'user (ALTER ROLE … SET synchronous_commit = on).',
    )
  }
  if (!ENCODINGS.has(server.encoding)) {
    throw new StoreError(
      'unsupported',
      `store: ${name}: the database's encoding is ${server.encoding}: expected UTF8, because others can't store all ` +
        "characters of calls. Create a database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
    )
  }
  connection.noteIsolation(server.isolation)
}

/** @throws StoreError if the schema does not have the tables of a store. */
async function requireTables(connection: Connection, name: string, schema: string): Promise<void> {
  if (await hasTable(connection, schema, 'version')) return
  throw new StoreError(
    'unsupported',
    `store: ${name}: there is no store in the schema ${schema}: expected the tables of an existing store. Check the ` +
      'database and ?schema=. Nothing was created.',
  )
}

/**
 * Reads the tables with the cheapest query, and checks that the server also takes writes: a standby answers queries too. It needs what
 * only a put needs besides: the sequence of the ids, and the index that finds what is stored already.
 */
async function ping({ query, schema }: Tables): Promise<void> {
  // It takes an id only if that is an error.
  await query(
    `SELECT EXISTS (SELECT FROM ${schema}.deliveries),
       CASE WHEN NOT has_sequence_privilege($1, 'USAGE, UPDATE') THEN nextval($1::regclass) END`,
    [`${schema}.ids`],
  )
  // This writes no row, but is an error where nothing can be written. The error closes the connection. A session that began as read-only
  // would stay so, whatever the setting of the database is now.
  await query(
    `INSERT INTO ${schema}.deliveries SELECT * FROM ${schema}.deliveries WHERE false
     ON CONFLICT (message_id, source, destination) DO NOTHING`,
  )
}

/** What needs only the tables. What also tells or asks other parts of the store is prepared where these are at hand. */
function prepareAll(tables: Tables) {
  return {
    ping: () => ping(tables),
    due: prepareDue(tables),
    trace: prepareTrace(tables),
    get: prepareGet(tables),
    search: prepareFind(tables),
    deadGroups: prepareDeadGroups(tables),
    deadCounts: prepareDeadCounts(tables),
    history: prepareHistory(tables),
    replay: prepareReplay(tables),
    stats: prepareStats(tables),
    sweep: prepareSweep(tables),
    discard: prepareDiscard(tables),
    copy: prepareCopy(tables),
    audience: prepareAudience(tables),
    purge: preparePurge(tables),
    gone: prepareGone(tables),
    records: prepareRecords(tables),
  }
}

class PostgresStore implements Store {
  readonly sweepsAside = true
  readonly shared: Shared
  readonly clock: Clock
  readonly asServer?: ServerPort
  readonly #connection: Connection
  readonly #notifications: Notifications
  readonly #do: ReturnType<typeof prepareAll>
  readonly #claim: (claims: Claim[]) => Promise<Delivery[]>
  readonly #others: () => Promise<Others | undefined>
  readonly #puts: Rounds<NewDelivery, DeliveryId | undefined>
  readonly #settles: SettleRounds
  readonly #finishSettling: () => Promise<void>
  readonly #takeRefused: () => number
  readonly #leaveWorkers: () => Promise<void>
  readonly #underWay = new Set<Promise<unknown>>()
  #settledListener: ((settlements: readonly Settlement[]) => void) | undefined
  #closing: Promise<void> | undefined

  constructor(
    tables: Tables,
    connection: Connection,
    isServer: boolean,
    clock: Clock,
    readonly formerServers: readonly string[],
  ) {
    this.clock = clock
    const workers = createWorkers(tables)
    this.#leaveWorkers = () => workers.leave()
    this.#connection = connection
    const gone: Shared['gone'] = (ids) => this.#whileOpen(() => this.#do.gone(ids))
    const notifications = new Notifications(connection, tables.schema, gone)
    this.#notifications = notifications
    this.#do = prepareAll(tables)
    this.shared = {
      workers: {
        heartbeat: () => this.#whileOpen(() => workers.heartbeat()),
        tryProbes: (...given) => this.#whileOpen(() => workers.tryProbes(...given)),
        noteDown: (...given) => this.#whileOpen(() => workers.noteDown(...given)),
        findDown: (...given) => this.#whileOpen(() => workers.findDown(...given)),
        endProbes: (...given) => this.#whileOpen(() => workers.endProbes(...given)),
      },
      liveWorkers: () => this.#whileOpen(() => workers.others()),
      onPut: (listener) => {
        notifications.listenToPuts(listener)
      },
      gone,
      onRecords: (listener) => {
        notifications.listenToRecords(listener)
      },
    }
    // Whoever knows that it is one of several asks the others, too.
    this.#others = () => (isServer ? Promise.resolve(undefined) : othersOf(tables, tables.schema))
    const put = preparePut(tables)
    this.#puts = new Rounds(async (deliveries) => {
      const ids = await put(deliveries)
      this.#notifications.tellPut(deliveries)
      return ids
    }, isOfValues)
    if (isServer) this.asServer = this.#createServer(tables)
    const settle = prepareSettle(tables, (taken) => this.#settledListener?.(taken))
    this.#finishSettling = settle.finish
    this.#takeRefused = settle.takeRefused
    this.#settles = new SettleRounds(tables, settle.settle)
    this.#claim = prepareClaim(
      tables,
      ({ destination, lane }) => {
        this.#notifications.report(destination, lane)
      },
      this.#settles.join,
    )
  }

  put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]> {
    if (deliveries.length === 0) return Promise.resolve([])
    return this.#whileOpen(() => this.#puts.ask(deliveries))
  }

  claim(claims: Claim[]): Promise<Delivery[]> {
    if (claims.length === 0) return Promise.resolve([])
    return this.#whileOpen(() => this.#claim(claims))
  }

  due(): Promise<DueLane[]> {
    return this.#whileOpen(() => this.#do.due())
  }

  async settle(settlements: Settlement[]): Promise<number> {
    if (settlements.length === 0) return 0
    const answers = await this.#whileOpen(() => this.#settles.ask(settlements))
    return answers.filter((answer) => answer === 'refused').length + this.#takeRefused()
  }

  onSettled(listener: (settlements: readonly Settlement[]) => void): void {
    this.#settledListener = listener
  }

  ping(): Promise<void> {
    return this.#whileOpen(async () => {
      await this.#do.ping()
      await this.#requireAll()
    })
  }

  trace(messageId: string): Promise<Trace[]> {
    return this.#whenComplete(
      () => this.#do.trace(messageId),
      (found) => found.length > 0,
    )
  }

  stats(): Promise<Stats[]> {
    return this.#whileOpen(() => this.#do.stats.stats())
  }

  completeStats(): Promise<Stats[]> {
    return this.#whenComplete(
      () => this.#do.stats.count(),
      () => false,
    )
  }

  get(id: DeliveryId): Promise<Trace | undefined> {
    return this.#whenComplete(
      () => this.#do.get(id),
      (found) => found !== undefined,
    )
  }

  find(filter: Filter, before: SearchPlace | undefined, limit: number): Promise<Findings> {
    return this.#withAway(() => this.#do.search.find(filter, idOf(before), limit))
  }

  match(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Matches> {
    return this.#withAway(() => this.#do.search.match(filter, before, limit))
  }

  deadGroups(
    destination: string,
    before: DeadPlace | undefined,
    limit: number,
  ): Promise<DeadGroups> {
    return this.#withAway(() => this.#do.deadGroups(destination, before, limit))
  }

  deadCounts(destinations: readonly string[], withinMs: number, most: number): Promise<DeadCounts> {
    return this.#withAway(async () => ({
      counts: await this.#do.deadCounts(destinations, withinMs, most),
    }))
  }

  async addHistory(counts: HistoryCounts[]): Promise<void> {
    if (counts.length > 0) await this.#whileOpen(() => this.#do.history.add(counts))
  }

  history(
    span: HistorySpan,
    since: number,
    after: HistoryPlace | undefined,
    limit: number,
  ): Promise<HistoryRow[]> {
    return this.#whileOpen(() => this.#do.history.read(span, since, after, limit))
  }

  replay(
    ids: readonly DeliveryId[],
    withDone: boolean,
    lane: ReplayLane = 'backlog',
    asOf?: number,
  ): Promise<DeliveryId[]> {
    return this.#whenComplete(
      () => this.#do.replay(ids, withDone, lane, asOf),
      () => ids.every((id) => serverOf(id) === 0),
    )
  }

  sweep(olderThanMs: number, limit: number, expired?: OnExpired): Promise<number> {
    return this.#whenComplete(
      () => this.#do.sweep(olderThanMs, limit, expired),
      (swept) => swept >= limit,
    )
  }

  discard(destination: string, limit: number): Promise<number> {
    return this.#whenComplete(
      () => this.#do.discard(destination, limit),
      (discarded) => discarded > 0,
    )
  }

  onRemoved(listener: (ids: readonly DeliveryId[]) => void): void {
    this.#notifications.listenToRemovals(listener)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  count(): Promise<number> {
    return this.#whileOpen(() => this.#do.copy.count())
  }

  copyOut(after: DeliveryId, limit: number): Promise<Copy[]> {
    return this.#whenComplete(
      () => this.#do.copy.copyOut(after, limit),
      (copies) => copies.length > 0,
    )
  }

  copyIn(copies: Copy[]): Promise<boolean[]> {
    return this.#whileOpen(() => this.#do.copy.copyIn(copies))
  }

  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]> {
    return this.#whileOpen(() => this.#do.copy.copiesOf(copies))
  }

  beginSync(audience: string, destinations: readonly AudienceDestination[]): Promise<Sync> {
    return this.#whileOpen(() => this.#do.audience.begin(audience, destinations))
  }

  join(sync: Sync, members: string[], messages: MemberMessage[]): Promise<number> {
    return this.#whileOpen(() => this.#do.audience.join(sync, members, messages))
  }

  leave(sync: Sync, from: string, limit: number, messages: MemberMessage[]): Promise<Left> {
    return this.#whileOpen(() => this.#do.audience.leave(sync, from, limit, messages))
  }

  catchUp(
    sync: Sync,
    limit: number,
    arrivals: MemberMessage[],
    departures: MemberMessage[],
  ): Promise<CaughtUp> {
    return this.#whileOpen(() => this.#do.audience.catchUp(sync, limit, arrivals, departures))
  }

  forgetDestinations(names: readonly string[]): Promise<void> {
    return this.#whileOpen(() => this.#do.audience.forgetDestinations(names))
  }

  hasUser(user: string): Promise<boolean> {
    return this.#whenComplete(
      () => this.#do.purge.has(user),
      (has) => has,
    )
  }

  async purgeUser(user: string, from: number): Promise<Purged> {
    const { leased, ...purged } = await this.#whileOpen(() => this.#do.purge.purge(user, from))
    if (leased.length > 0) this.#notifications.tellRemoved(leased)
    if (purged.next === undefined) {
      await this.#whileOpen(() => this.#do.purge.finish())
      await this.#whileOpen(() => this.#requireAll())
    }
    return purged
  }

  async writeRecords(changes: readonly RecordChange[], unchangedSince?: number): Promise<number[]> {
    const versions = await this.#whileOpen(() => this.#do.records.write(changes, unchangedSince))
    this.#notifications.tellRecords()
    return versions
  }

  records(after: number, limit: number): Promise<Records> {
    return this.#whileOpen(() => this.#do.records.read(after, limit))
  }

  recordLog(
    about: RecordKey | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<LogEntry[]> {
    return this.#whileOpen(() => this.#do.records.readLog(about, before, limit))
  }

  forgetRecords(olderThanMs: number, limit: number): Promise<number> {
    return this.#whileOpen(() => this.#do.records.forget(olderThanMs, limit))
  }

  async copyRecordsIn(records: readonly StoredRecord[], after: number): Promise<boolean[]> {
    const added = await this.#whileOpen(() => this.#do.records.copyIn(records, after))
    this.#notifications.tellRecords()
    return added
  }

  copyLogIn(entries: readonly LogEntry[]): Promise<void> {
    return this.#whileOpen(() => this.#do.records.copyLogIn(entries))
  }

  async #close(): Promise<void> {
    this.#notifications.close()
    await Promise.allSettled(this.#underWay)
    await this.#finishSettling()
    // If this fails, the other workers drop this one after WORKER_TIMEOUT_MS.
    await this.#leaveWorkers().catch(() => undefined)
    await this.#connection.close()
  }

  #createServer(tables: Tables): ServerPort {
    const shares = prepareShares(tables)
    const put = preparePutOwn(tables)
    const puts = new Rounds(async (given: OwnDelivery[]) => {
      const ids = await put(given)
      this.#notifications.tellPut(
        given.flatMap(({ delivery }, i) => (ids[i] === null ? [] : [delivery])),
      )
      return ids
    }, isOfValues)
    const move = prepareMove(tables, this.#connection)
    return {
      identity: () => this.#whileOpen(shares.identity),
      directory: () => this.#whileOpen(shares.directory),
      found: (names) => this.#whileOpen(() => shares.found(names)),
      enroll: (identity, wasEnrolled) =>
        this.#whileOpen(async () => {
          await shares.enroll(identity, wasEnrolled)
          // Its address may lead to another server later, while this process runs.
          this.#connection.checkEach((query) => shares.confirm(identity, query))
        }),
      noteEnrolled: (identity) => this.#whileOpen(() => shares.noteEnrolled(identity)),
      firstOwners: (numbers) => this.#whileOpen(() => shares.firstOwners(numbers)),
      divide: (owners) => this.#whileOpen(() => shares.divide(owners)),
      putOwn: (deliveries, share) =>
        this.#whileOpen(async () => {
          const ids = await puts.ask(deliveries.map((delivery) => ({ ...share, delivery })))
          // A statement sees all of a share as its own, or nothing.
          return ids.every((id) => id !== null) ? ids : undefined
        }),
      knows: (deliveries) => this.#whileOpen(() => this.#do.copy.knows(deliveries)),
      moving: {
        alone: (work) => this.#whileOpen(() => move.alone(work)),
        intend: (...given) => this.#whileOpen(() => move.intend(...given)),
        grant: (shares) => this.#whileOpen(() => move.grant(shares)),
        owned: (shares) => this.#whileOpen(() => move.owned(shares)),
        giveUp: (shares) => this.#whileOpen(() => move.giveUp(shares)),
        withdraw: (shares) => this.#whileOpen(() => move.withdraw(shares)),
        handOver: (shares) => this.#whileOpen(() => move.handOver(shares)),
        moveSome: (...given) => this.#whileOpen(() => move.moveSome(...given)),
        finish: (...given) => this.#whileOpen(() => move.finish(...given)),
        lastId: () => this.#whileOpen(() => move.lastId()),
        firstId: () => this.#whileOpen(() => move.firstId()),
        forget: (...given) => this.#whileOpen(() => move.forget(...given)),
      },
    }
  }

  /** Says of an answer which servers could not be asked, because this process does not know them. */
  #withAway<R extends object>(question: () => Promise<R>): Promise<R & { away?: string[] }> {
    return this.#whileOpen(async () => {
      const [answer, others] = await Promise.all([question(), this.#others()])
      return others ? { ...answer, away: others.names } : answer
    })
  }

  /**
   * Does what may need the messages of other servers, too.
   *
   * @param isComplete - Whether an answer does not depend on them.
   * @throws StoreError if it does, and this process does not know all servers.
   */
  #whenComplete<R>(work: () => Promise<R>, isComplete: (answer: R) => boolean): Promise<R> {
    return this.#whileOpen(async () => {
      const answer = await work()
      if (!isComplete(answer)) await this.#requireAll()
      return answer
    })
  }

  /** @throws StoreError if there are other servers that may have messages of this store, and this process does not know them. */
  async #requireAll(): Promise<void> {
    const others = await this.#others()
    if (others) throw notAlone(others, others.names.join(', '))
  }

  #whileOpen<R>(work: () => Promise<R>): Promise<R> {
    if (this.#closing) return Promise.reject(new StoreError('failed', 'The store is closed.'))
    const working = work()
    const end = () => this.#underWay.delete(working)
    this.#underWay.add(working)
    working.then(end, end)
    return working
  }
}
