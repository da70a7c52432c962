import { setTimeout as wait } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
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
import type { HistoryCounts, HistoryPlace, HistoryRow, HistorySpan } from '../../model/history.js'
import type { Clock } from '../../model/clock.js'
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
  Store,
  StoredRecord,
  Sync,
} from '../store.js'
import { idOf } from '../server-ids.js'
import { StoreError } from '../store-error.js'
import { itemsOf, rejectCalls, resolveCalls, type PendingCall } from '../rounds.js'
import type { Reading } from './clock.js'
import type { DriverName } from './driver.js'
import { callsUntilExit } from './exit.js'
import type { Upgrade } from './schema.js'
import type {
  Answer,
  Failure,
  Goodbye,
  Opened,
  Queries,
  Query,
  Result,
  Sent,
  SentBack,
  ThreadData,
  Upgrading,
} from './round.js'
import { packDeliveries, packSettlements, unflattenHistory, unpackClaimed } from './wire.js'

/** A thread that has opened the file. */
interface Running {
  thread: Worker
  /** How far the store's time is ahead of {@link Clock.now} of the process, in ms. */
  aheadMs: number
}

/** The calls that go into one round. */
interface RoundCalls {
  settles: PendingCall<Settlement, number>[]
  puts: PendingCall<NewDelivery, (DeliveryId | undefined)[]>[]
  claims: PendingCall<Claim, Delivery[]>[]
  queries: PendingCall<Query, Answer>[]
}

/**
 * Opens a store in a file. Only one process at a time can use it. If the folder and the file do not exist, they are
 * created, and only their owner can read them. The disk must be local: the locks and syncs of network file systems are
 * not reliable.
 *
 * SQLite runs in a thread of its own, so that requests do not wait for the disk. One round is under way at a time.
 * Calls that come meanwhile make the next one: the slower the disk, the larger the rounds.
 *
 * @throws StoreError `locked`, `newer`, `unsupported`, `full` or `failed`.
 */
export async function openSqlite(
  path: string,
  clock: Clock,
  driver?: DriverName,
  upgrading?: (upgrade: Upgrade) => void,
): Promise<Store> {
  const start = async (isRestart: boolean): Promise<Running> => {
    const at = read(clock)
    const workerData: ThreadData = { path, driver, calls: callsUntilExit(), at, isRestart }
    const thread = new Worker(new URL('./thread.js', import.meta.url), { workerData })
    const opened = await firstWord(thread, upgrading)
    if ('failure' in opened) throw toError(opened.failure)
    return { thread, aheadMs: opened.value - at.now }
  }
  return new SqliteStore(await start(false), () => start(true), clock)
}

function firstWord(thread: Worker, upgrading?: (upgrade: Upgrade) => void): Promise<Opened> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown) => {
      reject(new StoreError('failed', "The store's thread could not start.", { cause }))
    }
    const hear = (said: Opened | Upgrading) => {
      if ('upgrade' in said) {
        upgrading?.(said.upgrade)
        return
      }
      thread.off('message', hear)
      thread.off('error', fail)
      resolve(said)
    }
    thread.on('message', hear)
    thread.on('error', fail)
  })
}

/**
 * In ms: how long settlements wait for other calls to share a round with, if nothing else asks for one. A round costs as much
 * as ten settlements. A process that is killed meanwhile sends the messages of this time again.
 */
const GATHER_MS = 5

/**
 * Once a round has had so many deliveries and settlements, the next one starts this long after it at the earliest, in ms. Under load,
 * rounds of many calls cost less, because a sync and the waking of two threads cost the same for each round.
 */
const BUSY_ITEMS = 32
const BUSY_GAP_MS = 4

/** In ms: the pause before a thread that has died is started again. */
const RESTART_MS = 250

/**
 * The store as the main thread uses it. If the store's thread dies, the calls under way fail, and another thread is
 * started. Until it runs, all calls fail.
 */
