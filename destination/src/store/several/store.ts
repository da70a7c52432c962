import type {
  Claim,
  Copy,
  DeadGroup,
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
import { grouped } from '../../model/grouped.js'
import { unsent } from '../../model/unsent.js'
import { joined } from '../dead-groups.js'
import { fromOf } from '../purge-pages.js'
import { ceilingOf, floorOf, serverOf } from '../server-ids.js'
import { retryLane } from '../states.js'
import type { Servers } from '../servers.js'
import type {
  AudiencePort,
  HistoryPort,
  MoveRecordsPort,
  RecordPort,
  DeadCounts,
  DueLane,
  OnExpired,
  Purged,
  ReplayLane,
  Shared,
  Store,
} from '../store.js'
import { StoreError } from '../store-error.js'
import { Claiming } from './claiming.js'
import type { Directories } from './directory.js'
import { merge, placesOf, sumOf, Sums } from './merge.js'
import { moveShares } from './move.js'
import { endOf } from './patience.js'
import { Putting } from './putting.js'
import { isAway, type Server, type ServerStore } from './server.js'
import { Settling } from './settling.js'

/** The bits of an id within a part of the index by user; see `purge-pages.ts`. */
const CUT = 2 ** 12

/** The methods for what does not belong to a source. */
type AtHome = keyof HistoryPort | keyof AudiencePort | keyof RecordPort | keyof MoveRecordsPort

/** The answers of the servers, and which could not be asked. */
interface Asked<T> {
  answers: { server: Server; answer: T }[]
  /** The names of the servers that could not be asked. */
  away: string[]
}

/**
 * One store on several servers. The messages of a source are on one of them, by the directory. What does not belong to a source is
 * on the home: records, audiences with their messages, the history, and what the workers share.
 *
 * Everything is delivered from where it is, whatever the directory says: the directory only says where new messages are stored, and
 * where they are recognized if they come again. A server that is away only takes what it has: nothing waits for it, except for what
 * has to be complete, such as a deletion.
 *
 * A put of several sources is not stored as a whole: if it rejects, a part may be stored, and its caller has to repeat it.
 */
export class SeveralStore implements Store {
  readonly sweepsAside = true
  readonly shared: Shared
  readonly servers: Servers
  readonly clock: Clock
  readonly addHistory = this.#atHome('addHistory')
  readonly history = this.#atHome('history')
  readonly beginSync = this.#atHome('beginSync')
  readonly join = this.#atHome('join')
  readonly leave = this.#atHome('leave')
  readonly catchUp = this.#atHome('catchUp')
  readonly forgetDestinations = this.#atHome('forgetDestinations')
  readonly writeRecords = this.#atHome('writeRecords')
  readonly records = this.#atHome('records')
  readonly recordLog = this.#atHome('recordLog')
  readonly forgetRecords = this.#atHome('forgetRecords')
  readonly copyRecordsIn = this.#atHome('copyRecordsIn')
  readonly copyLogIn = this.#atHome('copyLogIn')
  readonly #home: Server
  /** In the order of their numbers. */
  readonly #all: readonly Server[]
  readonly #byNumber: ReadonlyMap<number, Server>
  readonly #directories: Directories
  readonly #claiming: Claiming
  readonly #putting: Putting
  readonly #patienceMs: number
  readonly #settlings: ReadonlyMap<Server, Settling>
  readonly #sums = new Sums()
  /** The servers whose store reports puts. */
  readonly #heard = new Set<ServerStore>()
  #isListening = false
  #removedListener: ((ids: readonly DeliveryId[]) => void) | undefined
  #settledListener: ((settlements: readonly Settlement[]) => void) | undefined
  /** The place of the server with which the next sweep begins. */
  #turn = 0
  #closing: Promise<void> | undefined

  constructor(
    home: Server,
    servers: readonly Server[],
    directories: Directories,
    onChange: Servers['onChange'],
    patienceMs: number,
    clock: Clock,
  ) {
    this.#patienceMs = patienceMs
    this.clock = clock
    this.#home = home
    this.#all = servers
    this.#byNumber = new Map(servers.map((server) => [server.number, server]))
    this.#directories = directories
    this.#settlings = new Map(servers.map((server) => [server, new Settling(server)]))
    this.#claiming = new Claiming(
      servers,
      (server) => !this.#settlingOf(server).isFailing,
      patienceMs,
    )
    this.#putting = new Putting(
      home,
      directories,
      this.#claiming,
      (server) => !this.#settlingOf(server).isFailing,
    )
    this.servers = {
      onChange,
      list: () => [...servers.map(({ state }) => state), ...directories.unknown],
      directory: () => directories.refresh(),
      move: (plan, report, signal) =>
        this.#whileOpen(() => moveShares(home, servers, plan, report, signal)),
    }
    this.shared = this.#createShared()
    onChange(() => {
      this.#listen()
      this.#hearSettled()
    })
  }

  get formerServers(): readonly string[] {
    return this.#directories.former
  }

  async put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]> {
    return inParts(
      deliveries,
      ({ source }) => source,
      (source, own) => this.#whileOpen(() => this.#putting.put(source, own)),
    )
  }

  claim(claims: Claim[]): Promise<Delivery[]> {
    return this.#whileOpen(() =>
      claims.length === 0 ? Promise.resolve([]) : this.#claiming.claim(claims),
    )
  }

  due(): Promise<DueLane[]> {
    return this.#whileOpen(() => this.#claiming.due())
  }

  settle(settlements: Settlement[]): Promise<number> {
    return this.#whileOpen(() => this.#settle(settlements))
  }

  async #settle(settlements: Settlement[]): Promise<number> {
    const parts = grouped(settlements, ({ id }) => this.#byNumber.get(serverOf(id)))
    let refused = parts.get(undefined)?.length ?? 0
    let isOver = false
    const settled = Array.from(parts, async ([server, own]) => {
      if (!server) return
      const settling = this.#settlingOf(server)
      const count = await settling.settle(own)
      if (isOver) settling.noteRefused(count)
      else refused += count
    })
    await endOf(settled, this.#patienceMs)
    isOver = true
    for (const settling of this.#settlings.values()) refused += settling.takeRefused()
    return refused
  }

  onSettled(listener: (settlements: readonly Settlement[]) => void): void {
    this.#settledListener = listener
    this.#hearSettled()
  }

  onRemoved(listener: (ids: readonly DeliveryId[]) => void): void {
    this.#removedListener = listener
    this.#isListening = true
    this.#listen()
  }

  /** Waits for the first server that answers, because what one of them has does not stop the others. Rejects if none does. */
  async ping(): Promise<void> {
    try {
      await Promise.any(this.#all.map((server) => server.ask((store) => store.ping())))
    } catch (error) {
      throw (error as AggregateError).errors[0]
    }
  }

  async stats(): Promise<Stats[]> {
    const { answers } = await this.#askAll((store) => store.stats())
    return this.#sums.of(answers.map(({ server: { number }, answer }) => ({ number, answer })))
  }

  async completeStats(): Promise<Stats[]> {
    const { answers, away } = await this.#askAll((store) => store.completeStats())
    this.#requireAll(away)
    await this.#requireKnown()
    return sumOf(answers.flatMap(({ answer }) => answer))
  }

  async trace(messageId: string): Promise<Trace[]> {
    const { answers, away } = await this.#askUntilFound(
      (store) => store.trace(messageId),
      (answer) => answer.length > 0,
    )
    const found = answers.flatMap(({ answer }) => answer)
    this.#requireAll(await this.#lacking(found, away))
    return found.sort((a, b) => a.receivedAt - b.receivedAt || a.id - b.id)
  }

  async get(id: DeliveryId): Promise<Trace | undefined> {
    const server = this.#byNumber.get(serverOf(id))
    if (server) return server.ask((store) => store.get(id))
    await this.#requireServersOf([id])
    return undefined
  }

  async find(filter: Filter, before: SearchPlace | undefined, limit: number): Promise<Findings> {
    const places = placesOf(
      this.#all.map(({ number }) => number),
      before,
    )
    const isLeft = ({ number }: Server) => places.get(number) !== 0
    const { answers, away } = await this.#askAll(
      (store, { number }) => store.find(filter, places.get(number), limit),
      this.#all.filter(isLeft),
    )
    const found = this.#all.map((server) => ({
      number: server.number,
      found: isLeft(server)
        ? answers.find((one) => one.server === server)?.answer
        : { deliveries: [], next: undefined },
    }))
    return { ...merge(found, places, limit), ...(away.length > 0 && { away }) }
  }

  /** Server by server: nobody sees the order. */
  async match(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Matches> {
    const { found, next, away } = await this.#inTurn(before, async (store, place) => {
      const found = await store.match(filter, place, limit)
      return { found, next: found.next }
    })
    return { matches: found?.matches ?? [], next, ...(away.length > 0 && { away }) }
  }

  async deadGroups(
    destination: string,
    before: DeadPlace | undefined,
    limit: number,
  ): Promise<DeadGroups> {
    const groups: DeadGroup[] = []
    const away = new Set<string>()
    let place = before
    let left = limit
    do {
      const from: DeadPlace | undefined = place
      const step = await this.#inTurn(from?.id, async (store, id) => {
        const found = await store.deadGroups(destination, from && { ...from, id }, left)
        return { found, next: found.next?.id }
      })
      for (const group of step.found?.groups ?? []) {
        groups.push(group)
        left -= group.count
      }
      for (const name of step.away) away.add(name)
      const isNextServer = step.found?.next === undefined
      place = isNextServer ? startOf(step.next) : step.found?.next
    } while (place && left > 0)
    return { groups: joined(groups), next: place, ...(away.size > 0 && { away: [...away] }) }
  }

  async deadCounts(
    destinations: readonly string[],
    withinMs: number,
    most: number,
  ): Promise<DeadCounts> {
    const { answers, away } = await this.#askAll((store) =>
      store.deadCounts(destinations, withinMs, most),
    )
    const sum = (i: number) => answers.reduce((all, { answer }) => all + (answer.counts[i] ?? 0), 0)
    const counts = destinations.map((_, i) => Math.min(most, sum(i)))
    return { counts, ...(away.length > 0 && { away }) }
  }

  async replay(
    ids: readonly DeliveryId[],
    withDone: boolean,
    lane?: ReplayLane,
    asOf?: number,
  ): Promise<DeliveryId[]> {
    const parts = grouped(ids, (id) => this.#byNumber.get(serverOf(id)))
    const replayed = Array.from(parts, async ([server, own]) => {
      if (server) return server.ask((store) => store.replay(own, withDone, lane, asOf))
      await this.#requireServersOf(own)
      return []
    })
    return (await Promise.all(replayed)).flat()
  }

  /**
   * The servers that can't be reached are swept once they are back.
   *
   * @throws StoreError if a server fails for another reason, once the others have nothing more that is too old.
   */
  async sweep(olderThanMs: number, limit: number, expired?: OnExpired): Promise<number> {
    const { swept, errors } = await this.#untilLimit(limit, (store, left) =>
      store.sweep(olderThanMs, left, expired),
    )
    await this.#forgetFormer()
    const failure = errors.find(({ isUnreachable }) => !isUnreachable)
    if (failure && swept < limit) throw failure
    return swept
  }

  /** Former owners of shares need not be asked any more once they have nothing from before the move. */
  async #forgetFormer(): Promise<void> {
    try {
      const { shares } = await this.#directories.refresh()
      const former = new Set(shares.flatMap((place) => place.former.map(({ server }) => server)))
      const { answers } = await this.#askAll(
        (store) => store.asServer.moving.firstId(),
        this.#all.filter(({ number }) => former.has(number)),
      )
      for (const { server, answer: first } of answers) {
        await this.#home.ask((store) => store.asServer.moving.forget(server.number, first))
      }
    } catch (error) {
      // A later sweep does it.
      if (!isAway(error)) throw error
    }
  }

  /** @throws StoreError if a server is away or fails, once the others have discarded everything. */
  async discard(destination: string, limit: number): Promise<number> {
    const { swept, errors } = await this.#untilLimit(limit, (store, left) =>
      store.discard(destination, left),
    )
    if (swept > 0) return swept
    const [failure] = errors
    if (failure) throw failure
    await this.#requireKnown()
    return 0
  }

  /** @throws StoreError if a server is away and the others have nothing. */
  async hasUser(user: string): Promise<boolean> {
    const { answers, away } = await this.#askUntilFound(
      (store) => store.hasUser(user),
      (has) => has,
    )
    if (answers.some(({ answer }) => answer)) return true
    this.#requireAll(away)
    return false
  }

  /**
   * Server by server. If shares are being moved, or were not long ago, then all over again, because a message may have gone from a
   * server whose turn came later to one whose turn was over. In the second round, `from` is negative.
   *
   * @throws StoreError if the server whose turn it is is away, or at the end if this process does not know all servers: a deletion has
   * to be complete.
   */
  async purgeUser(user: string, from: number): Promise<Purged> {
    const { purged, next } = await this.#purgeUser(user, Math.abs(from))
    if (next !== undefined) return { purged, next: from < 0 ? -next : next }
    await this.#requireKnown()
    const isAgain = from >= 0 && this.#directories.isMoving
    return { purged, next: isAgain ? -fromOf(0) : undefined }
  }

  async #purgeUser(user: string, from: number): Promise<Purged> {
    const number = Math.max(0, serverOf((from - 1) * CUT))
    const i = this.#all.findIndex((server) => server.number >= number)
    const server = this.#all[i]
    if (!server) return { purged: 0, next: undefined }
    const start = server.number === number && from > fromOf(floorOf(number) / CUT) ? from : 0
    const { purged, next } = await server.ask((store) => store.purgeUser(user, start))
    const following = this.#all[i + 1]
    if (next !== undefined || !following) return { purged, next }
    return { purged, next: fromOf(floorOf(following.number) / CUT) }
  }

  async count(): Promise<number> {
    const { answers, away } = await this.#askAll((store) => store.count())
    this.#requireAll(away)
    return answers.reduce((sum, { answer }) => sum + answer, 0)
  }

  async copyOut(after: DeliveryId, limit: number): Promise<Copy[]> {
    for (const server of this.#all) {
      if (after >= ceilingOf(server.number)) continue
      const copies = await server.ask((store) => store.copyOut(after, limit))
      if (copies.length > 0) return copies
    }
    return []
  }

  copyIn(copies: Copy[]): Promise<boolean[]> {
    return this.#ofSources(copies, (store, own) => store.copyIn(own))
  }

  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]> {
    return this.#ofSources(copies, (store, own) => store.copiesOf(own))
  }

  /**
   * Also waits until each server has the settlements that it could not take so far, and what was leased and not sent. The caller limits
   * that, because a server may be away for hours.
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const left = await this.#claiming.close()
    const given = left.map((one) => unsent(one, retryLane(one)))
    if (given.length > 0) await this.#settle(given)
    await Promise.all(Array.from(this.#settlings.values(), (settling) => settling.drain()))
    await Promise.all(this.#all.map((server) => server.close()))
  }

  #settlingOf(server: Server): Settling {
    // There is one for each server.
    return this.#settlings.get(server) as Settling
  }

  /** Listens to the servers that could be opened and are not listened to yet. */
  #listen(): void {
    if (!this.#isListening) return
    for (const server of this.#all) {
      const { store } = server
      if (!store || this.#heard.has(store)) continue
      this.#heard.add(store)
      store.shared.onPut((destination, lane) => {
        this.#claiming.report(server, destination, lane)
      })
      store.onRemoved((ids) => {
        // A server can't say of the messages of another one that they are deleted.
        this.#removedListener?.(ids.filter((id) => serverOf(id) === server.number))
      })
    }
  }

  /** A server that was away at the start gets its store later. It is given the same listener again then. */
  #hearSettled(): void {
    const listener = this.#settledListener
    if (listener) for (const { store } of this.#all) store?.onSettled(listener)
  }

  /** A method that asks the home alone. */
  #atHome<Name extends AtHome>(name: Name): Store[Name] {
    const ask = (...given: unknown[]) =>
      this.#home.ask((store) =>
        (store[name] as (...given: unknown[]) => Promise<unknown>).apply(store, given),
      )
    return ask as Store[Name]
  }

  #createShared(): Shared {
    const atHome = <T>(question: (shared: Shared) => Promise<T>) =>
      this.#home.ask(({ shared }) => question(shared))
    return {
      workers: {
        heartbeat: () => atHome(({ workers }) => workers.heartbeat()),
        tryProbes: (...given) => atHome(({ workers }) => workers.tryProbes(...given)),
        noteDown: (...given) => atHome(({ workers }) => workers.noteDown(...given)),
        findDown: (...given) => atHome(({ workers }) => workers.findDown(...given)),
        endProbes: (...given) => atHome(({ workers }) => workers.endProbes(...given)),
      },
      liveWorkers: () => atHome((shared) => shared.liveWorkers()),
      onPut: (listener) => {
        this.#claiming.listen(listener)
        this.#isListening = true
        this.#listen()
      },
      gone: (ids) => this.#gone(ids),
      onRecords: (listener) => {
        // The home is open from the start.
        this.#home.store?.shared.onRecords(listener)
      },
    }
  }

  /** Leaves out what a server says that does not answer in time. */
  async #gone(ids: readonly DeliveryId[]): Promise<DeliveryId[]> {
    const parts = grouped(ids, (id) => this.#byNumber.get(serverOf(id)))
    const gone: DeliveryId[] = []
    const asked = Array.from(parts, async ([server, own]) => {
      gone.push(...((await server?.ask(({ shared }) => shared.gone(own))) ?? []))
    })
    await endOf(asked, this.#patienceMs)
    return [...gone]
  }

  /**
   * Asks all servers at once.
   *
   * @throws StoreError if all are away, or if one fails for another reason.
   */
  async #askAll<T>(
    question: (store: ServerStore, server: Server) => Promise<T>,
    servers: readonly Server[] = this.#all,
  ): Promise<Asked<T>> {
    const away = this.#unknown
    const asked = servers.map(async (server) => {
      try {
        return { server, answer: await server.ask((store) => question(store, server)) }
      } catch (error) {
        if (!isAway(error)) throw error
        away.push(server.name)
        return undefined
      }
    })
    const answers = (await Promise.all(asked)).filter((one) => one !== undefined)
    if (answers.length === 0 && servers.length > 0) this.#requireAll(away)
    return { answers, away }
  }

  /** Asks again if nothing is found while shares move: a message may have gone from a server that was asked later to another one. */
  async #askUntilFound<T>(
    question: (store: ServerStore) => Promise<T>,
    isFound: (answer: T) => boolean,
  ): Promise<Asked<T>> {
    const asked = await this.#askAll(question)
    if (asked.answers.some(({ answer }) => isFound(answer))) return asked
    await this.#directories.refresh().catch(ignoreAway)
    const isOther = this.#directories.isMoving || this.#unknown.length > 0
    return isOther ? this.#askAll(question) : asked
  }

  /**
   * Which of the servers that are away, or that this process does not know, may have more of a message. The messages of a source are
   * on one server, so what was found is complete, unless the share of the source has moved, or two sources have sent the same id.
   */
  async #lacking(found: readonly Trace[], away: readonly string[]): Promise<readonly string[]> {
    if (found.length === 0) return away
    await this.#directories.refresh().catch(ignoreAway)
    const names = new Set(found.flatMap(({ source }) => this.#directories.movedBetween(source)))
    return [...new Set([...away, ...this.#unknown])].filter((name) => names.has(name))
  }

  /** The names of the servers that this process can't ask, because it does not know them. */
  get #unknown(): string[] {
    return this.#directories.unknown.map(({ name }) => name)
  }

  /** @throws StoreError if there is a server that this process does not know. */
  async #requireKnown(): Promise<void> {
    await this.#directories.refresh()
    this.#requireAll(this.#unknown)
  }

  /** @throws StoreError if these ids are of a server that this process does not know. */
  async #requireServersOf(ids: readonly DeliveryId[]): Promise<void> {
    await this.#directories.refresh()
    const names = new Set(ids.map((id) => this.#directories.nameOf(serverOf(id))))
    this.#requireAll(this.#unknown.filter((name) => names.has(name)))
  }

  /** @throws StoreError if there is a server that could not be asked. */
  #requireAll(away: readonly string[]): void {
    if (away.length === 0) return
    const names = away.join(', ')
    throw new StoreError(
      'failed',
      `store: ${names} can't be reached, so the answer would not be complete.`,
      {
        isUnreachable: true,
        server: names,
      },
    )
  }

  /**
   * Asks one server: the one whose ids come next, from the highest ones down. So an id says where to go on, whatever the server.
   *
   * @param before - The place; `undefined` to start.
   */
  async #inTurn<T>(
    before: DeliveryId | undefined,
    question: (
      store: ServerStore,
      before: DeliveryId,
    ) => Promise<{ found: T; next: DeliveryId | undefined }>,
  ): Promise<{ found?: T; next: DeliveryId | undefined; away: string[] }> {
    const i = this.#all.findLastIndex(
      ({ number }) => before === undefined || floorOf(number) < before,
    )
    const server = this.#all[i]
    const away = this.#unknown
    if (!server) return { next: undefined, away }
    const following = this.#all[i - 1]
    const end = following && ceilingOf(following.number)
    try {
      const start = Math.min(before ?? Infinity, ceilingOf(server.number))
      const { found, next = end } = await server.ask((store) => question(store, start))
      return { found, next, away }
    } catch (error) {
      if (!isAway(error)) throw error
      return { next: end, away: [...away, server.name] }
    }
  }

  /** Lets one server after the other work, until a limit is reached. What fails at one of them does not stop the others. */
  async #untilLimit(
    limit: number,
    work: (store: ServerStore, limit: number) => Promise<number>,
  ): Promise<{ swept: number; errors: StoreError[] }> {
    let swept = 0
    const errors: StoreError[] = []
    // Each time another one is the first, so that one that always reaches the limit does not keep the others waiting.
    this.#turn = (this.#turn + 1) % this.#all.length
    for (const server of [...this.#all.slice(this.#turn), ...this.#all.slice(0, this.#turn)]) {
      if (swept === limit) break
      try {
        swept += await server.ask((store) => work(store, limit - swept))
      } catch (error) {
        if (!(error instanceof StoreError)) throw error
        errors.push(error)
      }
    }
    return { swept, errors }
  }

  /** Asks the server of each copy's source. */
  async #ofSources<T>(
    copies: readonly Copy[],
    question: (store: ServerStore, copies: Copy[]) => Promise<T[]>,
  ): Promise<T[]> {
    return inParts(
      copies,
      ({ source }) => this.#directories.placeOf(source).server,
      (server, own) => server.ask((store) => question(store, own)),
    )
  }

  #whileOpen<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closing) return Promise.reject(new StoreError('failed', 'The store is closed.'))
    return work()
  }
}

/** The place before all dead letters of a server, given by the id above all of its ids. */
function startOf(id: DeliveryId | undefined): DeadPlace | undefined {
  return id === undefined ? undefined : { diedAt: Number.MAX_SAFE_INTEGER, id }
}

/** Works on the items of each key together. The results are in the order of the items. */
async function inParts<Item, Key, Result>(
  items: readonly Item[],
  keyOf: (item: Item) => Key,
  work: (key: Key, items: Item[]) => Promise<Result[]>,
): Promise<Result[]> {
  const results: Result[] = []
  const parts = grouped([...items.entries()], ([, item]) => keyOf(item))
  await Promise.all(
    Array.from(parts, async ([key, own]) => {
      const found = await work(
        key,
        own.map(([, item]) => item),
      )
      for (const [n, [i]] of own.entries()) results[i] = found[n] as Result
    }),
  )
  return results
}

function ignoreAway(error: unknown): void {
  if (!isAway(error)) throw error
}
