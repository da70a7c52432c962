import type { AttemptLog, Settlement } from '../../model/delivery.js'
import { LEASE_MS } from '../store.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { toNullable, toRefusedBy } from '../rows.js'
import { DEAD, DONE, LEASED, stateNumber } from '../states.js'

/** An attempt that the row of its delivery has room for. */
type Delivered = AttemptLog & { status: number }

/** Writes the outcome of an attempt and its log. Returns `false` if the settlement is refused. */
export function prepareSettle({ database, names, counts, firstLeases }: Shared) {
  const find = database.prepare(
    `SELECT destination, due_at AS dueAt FROM deliveries WHERE id = ? AND attempt = ? AND state = ${LEASED}`,
  )
  const deliver = database.prepare(
    `UPDATE deliveries SET state = ${DONE}, post_url = ?, post_status = ?, post_ms = ?, post_response = ?
     WHERE id = ?`,
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

  /** The lease that a settlement ends; `undefined` if there is none. */
  const leaseOf = (id: number, attempt: number) => {
    const lease = firstLeases.get(id)
    if (lease) return attempt === 1 ? lease : undefined
    const row = find.get(id, attempt) as { destination: number; dueAt: number } | undefined
    return row && { destination: row.destination, at: row.dueAt - LEASE_MS }
  }

  const writeLog = ({ id, attempt, log }: Settlement, at: number): void => {
    for (const [post, { url, code, status, ms, error, response, headers }] of log.entries()) {
      insertLog.run(
        id,
        attempt,
        post,
        at,
        names.number(url),
        names.number(code),
        status,
        ms,
        toNullable(error),
        toStored(response),
        toNullable(headers ?? null),
      )
    }
  }

  return (settlement: Settlement, now: number): boolean => {
    const { id, attempt, next, refusedBy, isUnsent } = settlement
    const lease = leaseOf(id, attempt)
    if (!lease) return false
    firstLeases.remove(id)
    const state = stateNumber(next.state)
    counts.move(lease.destination, LEASED, state, id)
    const delivered = deliveredAtOnce(settlement)
    if (delivered) {
      const { url, code, status, ms, response } = delivered
      // The row does not have the code. But a search for it finds only a code that has a number.
      names.number(code)
      deliver.run(names.number(url), status, ms, toStored(response), id)
      return true
    }
    const dueAt = 'delayMs' in next ? now + Math.round(next.delayMs) : now
    const reason = next.state === 'dead' ? toStored(next.reason) : null
    update.run(state, dueAt, toRefusedBy(refusedBy), reason, id)
    if (isUnsent) discount.run(lease.at, id)
    // The retention of a dead letter counts from its death, not from a replay.
    if (state === DEAD) forget.run(id)
    writeLog(settlement, lease.at)
    return true
  }
}

/** The attempt of a settlement, if the first attempt of a delivery was its only POST and delivered it. */
function deliveredAtOnce(settlement: Settlement): Delivered | undefined {
  const { attempt, next, refusedBy, isUnsent, log } = settlement
  const [post] = log
  const isAlone = attempt === 1 && log.length === 1 && refusedBy.length === 0
  if (!isAlone || isUnsent || next.state !== 'done' || !post) return undefined
  const isPlain = post.code === 'delivered' && post.error === null && post.headers === undefined
  return isPlain && post.status !== null ? (post as Delivered) : undefined
}
