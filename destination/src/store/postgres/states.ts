import type { State } from '../../model/delivery.js'
import { BACKLOG, LEASED, stateNumber } from '../states.js'
import { NOW } from './tables.js'

/**
 * In ms, 139 years. A message that is about to be moved is leased until so much later than it was due. So nobody claims, buries or
 * discards it, and it needs no table of its own. After an interruption, the next move finds it by this time, and what is due in it.
 */
export const PARKED_MS = 2 ** 42

/**
 * In ms: half an hour. A retry waits for 18 minutes at most, and a lease is shorter. The rest is for a clock that was set back a
 * little, and for statements that began some minutes ago: their time is the one at which they began.
 */
export const MOST_AHEAD_MS = 1_800_000

/**
 * The number that a row has for a state. What is stored leased is in the backlog with a mark, and is due when its lease ends. So
 * a claim finds leases that have run out without a query of their own.
 */
export function storedState(state: State): number {
  return state === 'leased' ? BACKLOG : stateNumber(state)
}

/**
 * The SQL expression for the time at which a delivery is due, or its lease ends. What is claimed keeps its lane and its `due_at`
 * while it is leased: both are in an index, and a row of which no index changes costs the server much less.
 */
export const DUE_AT = 'coalesce(lease_until, due_at)'

/**
 * The SQL expression for the number of a delivery's state.
 *
 * @param waiting - The alias of its row in `waiting`.
 * @param done - The alias of its row in `done`.
 */
export function stateColumn(waiting: string, done: string): string {
  return `CASE WHEN ${waiting}.leased THEN ${LEASED} ELSE coalesce(${waiting}.state, ${done}.state) END`
}

/**
 * The SQL condition for a time that can only be so late because the server's clock was ahead when it was written.
 *
 * @param time - A column that says until when a message waits or is leased.
 */
export function isAhead(time: string): string {
  return `${time} > ${NOW} + ${MOST_AHEAD_MS} AND ${time} < ${PARKED_MS}`
}

/**
 * A common table expression `lanes` with the lanes in which something waits, or is dead. It jumps through the index `waiting_due` from
 * one lane of a destination to the next, whatever waits in them: https://wiki.postgresql.org/wiki/Loose_indexscan. The `LIMIT 1` forces
 * it to look into the index again for each lane.
 */
export function lanesOf(schema: string): string {
  return `lanes AS (
      (SELECT destination, state FROM ${schema}.waiting ORDER BY destination, state LIMIT 1)
      UNION ALL
      SELECT next.* FROM lanes CROSS JOIN LATERAL (
        SELECT destination, state FROM ${schema}.waiting w
        WHERE (w.destination, w.state) > (lanes.destination, lanes.state)
        ORDER BY destination, state LIMIT 1
      ) next
    )`
}