class SqliteStore implements Store {
  readonly clock: Clock
  readonly #restart: () => Promise<Running>
  /** The clock of the process. */
  readonly #clock: Clock
  #aheadMs = 0
  /** Resolves once the store is closed and its last thread has ended. */
  readonly #running: Promise<void>
  /** `undefined` while none runs. */
  #thread: Worker | undefined
  #waiting = noCalls()
  #underWay: RoundCalls | undefined
  #isScheduled = false
  /** Starts the round that waits for other calls. */
  #gathering: NodeJS.Timeout | undefined
  /** When the next round may start. */
  #mayStartAt = -Infinity
  /** The error of calls that come now. */
  #error: StoreError | undefined
  #removedListener: ((ids: readonly DeliveryId[]) => void) | undefined
  #settledListener: ((settlements: readonly Settlement[]) => void) | undefined
  #isClosed = false

  constructor(first: Running, restart: () => Promise<Running>, clock: Clock) {
    this.#restart = restart
    this.#clock = clock
    this.clock = { now: () => clock.now() + this.#aheadMs, wall: clock.wall }
    this.#running = this.#run(first)
  }

  put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]> {
    return this.#ask(deliveries, [], (calls) => calls.puts)
  }

  claim(claims: Claim[]): Promise<Delivery[]> {
    return this.#ask(claims, [], (calls) => calls.claims)
  }

  due(): Promise<DueLane[]> {
    return this.#query('due')
  }

  settle(settlements: Settlement[]): Promise<number> {
    return this.#ask(settlements, 0, (calls) => calls.settles)
  }

  onSettled(listener: (settlements: readonly Settlement[]) => void): void {
    this.#settledListener = listener
  }

  async ping(): Promise<void> {
    await this.#query('ping')
  }

  trace(messageId: string): Promise<Trace[]> {
    return this.#query('trace', messageId)
  }

  stats(): Promise<Stats[]> {
    return this.#query('stats')
  }

  completeStats(): Promise<Stats[]> {
    return this.stats()
  }

  get(id: DeliveryId): Promise<Trace | undefined> {
    return this.#query('get', id)
  }

  find(filter: Filter, before: SearchPlace | undefined, limit: number): Promise<Findings> {
    return this.#query('find', filter, idOf(before), limit)
  }

