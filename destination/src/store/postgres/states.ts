import type { State } from '../../model/delivery.js'
import { BACKLOG, LEASED, stateNumber } from '../states.js'

/**
 * The number of a state in a row. A leased delivery is kept in the backlog, marked as leased, and is due when its lease
 * ends.
 */
export function storedState(state: State): number {
  return state === 'leased' ? BACKLOG : stateNumber(state)
}

/** In a statement: the number of the state of a delivery, by the aliases of its rows in `waiting` and in `done`. */
export function stateColumn(waiting: string, done: string): string {
  return `CASE WHEN ${waiting}.leased THEN ${LEASED} ELSE coalesce(${waiting}.state, ${done}.state) END`
}
