import type { State } from '../../model/delivery.js'
import { BACKLOG, LEASED, stateNumber } from '../states.js'

/**
 * The number that a row has for a state. A leased delivery is stored in the backlog with a mark, and is due when its
 * lease ends. So a claim finds leases that have run out without a query of their own.
 */
export function storedState(state: State): number {
  return state === 'leased' ? BACKLOG : stateNumber(state)
}

/**
 * The SQL expression for the number of a delivery's state.
 *
 * @param waiting - The alias of its row in `waiting`.
 * @param done - The alias of its row in `done`.
 */
export function stateColumn(waiting: string, done: string): string {
  return `CASE WHEN ${waiting}.leased THEN ${LEASED} ELSE coalesce(${waiting}.state, ${done}.state) END`
}