  match(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Matches> {
    return this.#query('match', filter, before, limit)
  }

  deadGroups(
    destination: string,
    before: DeadPlace | undefined,
    limit: number,
  ): Promise<DeadGroups> {
    return this.#query('deadGroups', destination, before, limit)
  }

  async deadCounts(
    destinations: readonly string[],
    withinMs: number,
    most: number,
  ): Promise<DeadCounts> {
    return { counts: await this.#query('deadCounts', destinations, withinMs, most) }
  }

  async addHistory(counts: HistoryCounts[]): Promise<void> {
    if (counts.length > 0) await this.#query('addHistory', counts)
  }

  async history(
    span: HistorySpan,
    since: number,
    after: HistoryPlace | undefined,
    limit: number,
  ): Promise<HistoryRow[]> {
    return unflattenHistory(await this.#query('history', span, since, after, limit))
  }

  replay(
    ids: readonly DeliveryId[],
    withDone: boolean,
    lane?: ReplayLane,
    asOf?: number,
  ): Promise<DeliveryId[]> {
    return this.#query('replay', ids, withDone, lane, asOf)
  }

  async sweep(olderThanMs: number, limit: number, expired?: OnExpired): Promise<number> {
    const swept = await this.#query('sweep', olderThanMs, limit)
    for (const [destination, count] of swept.expired) expired?.(destination, count)
    return swept.changed
  }

  discard(destination: string, limit: number): Promise<number> {
    return this.#query('discard', destination, limit)
  }

  beginSync(audience: string, destinations: readonly AudienceDestination[]): Promise<Sync> {
    return this.#query('beginSync', audience, destinations)
  }

  join(sync: Sync, members: string[], messages: MemberMessage[]): Promise<number> {
    return this.#query('join', sync, members, messages)
  }

  leave(sync: Sync, from: string, limit: number, messages: MemberMessage[]): Promise<Left> {
    return this.#query('leave', sync, from, limit, messages)
  }

  catchUp(
    sync: Sync,
    limit: number,
    arrivals: MemberMessage[],
    departures: MemberMessage[],
  ): Promise<CaughtUp> {
    return this.#query('catchUp', sync, limit, arrivals, departures)
  }

  async forgetDestinations(names: readonly string[]): Promise<void> {
    await this.#query('forgetDestinations', names)
  }

  hasUser(user: string): Promise<boolean> {
    return this.#query('hasUser', user)
  }

  async purgeUser(user: string, from: number): Promise<Purged> {
    const { leased, ...purged } = await this.#query('purgeUser', user, from)
    if (leased.length > 0) this.#removedListener?.(leased)
    return purged
  }

  onRemoved(listener: (ids: readonly DeliveryId[]) => void): void {
    this.#removedListener = listener
  }

  close(): Promise<void> {
    this.#isClosed = true
    this.#error = new StoreError('failed', 'The store is closed.')
    if (this.#gathering) this.#start()
    this.#closeIfIdle()
    return this.#running
  }

  count(): Promise<number> {
    return this.#query('count')
  }

  copyOut(after: DeliveryId, limit: number): Promise<Copy[]> {
    return this.#query('copyOut', after, limit)
  }

  copyIn(copies: Copy[]): Promise<boolean[]> {
    return this.#query('copyIn', copies)
  }

  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]> {
    return this.#query('copiesOf', copies)
  }

  writeRecords(changes: readonly RecordChange[], unchangedSince?: number): Promise<number[]> {
    return this.#query('writeRecords', changes, unchangedSince)
  }

  records(after: number, limit: number): Promise<Records> {
    return this.#query('records', after, limit)
  }

  recordLog(
    about: RecordKey | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<LogEntry[]> {
    return this.#query('recordLog', about, before, limit)
  }

  forgetRecords(olderThanMs: number, limit: number): Promise<number> {
    return this.#query('forgetRecords', olderThanMs, limit)
  }

  copyRecordsIn(records: readonly StoredRecord[], after: number): Promise<boolean[]> {
    return this.#query('copyRecordsIn', records, after)
  }

  async copyLogIn(entries: readonly LogEntry[]): Promise<void> {
    await this.#query('copyLogIn', entries)
  }

  #query<Name extends keyof Queries>(
    ask: Name,
    ...given: Parameters<Queries[Name]>
  ): Promise<Answer<Name>> {
    // TypeScript does not see that a query of one name is a query, and that its answer is the one of this name.
    const query = { ask, given } as Query
    const answer = this.#ask<Query, Answer>([query], undefined, (calls) => calls.queries)
    return answer as Promise<Answer<Name>>
  }

  /** Adds a call to the next round. A call without items resolves to `none` at once. */
  #ask<T, R>(items: T[], none: R, kind: (calls: RoundCalls) => PendingCall<T, R>[]): Promise<R> {
    if (this.#error) return Promise.reject(this.#error)
    if (items.length === 0) return Promise.resolve(none)
    return new Promise((resolve, reject) => {
      kind(this.#waiting).push({ items, resolve, reject })
      if (this.#underWay || this.#isScheduled) return
      // setImmediate runs after all sockets that are readable now, so that their calls share this round.
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        if (!this.#underWay) this.#startSoon()
      })
    })
  }

  /** Starts a round at once, unless it would be one of settlements alone, or the last one was large and a moment ago. */
  #startSoon(): void {
    const waitMs = hasOnlySettlements(this.#waiting)
      ? GATHER_MS
      : Math.ceil(this.#mayStartAt - performance.now())
    if (waitMs <= 0 || this.#isClosed) this.#start()
    else
      this.#gathering ??= setTimeout(() => {
        this.#start()
      }, waitMs)
  }

  #start(): void {
    clearTimeout(this.#gathering)
    this.#gathering = undefined
    // Its thread has died meanwhile, and the calls have failed.
    if (isEmpty(this.#waiting)) return
    const calls = this.#waiting
    this.#underWay = calls
    this.#waiting = noCalls()
    const settlements = itemsOf(calls.settles)
    const deliveries = itemsOf(calls.puts)
    const isBusy = settlements.length + deliveries.length >= BUSY_ITEMS
    this.#mayStartAt = isBusy ? performance.now() + BUSY_GAP_MS : -Infinity
    this.#thread?.postMessage({
      at: read(this.#clock),
      settlements: packSettlements(settlements),
      deliveries: packDeliveries(deliveries),
      claims: itemsOf(calls.claims),
      queries: itemsOf(calls.queries),
    } satisfies Sent)
  }

  #finish({ settled, put, claimed, answers }: SentBack): void {
    const calls = this.#underWay
    this.#underWay = undefined
    // The next round starts before the callers get their results, so that both threads work at the same time.
    if (!isEmpty(this.#waiting)) this.#startSoon()
    if (calls) {
      this.#tellSettled(calls.settles, settled)
      answer(calls.settles, settled, (accepted) => accepted.filter((is) => !is).length)
      answer(calls.puts, put, (ids) => ids)
      const deliveries = 'value' in claimed ? { value: unpackClaimed(claimed.value) } : claimed
      answer(calls.claims, deliveries, (parts) => parts.flat())
      for (const [i, query] of calls.queries.entries()) {
        const result = answers[i]
        if (result)
          answer([query], 'value' in result ? { value: [result.value] } : result, ([one]) => one)
      }
    }
    this.#closeIfIdle()
  }

  #tellSettled(calls: PendingCall<Settlement, number>[], settled: Result<boolean[]>): void {
    if (calls.length === 0 || !('value' in settled)) return
    const taken = itemsOf(calls).filter((_, i) => settled.value[i])
    if (taken.length > 0) this.#settledListener?.(taken)
  }

  #closeIfIdle(): void {
    if (!this.#isClosed || this.#underWay || !isEmpty(this.#waiting)) return
    this.#thread?.postMessage({ closeAt: read(this.#clock) } satisfies Goodbye)
  }

  /** Uses one thread after the other, until the store is closed. */
  async #run(first: Running): Promise<void> {
    let running: Running | undefined = first
    while (running) {
      this.#fail(await this.#use(running))
      running = await this.#startAgain()
    }
  }

  /** Resolves once the thread has ended, with the error that ended it. */
  #use({ thread, aheadMs }: Running): Promise<unknown> {
    let cause: unknown
    this.#aheadMs = aheadMs
    thread.on('message', (result: SentBack) => {
      this.#finish(result)
    })
    thread.on('error', (error) => (cause = error))
    this.#thread = thread
    if (!this.#isClosed) this.#error = undefined
    this.#closeIfIdle()
    return new Promise((resolve) => {
      thread.on('exit', () => {
        resolve(cause)
      })
    })
  }

  /** Returns `undefined` if the store is closed. */
  async #startAgain(): Promise<Running | undefined> {
    while (!this.#isClosed) {
      await wait(RESTART_MS)
      try {
        return await this.#restart()
      } catch (cause) {
        this.#fail(cause)
      }
    }
    return undefined
  }

  #fail(cause: unknown): void {
    this.#thread = undefined
    const text = "The store's thread has died. Another one is being started."
    if (!this.#isClosed) this.#error = new StoreError('failed', text, { cause })
    for (const { settles, puts, claims, queries } of [this.#underWay ?? noCalls(), this.#waiting]) {
      rejectCalls([...settles, ...puts, ...claims, ...queries], this.#error)
    }
    this.#underWay = undefined
    this.#waiting = noCalls()
  }
}

function read(clock: Clock): Reading {
  return { now: clock.now(), wall: clock.wall() }
}

function noCalls(): RoundCalls {
  return { settles: [], puts: [], claims: [], queries: [] }
}

function hasOnlySettlements({ settles, puts, claims, queries }: RoundCalls): boolean {
  return settles.length > 0 && puts.length + claims.length + queries.length === 0
}

function isEmpty({ settles, puts, claims, queries }: RoundCalls): boolean {
  return settles.length + puts.length + claims.length + queries.length === 0
}

/** Gives the calls of one kind their results, or the failure of the round. */
function answer<T, R, E>(
  calls: PendingCall<T, R>[],
  result: Result<E[]>,
  toResult: (part: E[]) => R,
): void {
  if ('failure' in result) rejectCalls(calls, toError(result.failure))
  else resolveCalls(calls, result.value, toResult)
}

function toError({ code, message, cause }: Failure): StoreError {
  return new StoreError(code, message, { cause })
}
