import { closeSync, openSync } from 'node:fs'
import type { Copy } from '../../model/delivery.js'
import type { PurgedPart } from '../store.js'
import type { StoreError } from '../store-error.js'
import { moveFilter, moveGroup, moveTimes, StoreClock, type Reading } from './clock.js'
import { BUSY_MS, connect, type Connection } from './connection.js'
import type { Database, OpenDatabase } from './driver.js'
import { isOfValues, resultCode, toFailure, toStoreError } from './failure.js'
import { Files } from './files.js'
import { lock } from './lock.js'
import type { Upgrade } from './schema.js'
import { rewrite } from './rewrite.js'
import type { SweepPlace } from './sweep.js'
import type {
  Answer,
  Queries,
  Query,
  Result,
  Round,
  RoundResult,
  Swept,
  ThreadData,
} from './round.js'

/** In ms: how long a sweep waits for a program that reads the file. It is short, because each sweep tries again. */
const SWEEP_BUSY_MS = 500

/** Where a purge continues that has searched all messages. */
const BEHIND_ALL = Number.MAX_SAFE_INTEGER

/** What an answer needs of the clock. */
interface Times {
  /** The store's time. */
  now: number
  /** How far it is ahead of what people should see, in ms. */
  ahead: number
  /** Gives a delivery the times that people should see. */
  shown: <Row extends Partial<Copy>>(row: Row) => Row
}

/** Has a function for each query. */
type Answering = {
  [Name in keyof Queries]: (
    times: Times,
    ...given: Parameters<Queries[Name]>
  ) => ReturnType<Queries[Name]>
}

/**
 * Runs rounds on a file. All calls block, so the engine needs a thread of its own.
 *
 * A put, a copy or a replay is synced to the disk before its round returns. A round without puts is not synced, which
 * is faster. A power cut may lose its claims and settlements: then their deliveries are sent again. The end of the
 * process alone loses nothing.
 *
 * If the file is removed or replaced, whatever would be synced is refused. The rest goes on, so that what was stored is delivered.
 */
export class Engine {
  readonly #open: OpenDatabase
  readonly #path: string
  readonly #lock: Database
  /**
   * A descriptor of the file for `checkpoint.ts`, which syncs the file. It is open for as long as the engine is: by POSIX,
   * closing it releases all locks that this process has on the file.
   */
  readonly file: number
  readonly #files: Files
  /** `undefined` after an error that may have broken the connection. The next round opens a new one. */
  #connection: Connection | undefined
  #isDurable: boolean | undefined
  #sweepPlace: SweepPlace = { old: 0, far: 0 }
  /** How many became dead letters by destination, since a sweep has told it. */
  #expired = new Map<string, number>()
  readonly #clock = new StoreClock()
  /** Whether the files may have bytes of users who were deleted; `undefined` until this process knows. */
  #hasRemains: boolean | undefined

