import type { State } from '../../model/delivery.js'
import { BACKLOG, LEASED, stateNumber } from '../states.js'

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
