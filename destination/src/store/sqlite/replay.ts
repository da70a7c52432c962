import type { DeliveryId } from '../../model/delivery.js'
import type { ReplayLane } from '../store.js'
import type { Shared } from './shared.js'
import { DEAD, DONE, stateNumber } from '../states.js'

/** Replays a dead letter and, with `withDone`, a delivered message. Returns whether it did. */
export function prepareReplay({ database, counts }: Shared) {
  const find = database.prepare('SELECT destination, state FROM deliveries WHERE id = ?')
  const revive = database.prepare(
    `UPDATE deliveries SET state = ?, due_at = ?, replayed_at = ?, attempts_before = attempt,
       first_attempt_at = NULL, refused_by = NULL, reason = NULL
     WHERE id = ?`,
  )
  return (id: DeliveryId, withDone: boolean, lane: ReplayLane, now: number): boolean => {
    const row = find.get(id) as { destination: number; state: number } | undefined
    if (row?.state !== DEAD && !(withDone && row?.state === DONE)) return false
    const state = stateNumber(lane)
    revive.run(state, now, now, id)
    counts.move(row.destination, row.state, state, id)
    return true
  }
}
