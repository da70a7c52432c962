import type { State } from '../model/delivery.js'

/** The states of deliveries in the order of the numbers under which both databases keep them. Never change them. */
const STATES: readonly State[] = ['fresh', 'backlog', 'leased', 'dead', 'done', 'skipped']

export const FRESH = 0
export const BACKLOG = 1
export const LEASED = 2
/** The states up to this one wait, or can be replayed: SQLite's index `waiting` and PostgreSQL's table `waiting` have them. */
export const DEAD = 3
export const DONE = 4
export const SKIPPED = 5

/** The number of a state. */
export function stateNumber(state: State): number {
  return STATES.indexOf(state)
}

/** The state of a number that a row has. */
export function stateOf(number: number): State {
  // Only the numbers of this list are ever written.
  return STATES[number] as State
}
