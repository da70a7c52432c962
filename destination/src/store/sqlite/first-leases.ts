import { LEASE_MS } from '../store.js'
import { LEASED } from '../states.js'
import type { Database, Statement } from './driver.js'

/** How many ids the file may be behind. After a crash, the next start reads so many rows to find what was leased. */
const SAVE_EVERY_IDS = 10_000

/** How far behind the newest id a delivery may be. This limits what the next start reads, too. */
const NEAR_IDS = 100_000

/** The lease of a first attempt. */
interface FirstLease {
  destination: number
  /** When it began. */
  at: number
}

/**
 * The leases of the first attempts that are under way. They are in memory instead of in the index `waiting`, because most
 * messages are delivered at once: adding each of them to the index and removing it would cost as much as storing it. Once a
 * lease has run out, its delivery comes into the index. Only one process at a time has the file, so nobody else needs to know
 * of these leases. A new connection finds them in the rows.
 */
export class FirstLeases {
  /** By id. Those that began first come first. */
  readonly #leases = new Map<number, FirstLease>()
  readonly #list: Statement
  readonly #save: Statement
  /** The file says that no lease has a lower id. */
  #savedFrom: number
  /** The changes of the open transaction. */
  #added: [id: number, lease: FirstLease][] = []
  #removed = new Set<number>()
  #savingFrom: number | undefined

  constructor(database: Database) {
    this.#list = database.prepare(
      `UPDATE deliveries SET due_at = ? WHERE id = ? AND state = ${LEASED} AND due_at = 0`,
    )
    this.#save = database.prepare('UPDATE clock SET leased_from = ?')
    const clock = database.prepare('SELECT leased_from AS leasedFrom FROM clock').get()
    this.#savedFrom = (clock as { leasedFrom: number } | undefined)?.leasedFrom ?? 0
    const leased = database.prepare(
      `SELECT id, destination, first_attempt_at AS at FROM deliveries NOT INDEXED
       WHERE id >= ? AND state = ${LEASED} AND due_at = 0 ORDER BY at, id`,
    )
    for (const row of leased.all(this.#savedFrom)) {
      const { id, ...lease } = row as FirstLease & { id: number }
      this.#leases.set(id, lease)
    }
  }

  /** What the file says: every id that is given from now on must be at least this. */
  get savedFrom(): number {
    return this.#savedFrom
  }

  [Symbol.iterator](): Iterator<[id: number, lease: Readonly<FirstLease>]> {
    return this.#leases.entries()
  }

  add(id: number, destination: number, at: number): void {
    this.#added.push([id, { destination, at }])
  }

  /** The lease of a delivery; `undefined` if it has none of this kind, or was removed in this transaction. */
  get(id: number): Readonly<FirstLease> | undefined {
    return this.#removed.has(id) ? undefined : this.#leases.get(id)
  }

  remove(id: number): void {
    if (this.#leases.has(id)) this.#removed.add(id)
  }

  /** The destinations of which a lease has run out. */
  lapsedDestinations(now: number): Set<number> {
    const destinations = new Set<number>()
    for (const [, { destination }] of this.#lapsed(now)) destinations.add(destination)
    return destinations
  }

  /** Moves the leases that have run out into the index `waiting`. */
  list(now: number): void {
    for (const [id, { at }] of this.#lapsed(now)) {
      this.#list.run(at + LEASE_MS, id)
      this.#removed.add(id)
    }
  }

  /** Whether a delivery is new enough to be kept here. */
  isNear(id: number, nextId: number): boolean {
    return nextId - id <= NEAR_IDS
  }

  /** Writes down from which id on there may be leases, if the file is wrong or far behind, or `always`. */
  save(now: number, nextId: number, always = false): void {
    // One that nobody claims must not keep the others back.
    this.list(now)
    const isWrong = this.#added.some(([id]) => id < this.#savedFrom)
    if (nextId - this.#savedFrom < SAVE_EVERY_IDS && !isWrong && !always) return
    const from = this.#lowestId(nextId)
    // Without a row there is nothing to update. The clock writes one later.
    if (this.#save.run(from) > 0) this.#savingFrom = from
  }

  commit(): void {
    for (const id of this.#removed) this.#leases.delete(id)
    for (const [id, lease] of this.#added) this.#leases.set(id, lease)
    this.#savedFrom = this.#savingFrom ?? this.#savedFrom
    this.rollback()
  }

  rollback(): void {
    this.#added = []
    this.#removed.clear()
    this.#savingFrom = undefined
  }

  *#lapsed(now: number): Generator<[number, FirstLease]> {
    for (const entry of this.#leases) {
      if (entry[1].at + LEASE_MS > now) return
      if (!this.#removed.has(entry[0])) yield entry
    }
  }

  #lowestId(nextId: number): number {
    let lowest = nextId
    for (const id of this.#leases.keys()) lowest = Math.min(lowest, id)
    for (const [id] of this.#added) lowest = Math.min(lowest, id)
    return lowest
  }
}
