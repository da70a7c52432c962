import type { Delivery, Lane, State } from '../model/delivery.js'

/** Bulk work. It is below the others, so that all numbers up to {@link BACKLOG} are lanes, and the indexes contain it. */
export const BULK = -1
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

/** The numbers that both databases store. Never change one: existing stores have these numbers in their rows. */
const NUMBERS: Readonly<Record<State, number>> = {
  bulk: BULK,
  fresh: FRESH,
  backlog: BACKLOG,
  leased: LEASED,
  dead: DEAD,
  done: DONE,
  skipped: SKIPPED,
}

/** The reason of a dead letter that waited for longer than the retention. */
export const EXPIRED = 'older than the retention'

const STATES = new Map(Object.entries(NUMBERS).map(([state, number]) => [number, state as State]))

/** The states in which deliveries wait. Where there is room for some only, this is the order of the claims. */
export const LANES: readonly Lane[] = ['fresh', 'backlog', 'bulk']

/** Where a delivery waits for its next attempt. Bulk work that fails must not delay the retries of other messages. */
export function retryLane({ lane }: Pick<Delivery, 'lane'>): 'backlog' | 'bulk' {
  return lane === 'bulk' ? 'bulk' : 'backlog'
}

/** The number that is stored for a state. */
export function stateNumber(state: State): number {
  return NUMBERS[state]
}

/** The state for a stored number. */
export function stateOf(number: number): State {
  // The cast holds: only these numbers are written.
  return STATES.get(number) as State
}
