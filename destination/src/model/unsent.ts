import type { Delivery, Lane, Settlement } from './delivery.js'

/** The end of a claim whose delivery is not sent after all. It goes to the place in the lane that it had before. */
export function unsent({ id, attempt, refusedBy, dueForMs = 0 }: Delivery, lane: Lane): Settlement {
  const next = { state: lane, delayMs: 0 - dueForMs }
  return { id, attempt, next, refusedBy, isUnsent: true, log: [] }
}