  /**
   * Opens the file. At the start of a process it makes all leased deliveries due: the lock proves that the process that
   * had leased them has ended.
   *
   * @param upgrading - Is called before the tables of an older version are changed.
   * @throws StoreError `locked`, `newer`, `full` or `failed`.
   */
  constructor(
    open: OpenDatabase,
    { path, at, isRestart }: Omit<ThreadData, 'driver' | 'calls'>,
    upgrading?: (upgrade: Upgrade) => void,
  ) {
    this.#open = open
    this.#path = path
    this.#files = new Files(path)
    this.#lock = this.#translate(() => lock(open, path))
    try {
      this.#connection = this.#translate(() => {
        this.#files.found()
        return this.#connect(upgrading)
      })
      this.#transact(false, ({ clock, release }) => {
        this.#clock.resume(clock, at)
        if (!isRestart) release(this.#clock.at(at))
      })
      this.file = this.#translate(() => openSync(path, 'r+'))
    } catch (error) {
      this.#disconnect()
      this.#lock.close()
      throw error
    }
  }

  /** The store's time. */
  timeAt(at: Reading): number {
    return this.#clock.at(at)
  }

  /** Runs a round. It never throws: errors are in the result. */
  run(round: Round): RoundResult {
    const { settlements, deliveries, claims } = round
    if (this.#clock.isToSave(round.at)) this.#saveTime(round.at)
    const outcome = this.#attempt(deliveries.length > 0, round)
    if ('value' in outcome) return { ...outcome.value, answers: this.#answers(round) }
    const { failure } = outcome
    if (settlements.length > 0 && isOfValues(failure.cause)) return this.#runEach(round)
    const isDeliveriesFault = deliveries.length > 0 && settlements.length + claims.length > 0
    if (!isDeliveriesFault) {
      return {
        settled: { failure },
        put: { failure },
        claimed: { failure },
        answers: this.#answers(round),
      }
    }
    // On a nearly full disk, settlements and claims may still fit where new bodies do not. So deliveries continue.
    return { ...this.run({ ...round, deliveries: [] }), put: { failure } }
  }

  /**
   * Runs a round that a value makes fail. Each settlement gets a transaction of its own, so that one that can't be written does not
   * hold up the others for ever. It is refused: its message is sent again after its lease.
   */
  #runEach(round: Round): RoundResult {
    const settled: boolean[] = []
    for (const one of round.settlements) {
      const outcome = this.#attempt(false, {
        ...round,
        settlements: [one],
        deliveries: [],
        claims: [],
      })
      if ('value' in outcome) settled.push(...outcome.value.settled.value)
      else if (isOfValues(outcome.failure.cause)) settled.push(false)
      else return { ...this.run({ ...round, settlements: [] }), settled: outcome }
    }
    return { ...this.run({ ...round, settlements: [] }), settled: { value: settled } }
  }

  /**
   * Copies the rest of the log into the file, so that the next round starts the log anew. It is called between rounds, when
   * `checkpoint.ts` has just copied the log, so it is short.
   */
  checkpoint(): void {
    try {
      this.#connection?.checkpoint.get()
    } catch {
      // The log stays as it is. Only a call can report an error to somebody.
    }
  }

  close(at: Reading): void {
    this.#saveTime(at)
    if (this.#files.missing() !== undefined) this.#emptyLog()
    this.#disconnect()
    closeSync(this.file)
    this.#lock.close()
  }

  /** SQLite leaves the log of a file that was removed, and would later apply it to the file that has come to its place. */
  #emptyLog(): void {
    try {
      this.#connection?.database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch {
      // The operator knows from the log that a file is not in its place.
    }
  }

  #saveTime(at: Reading): void {
    try {
      this.#transact(false, ({ clock, firstLeases, ids }) => {
        this.#clock.save(clock, at)
        firstLeases.save(this.#clock.at(at), ids.next, true)
      })
    } catch {
      // The next round tries again, and reports the error to its callers.
    }
  }

  #attempt(isDurable: boolean, { at, settlements, deliveries, claims }: Round) {
    if (settlements.length + deliveries.length + claims.length === 0) {
      return { value: { settled: { value: [] }, put: { value: [] }, claimed: { value: [] } } }
    }
    const now = this.#clock.at(at)
    return this.#result(() =>
      this.#transact(isDurable, ({ settle, put, claim, firstLeases, ids }) => {
        const results = {
          settled: { value: settlements.map((settlement) => settle(settlement, now)) },
          put: { value: put.all(deliveries, now) },
          claimed: { value: claims.map((wanted) => claim(wanted, now)) },
        }
        firstLeases.save(now, ids.next)
        return results
      }),
    )
  }

  #answers({ queries, at }: Round): Result<Answer>[] {
    return queries.map((query) => this.#result(() => this.#answer(query, at)))
  }

  readonly #queries: Answering = {
    ping: () => {
      this.#translate(() => {
        this.#files.require()
        this.#connected().ping()
      })
    },
    due: ({ now }) => this.#translate(() => this.#connected().due(now)),
    trace: ({ shown }, messageId) =>
      this.#translate(() => this.#connected().trace(messageId).map(shown)),
    stats: ({ now }) =>
      this.#translate(() => {
        const { counts, names } = this.#connected()
        return counts.stats(names, now)
      }),
    get: ({ shown }, id) =>
      this.#translate(() => {
        const trace = this.#connected().get(id)
        return trace && shown(trace)
      }),
    find: ({ ahead, shown }, filter, before, limit) =>
      this.#translate(() => {
        const search = { filter: moveFilter(filter, ahead), before, limit }
        const { deliveries, next } = this.#connected().find(search)
        return { deliveries: deliveries.map(shown), next }
      }),
    match: ({ ahead }, filter, before, limit) =>
      this.#translate(() =>
        this.#connected().match({ filter: moveFilter(filter, ahead), before, limit }),
      ),
    deadGroups: ({ ahead }, destination, before, limit) =>
      this.#translate(() => {
        const { groups, next } = this.#connected().deadGroups(destination, before, limit)
        return { groups: groups.map((group) => moveGroup(group, -ahead)), next }
      }),
    deadCounts: ({ now }, destinations, withinMs, most) =>
      this.#translate(() => this.#connected().deadCounts(destinations, now - withinMs, most)),
    addHistory: ({ now }, counts) => {
      this.#transact(false, ({ history }) => {
        history.add(counts, now)
      })
    },
    history: ({ ahead }, ...given) =>
      this.#translate(() => this.#connected().history.read(...given, ahead)),
    replay: ({ now }, ids, withDone, lane = 'backlog', asOf) =>
      this.#transact(true, ({ replay }) =>
        ids.filter((id) => replay(id, withDone, lane, asOf, now)),
      ),
    sweep: ({ now }, olderThanMs, limit) => this.#sweep(olderThanMs, limit, now),
    discard: (_, ...given) => this.#transact(true, ({ discard }) => discard(...given)),
    count: () => this.#translate(() => this.#connected().copy.count()),
    copyOut: ({ shown }, ...given) =>
      this.#translate(() =>
        this.#connected()
          .copy.copyOut(...given)
          .map(shown),
      ),
    copyIn: ({ now, ahead }, copies) =>
      this.#transact(true, ({ copy }) =>
        copies.map((one) => copy.copyIn(moveTimes(one, ahead), now)),
      ),
    copiesOf: ({ shown }, copies) =>
      this.#translate(() =>
        copies.map((one) => {
          const copy = this.#connected().copy.copyOf(one)
          return copy && shown(copy)
        }),
      ),
    beginSync: (_, ...given) => this.#transact(true, ({ audience }) => audience.begin(...given)),
    join: ({ now }, ...given) =>
      this.#transact(true, ({ audience }) => audience.join(...given, now)),
    leave: ({ now }, ...given) =>
      this.#transact(true, ({ audience }) => audience.leave(...given, now)),
    catchUp: ({ now }, ...given) =>
      this.#transact(true, ({ audience }) => audience.catchUp(...given, now)),
    forgetDestinations: (_, names) => {
      this.#transact(true, ({ audience }) => {
        audience.forgetDestinations(names)
      })
    },
    hasUser: (_, user) => this.#translate(() => this.#connected().user.has(user)),
    purgeUser: (_, user, from) => this.#purge(user, from),
    writeRecords: ({ now }, changes, unchangedSince) =>
      this.#transact(true, ({ records }) => records.write(changes, unchangedSince, now)),
    records: (_, ...given) => this.#translate(() => this.#connected().records.read(...given)),
    recordLog: ({ ahead }, ...given) =>
      this.#translate(() => this.#connected().records.readLog(...given, ahead)),
    forgetRecords: ({ now }, ...given) =>
      this.#transact(false, ({ records }) => records.forget(...given, now)),
    copyRecordsIn: ({ now }, ...given) =>
      this.#transact(true, ({ records }) => records.copyIn(...given, now)),
    copyLogIn: ({ ahead }, entries) => {
      this.#transact(true, ({ records }) => {
        records.copyLogIn(entries, ahead)
      })
    },
  }

  #answer<Name extends keyof Queries>({ ask, given }: Query<Name>, at: Reading): Answer<Name> {
    const now = this.#clock.at(at)
    const ahead = this.#clock.ahead(at)
    return this.#queries[ask]({ now, ahead, shown: (row) => moveTimes(row, -ahead) }, ...given)
  }

  #sweep(olderThanMs: number, limit: number, now: number): Swept {
    const { changed, place, hasDeletedId, expired } = this.#transact(false, ({ sweep, names }) => {
      // A process that was killed may have left some, unless no user was ever deleted.
      this.#hasRemains ??= names.find('delete') !== undefined
      return sweep({ olderThanMs, limit, place: this.#sweepPlace }, now)
    })
    this.#sweepPlace = place
    for (const [name, count] of expired) {
      this.#expired.set(name, (this.#expired.get(name) ?? 0) + count)
    }
    if (hasDeletedId) this.#hasRemains = true
    // If this fails, the next sweep tells what has expired.
    if (changed < limit && this.#hasRemains) this.#rewrite(SWEEP_BUSY_MS)
    const told = this.#expired
    this.#expired = new Map()
    return { changed, expired: told }
  }

  /**
   * The last call deletes nothing, and rewrites the file, so that nobody finds what was deleted in the bytes of the files. If that
   * fails, the calls before it have told which messages were being sent.
   */
  #purge(name: string, from: number): PurgedPart {
    const purged = this.#transact(true, ({ user, names }) => {
      // The next process knows by this name that users were deleted, also if no destination was told of it.
      names.number('delete')
      return user.purge(name, from)
    })
    if (purged.purged > 0) this.#hasRemains = true
    if (purged.next !== undefined || this.#hasRemains === false) return purged
    if (purged.purged > 0) return { ...purged, next: BEHIND_ALL }
    this.#rewrite(BUSY_MS)
    return purged
  }

  /** If another program reads the file, the bytes remain until a later call. */
  #rewrite(waitMs: number): void {
    this.#translate(() => {
      this.#hasRemains = !rewrite(this.#connected().database, waitMs)
    })
  }

  /** Runs `work` in a transaction. If it throws, nothing is changed. */
  #transact<T>(isDurable: boolean, work: (connection: Connection) => T): T {
    return this.#translate(() => {
      if (isDurable) this.#files.require()
      const connection = this.#connected()
      const { database, names, counts, firstLeases } = connection
      if (isDurable !== this.#isDurable) {
        database.exec(`PRAGMA synchronous = ${isDurable ? 'FULL' : 'NORMAL'}`)
        this.#isDurable = isDurable
      }
      connection.begin.run()
      try {
        const value = work(connection)
        connection.commit.run()
        names.commit()
        counts.commit()
        firstLeases.commit()
        return value
      } catch (error) {
        names.rollback()
        counts.rollback()
        firstLeases.rollback()
        this.#rollback(connection)
        throw error
      }
    })
  }

  #rollback({ database }: Connection): void {
    try {
      database.exec('ROLLBACK')
    } catch {
      // SQLite has already rolled back, as it does after most write errors.
    }
  }

  #connected(): Connection {
    if (this.#connection) return this.#connection
    this.#files.require() // SQLite would create an empty file, or use another one
    this.#connection = this.#connect()
    return this.#connection
  }

  #connect(upgrading?: (upgrade: Upgrade) => void): Connection {
    const connection = connect(this.#open, this.#path, upgrading)
    this.#files.opened()
    return connection
  }

  #disconnect(): void {
    const { database } = this.#connection ?? {}
    this.#connection = undefined
    this.#isDurable = undefined
    try {
      database?.close()
    } catch {
      // Everything that was acknowledged is committed, so a failed close loses nothing.
    }
    this.#files.closed()
  }

  #translate<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      // This checks whether the disk is full, so it comes before #disconnect(): closing may free room.
      const storeError = toStoreError(error, this.#path)
      // After any other error than a full disk, a refused change or a busy file, the connection may be broken.
      const isFit = ['full', 'superseded', 'conflict'].includes(storeError.code)
      const isBusy = resultCode(error) === 'SQLITE_BUSY'
      // A file that was removed can't be opened again.
      if (!isFit && !isBusy && this.#files.missing() === undefined) this.#disconnect()
      throw storeError
    }
  }

  #result<T>(work: () => T): Result<T> {
    try {
      return { value: work() }
    } catch (error) {
      return { failure: toFailure(error as StoreError) }
    }
  }
}
