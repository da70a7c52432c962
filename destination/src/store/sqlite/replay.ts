import type { DeliveryId } from '../../model/delivery.js'
import type { ReplayLane } from '../store.js'
import type { Shared } from './shared.js'
import { HAS_POST, SETTLED_AT } from './schema.js'
import { DEAD, DONE, stateNumber } from '../states.js'

/** Replays a dead letter and, with `withDone`, a delivered message. Returns whether it did. */
export function prepareReplay({ database, names, counts }: Shared) {
  const find = database.prepare(
    `SELECT destination, state, ${SETTLED_AT} AS settledAt FROM deliveries WHERE id = ?`,
  )
  const revive = database.prepare(
    `UPDATE deliveries SET state = ?, due_at = ?, replayed_at = ?, attempts_before = attempt,
       first_attempt_at = NULL, refused_by = NULL, reason = NULL
     WHERE id = ?`,
  )
  // `first_attempt_at`, at which the attempt in the row began, is about to be cleared.
  const moveAttempt = database.prepare(
    `INSERT INTO attempts (delivery, attempt, post, at, url, code, status, ms, response)
     SELECT id, 1, 0, first_attempt_at, post_url, ?, post_status, post_ms, post_response
     FROM deliveries WHERE id = ? AND ${HAS_POST}`,
  )
  const clearAttempt = database.prepare(
    `UPDATE deliveries SET post_url = -1000, post_response = '' WHERE id = ?`,
  )
  return (
    id: DeliveryId,
    withDone: boolean,
    lane: ReplayLane,
    asOf: number | undefined,
    now: number,
  ): boolean => {
    const row = find.get(id) as
      { destination: number; state: number; settledAt: number } | undefined
    if (row?.state !== DEAD && !(withDone && row?.state === DONE)) return false
    if (row.settledAt > (asOf ?? Infinity)) return false
    const state = stateNumber(lane)
    if (moveAttempt.run(names.number('delivered'), id) > 0) clearAttempt.run(id)
    revive.run(state, now, now, id)
    counts.move(row.destination, row.state, state, id)
    return true
  }
}
