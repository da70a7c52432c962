import type { DeliveryId } from '../../model/delivery.js'
import type { Shared } from './shared.js'
import { BACKLOG, DEAD, DONE } from '../states.js'

/** Replays a dead letter and, with `withDone`, a delivered message. Returns whether it did. */
export function prepareReplay({ database, counts }: Shared) {
  const find = database.prepare('SELECT destination, state FROM deliveries WHERE id = ?')
  const revive = database.prepare(
    `UPDATE deliveries SET state = ${BACKLOG}, due_at = ?, replayed_at = ?, attempts_before = attempt,
       first_attempt_at = NULL, refused_by = NULL, reason = NULL
     WHERE id = ?`,
  )
  return (id: DeliveryId, withDone: boolean, now: number): boolean => {
    const row = find.get(id) as { destination: number; state: number } | undefined
    if (row?.state !== DEAD && !(withDone && row?.state === DONE)) return false
    revive.run(now, now, id)
    counts.move(row.destination, row.state, BACKLOG, id)
    return true
  }
}
