// A store in memory, with the semantics of the real ones. `memory-store.test.ts` holds it to their contract.
import type {
  AttemptLog,
  Claim,
  Copy,
  Delivery,
  DeliveryId,
  Lane,
  NewDelivery,
  Settlement,
  State,
  Stats,
  Trace,
} from '../../src/model/delivery.js'
import {
  LEASE_MS,
  NEWEST,
  RETRIED_MS,
  type DueLane,
  type OnExpired,
  type ReplayLane,
  type Store,
} from '../../src/store/store.js'
import { WORKER_TIMEOUT_MS, type Workers } from '../../src/store/workers.js'
import { LANES } from '../../src/store/states.js'
import { StoreError } from '../../src/store/store-error.js'

type Row = Omit<Copy, 'dueAt'> & {
  /** For settled deliveries, when they were settled. */
  dueAt: number
}

/** The deliveries of one destination in one state. */
interface Shelf {
  destination: string
  rows: Set<Row>
  /** No delivery is due before this time. */
  dueFrom: number
}

const isWaiting = (state: State) => state !== 'done' && state !== 'dead' && state !== 'skipped'

/** The rows. All methods are synchronous. Several workers may use them. */
export class MemoryTables {
  readonly #rows = new Map<DeliveryId, Row>()
  readonly #known = new Map<string, Row>()
  readonly #shelves = new Map<string, Shelf>()
  #nextId = 1

  /** @param now - The store's clock, in ms. */
  constructor(readonly now: () => number) {}

