import type { State } from '../model/delivery.js'

/**
 * The states of deliveries, each at the index that both databases store for it. Never change the order: existing
 * stores have these numbers in their rows.
 */
const STATES: readonly State[] = ['fresh', 'backlog', 'leased', 'dead', 'done', 'skipped']

export const FRESH = 0
export const BACKLOG = 1
export const LEASED = 2
/**
 * Deliveries up to this state wait or can be replayed. SQLite's index `waiting` and PostgreSQL's table `waiting`
 * contain exactly these.
 */
export const DEAD = 3
export const DONE = 4
export const SKIPPED = 5

/** The number that is stored for a state. */
export function stateNumber(state: State): number {
  return STATES.indexOf(state)
}

/** The state for a stored number. */
export function stateOf(number: number): State {
  // The cast holds: only indexes of STATES are written.
  return STATES[number] as State
}
