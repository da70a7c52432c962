import type { Settlement } from '../../model/delivery.js'
import { LEASE_MS } from '../store.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { toNullable, toRefusedBy } from '../rows.js'
import { DEAD, LEASED, stateNumber } from '../states.js'

/** Writes the outcome of an attempt and its log. Returns `false` if the settlement is refused. */
export function prepareSettle({ database, names, counts }: Shared) {
  const find = database.prepare(
    `SELECT destination, due_at AS dueAt FROM deliveries WHERE id = ? AND attempt = ? AND state = ${LEASED}`,
  )
  const update = database.prepare(
    'UPDATE deliveries SET state = ?, due_at = ?, refused_by = ?, reason = ? WHERE id = ?',
  )
  const forget = database.prepare('UPDATE deliveries SET replayed_at = NULL WHERE id = ?')
  // If this would have been the first attempt, the window has not begun.
  const discount = database.prepare(
    `UPDATE deliveries SET attempts_before = attempts_before + 1, first_attempt_at = nullif(first_attempt_at, ?)
     WHERE id = ?`,
  )
  const insertLog = database.prepare(
    `INSERT INTO attempts (delivery, attempt, post, at, url, code, status, ms, error, response, headers)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )

  return ({ id, attempt, next, refusedBy, isUnsent, log }: Settlement, now: number): boolean => {
    const row = find.get(id, attempt) as { destination: number; dueAt: number } | undefined
    if (!row) return false
    const state = stateNumber(next.state)
    const dueAt = 'delayMs' in next ? now + Math.round(next.delayMs) : now
    const reason = next.state === 'dead' ? toStored(next.reason) : null
    update.run(state, dueAt, toRefusedBy(refusedBy), reason, id)
    const claimedAt = row.dueAt - LEASE_MS
    if (isUnsent) discount.run(claimedAt, id)
    // The retention of a dead letter counts from its death, not from a replay.
    if (state === DEAD) forget.run(id)
    for (const [post, { url, code, status, ms, error, response, headers }] of log.entries()) {
      insertLog.run(
        id,
        attempt,
        post,
        claimedAt,
        names.number(url),
        names.number(code),
        status,
        ms,
        toNullable(error),
        toStored(response),
        toNullable(headers ?? null),
      )
    }
    counts.move(row.destination, LEASED, state, id)
    return true
  }
}
