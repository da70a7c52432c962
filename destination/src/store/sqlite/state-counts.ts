import type { Stats } from '../../model/delivery.js'
import type { Database, Statement } from './driver.js'
import type { Names } from './names.js'
import type { FirstLeases } from './first-leases.js'
import { IS_LISTED } from './schema.js'
import { BACKLOG, BULK, DEAD, FRESH, LEASED, SKIPPED } from '../states.js'

/**
 * The most rows that one call reads to find the oldest delivery that waits. After a replay of old deliveries there can
 * be millions of rows between two that wait. Until the search has passed them, the reported age is too high.
 */
const LOOK = 20_000

/** The states of deliveries that still have to be sent. */
const UNSETTLED = [BULK, FRESH, BACKLOG, LEASED]

/** The counts of one destination. */
interface Counts {
  /**
   * By the number of the state, from {@link BULK} on. Only those up to DEAD are right: done and skipped deliveries are
   * not counted at opening.
   */
  states: number[]
  /** Every delivery with a lower id is settled. */
  oldestId: number
}

/**
 * How many deliveries each destination has in each state. Reading the counts costs the same with a million waiting rows
 * as with none. Opening the store fills them with one pass over the index `waiting`, and each committed transaction
 * updates them.
 */
export class StateCounts {
  readonly #counts = new Map<number, Counts>()
  readonly #oldest: Statement
  readonly #from: Statement
  /** The changes of the open transaction, four numbers each: destination, old state, new state, id of the delivery. */
  #moves: number[] = []

  constructor(database: Database, firstLeases: FirstLeases) {
    // Reads rows in the order of ids from the last result on. An index would not help: `waiting` is sorted by due time.
    this.#oldest = database.prepare(
      `SELECT id, received_at AS receivedAt FROM deliveries NOT INDEXED
       WHERE id >= ? AND id < ? AND destination = ? AND state <= ${LEASED} ORDER BY id LIMIT 1`,
    )
    this.#from = database.prepare(
      'SELECT id, received_at AS receivedAt FROM deliveries WHERE id >= ? ORDER BY id LIMIT 1',
    )
    const groups = database.prepare(
      `SELECT destination, state, count(*) AS count, min(id) AS firstId FROM deliveries INDEXED BY waiting
       WHERE ${IS_LISTED} GROUP BY destination, state`,
    )
    for (const row of groups.all()) {
      const group = row as { destination: number; state: number; count: number; firstId: number }
      const counts = this.#of(group.destination)
      counts.states[group.state - BULK] = group.count
      if (group.state < DEAD) counts.oldestId = Math.min(counts.oldestId, group.firstId)
    }
    for (const [id, { destination }] of firstLeases) this.#apply(destination, SKIPPED, LEASED, id)
  }

  /** Records that a delivery changes its state. `from` is `undefined` for a new delivery, `to` for a deleted one. */
  move(destination: number, from: number | undefined, to: number | undefined, id: number): void {
    this.#moves.push(destination, from ?? SKIPPED, to ?? SKIPPED, id)
  }

  commit(): void {
    const moves = this.#moves
    for (let i = 0; i < moves.length; i += 4) {
      this.#apply(moves[i] ?? 0, moves[i + 1] ?? 0, moves[i + 2] ?? 0, moves[i + 3] ?? 0)
    }
    this.#moves = []
  }

  rollback(): void {
    this.#moves = []
  }

  /** The numbers of the destinations that have deliveries in a state. */
  *destinationsIn(state: number): Generator<number> {
    for (const [destination, { states }] of this.#counts) {
      if ((states[state - BULK] ?? 0) > 0) yield destination
    }
  }

  /** How many deliveries of a destination are in a state. */
  countOf(destination: number, state: number): number {
    return this.#counts.get(destination)?.states[state - BULK] ?? 0
  }

  stats(names: Names, now: number): Stats[] {
    const all: Stats[] = []
    for (const [destination, counts] of this.#counts) {
      const [bulk = 0, fresh = 0, backlog = 0, leased = 0, dead = 0] = counts.states
      if (bulk + fresh + backlog + leased + dead === 0) continue
      const oldestMs = this.#oldestMs(destination, counts, now)
      const name = names.name(destination)
      all.push({ destination: name, fresh, backlog, bulk, leased, dead, oldestMs })
    }
    return all
  }

  #apply(destination: number, from: number, to: number, id: number): void {
    const counts = this.#of(destination)
    const { states } = counts
    states[from - BULK] = (states[from - BULK] ?? 0) - 1
    states[to - BULK] = (states[to - BULK] ?? 0) + 1
    if (to < DEAD) counts.oldestId = Math.min(counts.oldestId, id)
    else if (unsettled(counts) === 0) counts.oldestId = Infinity
  }

  #oldestMs(destination: number, counts: Counts, now: number): number {
    if (unsettled(counts) === 0) return 0
    const end = counts.oldestId + LOOK
    const row = (this.#oldest.get(counts.oldestId, end, destination) ?? this.#from.get(end)) as
      { id: number; receivedAt: number } | undefined
    if (!row) return 0
    counts.oldestId = row.id
    return Math.max(0, now - row.receivedAt)
  }

  #of(destination: number): Counts {
    let counts = this.#counts.get(destination)
    if (!counts) {
      counts = { states: [0, 0, 0, 0, 0], oldestId: Infinity }
      this.#counts.set(destination, counts)
    }
    return counts
  }
}

function unsettled({ states }: Counts): number {
  let count = 0
  for (const state of UNSETTLED) count += states[state - BULK] ?? 0
  return count
}