  put(deliveries: readonly NewDelivery[]): (DeliveryId | undefined)[] {
    return deliveries.map((delivery) => {
      if (this.#known.has(keyOf(delivery))) return undefined
      const now = this.now()
      const isLeased = delivery.state === 'leased'
      const row: Row = {
        ...{ id: this.#nextId++, messageId: delivery.messageId, source: delivery.source },
        ...{ destination: delivery.destination, type: delivery.type, user: delivery.user },
        ...{ event: delivery.event ?? '', body: delivery.body, state: delivery.state },
        traceParent: delivery.traceParent ?? null,
        reason: delivery.reason ?? null,
        receivedAt: now,
        firstAttemptAt: isLeased ? now : null,
        dueAt: isLeased ? now + LEASE_MS : now,
        attempt: isLeased ? 1 : 0,
        attemptsBefore: 0,
        replayedAt: null,
        refusedBy: [],
        attempts: [],
      }
      this.#add(row)
      return row.id
    })
  }

  claim(claims: readonly Claim[]): Delivery[] {
    return claims.flatMap((claim) => this.#claimOne(claim))
  }

  due(): DueLane[] {
    const destinations = new Set(
      Array.from(this.#shelves.values(), ({ destination }) => destination),
    )
    return Array.from(destinations).flatMap((destination) =>
      LANES.filter((lane) => {
        const states: State[] = lane === 'backlog' ? ['backlog', 'leased'] : [lane]
        return states.some((state) => this.#isDue(destination, state))
      }).map((lane) => ({ destination, lane })),
    )
  }

  /** @returns whether each was accepted. */
  settle(settlements: readonly Settlement[]): boolean[] {
    return settlements.map((settlement) => this.#settleOne(settlement))
  }

  replay(ids: readonly DeliveryId[], withDone: boolean, lane: ReplayLane): DeliveryId[] {
    return ids.filter((id) => {
      const row = this.#rows.get(id)
      if (!row || !(row.state === 'dead' || (withDone && row.state === 'done'))) return false
      this.#move(row, lane, this.now())
      Object.assign(row, {
        replayedAt: this.now(),
        attemptsBefore: row.attempt,
        firstAttemptAt: null,
        refusedBy: [],
        reason: null,
      })
      return true
    })
  }

  /** Deletes all of a user. @returns which of it was leased. */
  purge(user: string): DeliveryId[] {
    const own = Array.from(this.#rows.values()).filter((row) => row.user === user)
    const leased = own.filter(({ state }) => state === 'leased').map(({ id }) => id)
    for (const row of own) this.#remove(row)
    return leased
  }

  sweep(olderThanMs: number, limit: number, expired?: OnExpired): number {
    const before = this.now() - olderThanMs
    const old = Array.from(this.#rows.values()).filter(
      (row) => (row.state === 'dead' ? row.dueAt : (row.replayedAt ?? row.receivedAt)) < before,
    )
    const first = old.sort((a, b) => Number(b.state === 'dead') - Number(a.state === 'dead'))
    let changed = 0
    for (const row of first) {
      if (changed >= limit) break
      if (row.state === 'leased' && row.dueAt > this.now()) continue
      // It has other attempts to come.
      const isRetried = (row.firstAttemptAt ?? -Infinity) > this.now() - RETRIED_MS
      if (isRetried && isWaiting(row.state)) continue
      changed++
      if (isWaiting(row.state)) {
        this.#move(row, 'dead', this.now())
        expired?.(row.destination, 1)
        Object.assign(row, { reason: 'older than the retention', replayedAt: null })
      } else {
        this.#remove(row)
      }
    }
    return changed
  }

  deadCounts(destinations: readonly string[], withinMs: number, most: number): number[] {
    const dead = Array.from(this.#rows.values()).filter(
      ({ state, dueAt }) => state === 'dead' && dueAt > this.now() - withinMs,
    )
    return destinations.map((name) =>
      Math.min(most, dead.filter(({ destination }) => destination === name).length),
    )
  }

  #remove(row: Row): void {
    this.#shelf(row.destination, row.state).rows.delete(row)
    this.#rows.delete(row.id)
    this.#known.delete(keyOf(row))
  }

  stats(): Stats[] {
    const found = new Map<string, Stats>()
    for (const { destination, state, receivedAt } of this.#rows.values()) {
      if (state === 'done' || state === 'skipped') continue
      const none = { fresh: 0, backlog: 0, bulk: 0, leased: 0, dead: 0, oldestMs: 0 }
      const stats = found.get(destination) ?? { destination, ...none }
      found.set(destination, stats)
      stats[state]++
      if (state !== 'dead') stats.oldestMs = Math.max(stats.oldestMs, this.now() - receivedAt)
    }
    return Array.from(found.values())
  }

  trace(messageId: string): Trace[] {
    return Array.from(this.#rows.values())
      .filter((row) => row.messageId === messageId)
      .map(traceOf)
  }

  get(id: DeliveryId): Trace | undefined {
    const row = this.#rows.get(id)
    return row && traceOf(row)
  }

  /** The state of a delivery, without a copy of all its fields. */
  stateOf(id: DeliveryId): State | undefined {
    return this.#rows.get(id)?.state
  }

  count(): number {
    return this.#rows.size
  }

  copyOut(after: DeliveryId, limit: number): Copy[] {
    return Array.from(this.#rows.values())
      .filter(({ id }) => id > after)
      .slice(0, limit)
      .map(copyOf)
  }

  copyIn(copies: readonly Copy[]): boolean[] {
    const broken = copies.find(({ attempt }) => typeof attempt !== 'number')
    if (broken) throw new StoreError('failed', 'The attempt of a copy is not a number.')
    return copies.map((copy) => {
      if (this.#known.has(keyOf(copy))) return false
      this.#add({ ...copy, id: this.#nextId++, dueAt: copy.dueAt ?? this.now() })
      return true
    })
  }

  copiesOf(copies: readonly Copy[]): (Copy | undefined)[] {
    return copies.map((copy) => {
      const row = this.#known.get(keyOf(copy))
      return row && copyOf(row)
    })
  }

  #claimOne({ destination, lane, limit, isUntried }: Claim): Delivery[] {
    const due = this.#due(destination, lane)
    const found = isUntried
      ? due
          .slice(-NEWEST)
          .reverse()
          .filter(({ attempt }) => attempt === 0)
      : lane === 'backlog'
        ? [...due, ...this.#due(destination, 'leased')].sort(byDue)
        : due
    return found.slice(0, limit).map((row) => this.#lease(row, lane))
  }

  #isDue(destination: string, state: State): boolean {
    const { rows, dueFrom } = this.#shelf(destination, state)
    return dueFrom <= this.now() && Array.from(rows).some(({ dueAt }) => dueAt <= this.now())
  }

  #due(destination: string, state: State): Row[] {
    const shelf = this.#shelf(destination, state)
    const now = this.now()
    if (shelf.dueFrom > now) return []
    const due: Row[] = []
    let dueFrom = Infinity
    for (const row of shelf.rows) {
      dueFrom = Math.min(dueFrom, row.dueAt)
      if (row.dueAt <= now) due.push(row)
    }
    shelf.dueFrom = dueFrom
    return due.sort(byDue)
  }

  #lease(row: Row, lane: Lane): Delivery {
    // An attempt whose lease ran out does not count, because it may never have been made.
    if (row.state === 'leased') row.attemptsBefore++
    const dueForMs = this.now() - row.dueAt
    row.attempt++
    row.firstAttemptAt ??= this.now()
    this.#move(row, 'leased', this.now() + LEASE_MS)
    const { id, attempt, attemptsBefore, messageId, source, destination, type, body } = row
    const sinceFirstMs = this.now() - row.firstAttemptAt
    return {
      ...{ id, attempt, attemptsBefore, messageId, source, destination, type, body, sinceFirstMs },
      ...(row.traceParent !== null && { traceParent: row.traceParent }),
      ...{ lane, refusedBy: row.refusedBy, dueForMs },
    }
  }

  #settleOne({ id, attempt, next, refusedBy, isUnsent, log }: Settlement): boolean {
    const row = this.#rows.get(id)
    if (row?.state !== 'leased' || row.attempt !== attempt) return false
    if ('delayMs' in next && !Number.isFinite(next.delayMs)) return false
    const at = row.dueAt - LEASE_MS
    this.#move(row, next.state, this.now() + ('delayMs' in next ? Math.round(next.delayMs) : 0))
    row.refusedBy = [...refusedBy]
    row.reason = next.state === 'dead' ? next.reason : null
    if (isUnsent) {
      row.attemptsBefore++
      // If this would have been the first attempt, the window has not begun.
      // Its time is a fraction here, so that the sum and difference of a lease may round it.
      if (Math.abs((row.firstAttemptAt ?? 0) - at) < 0.001) row.firstAttemptAt = null
    }
    if (next.state === 'dead') row.replayedAt = null
    row.attempts.push(...log.map((post: AttemptLog) => ({ ...post, attempt, at })))
    return true
  }

  #add(row: Row): void {
    this.#rows.set(row.id, row)
    this.#known.set(keyOf(row), row)
    this.#move(row, row.state, row.dueAt)
  }

  #move(row: Row, state: State, dueAt: number): void {
    this.#shelf(row.destination, row.state).rows.delete(row)
    row.state = state
    row.dueAt = dueAt
    const shelf = this.#shelf(row.destination, state)
    shelf.rows.add(row)
    shelf.dueFrom = Math.min(shelf.dueFrom, dueAt)
  }

  #shelf(destination: string, state: State): Shelf {
    const key = `${state} ${destination}`
    let shelf = this.#shelves.get(key)
    if (!shelf)
      this.#shelves.set(key, (shelf = { destination, rows: new Set(), dueFrom: Infinity }))
    return shelf
  }
}

/** What several workers share beside the rows. */
export class MemoryWorkers {
  readonly #seenAt = new Map<number, number>()
  readonly #probes = new Map<string, { heldUntil: number; holdMs: number }>()
  #nextId = 1

  /** @param now - The store's clock, in ms. */
  constructor(readonly now: () => number) {}

  /** The port of one worker. */
  join(): Workers & { leave(): void } {
    const id = this.#nextId++
    const all = this.#seenAt
    return {
      heartbeat: () => {
        all.set(id, this.now())
        for (const [other, at] of all) if (this.now() - at >= WORKER_TIMEOUT_MS) all.delete(other)
        return Promise.resolve(all.size)
      },
      tryProbes: (endpoints, firstMs, maxMs) =>
        Promise.resolve(endpoints.map((one) => this.#tryProbe(one, firstMs, maxMs))),
      noteDown: (down, firstMs, maxMs) => {
        const now = this.now()
        for (const { endpoint, forMs } of down) {
          const held = this.#probes.get(endpoint)
          const holdMs =
            held !== undefined && held.heldUntil > now - maxMs ? held.holdMs : firstMs / 2
          const heldUntil = Math.max(held?.heldUntil ?? 0, now + forMs)
          this.#probes.set(endpoint, { heldUntil, holdMs })
        }
        return Promise.resolve()
      },
      findDown: (maxMs) => {
        const now = this.now()
        const down = Array.from(this.#probes).filter(([, { heldUntil }]) => heldUntil > now - maxMs)
        return Promise.resolve(
          down.map(([endpoint, { heldUntil }]) => ({
            endpoint,
            forMs: Math.max(0, heldUntil - now),
          })),
        )
      },
      endProbes: (endpoints) => {
        for (const endpoint of endpoints) this.#probes.delete(endpoint)
        return Promise.resolve()
      },
      leave: () => {
        all.delete(id)
      },
    }
  }

  #tryProbe(endpoint: string, firstMs: number, maxMs: number): number | undefined {
    const held = this.#probes.get(endpoint)
    const now = this.now()
    if (!held) return undefined
    if (held.heldUntil > now) return 0
    const isSame = held.heldUntil > now - maxMs
    const holdMs = isSame ? Math.min(held.holdMs * 2, maxMs) : firstMs
    this.#probes.set(endpoint, { heldUntil: now + holdMs, holdMs })
    return holdMs
  }
}

/** The same as a store. Searches, audiences, deletions and records are left out: the deliver stage does not use them. */
export function openMemory(tables: MemoryTables): Store {
  let isClosed = false
  let tellSettled: (settlements: readonly Settlement[]) => void = () => undefined
  const run = <T>(work: () => T): Promise<T> =>
    new Promise((resolve) => {
      if (isClosed) throw new StoreError('failed', 'The store is closed.')
      resolve(work())
    })
  const leftOut = () => Promise.reject(new StoreError('unsupported', 'Not in this store.'))
  return {
    clock: { now: tables.now, wall: tables.now },
    put: (deliveries) => run(() => tables.put(deliveries)),
    claim: (claims) => run(() => tables.claim(claims)),
    due: () => run(() => tables.due()),
    settle: (all) =>
      run(() => {
        const accepted = tables.settle(all)
        tellSettled(all.filter((_, i) => accepted[i]))
        return accepted.filter((isAccepted) => !isAccepted).length
      }),
    onSettled: (listener) => {
      tellSettled = listener
    },
    // Nobody is deleted here.
    onRemoved: () => undefined,
    ping: () => run(() => undefined),
    stats: () => run(() => tables.stats()),
    completeStats: () => run(() => tables.stats()),
    trace: (messageId) => run(() => tables.trace(messageId)),
    get: (id) => run(() => tables.get(id)),
    replay: (ids, withDone, lane = 'backlog') => run(() => tables.replay(ids, withDone, lane)),
    sweep: (...given) => run(() => tables.sweep(...given)),
    deadCounts: (...given) => run(() => ({ counts: tables.deadCounts(...given) })),
    count: () => run(() => tables.count()),
    copyOut: (after, limit) => run(() => tables.copyOut(after, limit)),
    copyIn: (copies) => run(() => tables.copyIn(copies)),
    copiesOf: (copies) => run(() => tables.copiesOf(copies)),
    close: () => {
      isClosed = true
      return Promise.resolve()
    },
    ...{
      find: leftOut,
      match: leftOut,
      deadGroups: leftOut,
      addHistory: leftOut,
      history: leftOut,
      beginSync: leftOut,
      join: leftOut,
      leave: leftOut,
      forgetDestinations: leftOut,
    },
    ...{
      writeRecords: leftOut,
      records: leftOut,
      recordLog: leftOut,
      forgetRecords: leftOut,
      copyRecordsIn: leftOut,
      copyLogIn: leftOut,
    },
    ...{ discard: leftOut, hasUser: leftOut, purgeUser: leftOut, catchUp: leftOut },
  }
}

function keyOf({
  messageId,
  source,
  destination,
}: Pick<Row, 'messageId' | 'source' | 'destination'>) {
  return JSON.stringify([messageId, source, destination])
}

function byDue(a: Row, b: Row): number {
  return a.dueAt - b.dueAt || a.id - b.id
}

function copyOf(row: Row): Copy {
  const { state, dueAt } = row
  const isOver = state === 'done' || state === 'skipped'
  return { ...row, dueAt: isOver ? null : dueAt, attempts: [...row.attempts] }
}

function traceOf(row: Row): Trace {
  const { id, messageId, source, destination, type, event, user, body, state, reason } = row
  return {
    ...{ id, messageId, source, destination, type, event, user, body, state, reason },
    receivedAt: row.receivedAt,
    firstAttemptAt: row.firstAttemptAt,
    dueAt: isWaiting(state) ? row.dueAt : null,
    attempts: [...row.attempts],
  }
}
