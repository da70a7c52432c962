import type { EventType } from '../../model/call.js'
import type { Claim, Delivery, Lane } from '../../model/delivery.js'
import { LEASE_MS, NEWEST, type DueLane } from '../store.js'
import { fromStored } from '../text.js'
import type { Shared } from './shared.js'
import type { Statement } from './driver.js'
import { refusedByOf } from '../rows.js'
import { IS_LISTED } from './schema.js'
import { LANES, LEASED, stateNumber } from '../states.js'

interface Row {
  id: number
  messageId: string
  source: number
  type: number
  attempt: number
  attemptsBefore: number
  dueAt: number
  firstAttemptAt: number | null
  refusedBy: string | null
  traceParent: string | null
  body: string | null
}

const COLUMNS = `d.id, message_id AS messageId, source, type, attempt, due_at AS dueAt,
  first_attempt_at AS firstAttemptAt, refused_by AS refusedBy, attempts_before AS attemptsBefore,
  trace_parent AS traceParent, body`

/** Leases due deliveries of a lane. */
export function prepareClaim({ database, names, counts, firstLeases, ids }: Shared) {
  const isDue = (state: number) =>
    `destination = ? AND state = ${state} AND ${IS_LISTED} AND due_at <= ?`
  const due = (state: number): Statement =>
    database.prepare(
      `SELECT ${COLUMNS}
       FROM deliveries d INDEXED BY waiting LEFT JOIN bodies ON bodies.id = d.id
       WHERE ${isDue(state)}
       ORDER BY due_at, d.id LIMIT ?`,
    )
  const untried = (state: number): Statement =>
    database.prepare(
      `SELECT ${COLUMNS}
       FROM (
         SELECT * FROM deliveries INDEXED BY waiting WHERE ${isDue(state)}
         ORDER BY due_at DESC, id DESC LIMIT ${NEWEST}
       ) d LEFT JOIN bodies ON bodies.id = d.id
       WHERE attempt = 0 ORDER BY due_at DESC, d.id DESC LIMIT ?`,
    )
  const prepareLane = (lane: Lane) => {
    const from = stateNumber(lane)
    return { from, oldest: due(from), newest: untried(from) }
  }
  const lanes = {
    fresh: prepareLane('fresh'),
    backlog: prepareLane('backlog'),
    bulk: prepareLane('bulk'),
  }
  const dueLeased = due(LEASED)
  // Without the index `waiting`, if the due time is 0: see `schema.ts`.
  const lease = database.prepare(
    `UPDATE deliveries SET state = ${LEASED}, attempt = ?, attempts_before = ?, due_at = ?, first_attempt_at = ?
     WHERE id = ?`,
  )

  const claimRow = (
    row: Row,
    from: number,
    lane: Lane,
    destination: number,
    now: number,
  ): Delivery => {
    const attempt = row.attempt + 1
    // An attempt whose lease ran out does not count, because it may never have been made.
    const attemptsBefore = row.attemptsBefore + (from === LEASED ? 1 : 0)
    const firstAttemptAt = row.firstAttemptAt ?? now
    const isFirst =
      attempt === 1 && row.firstAttemptAt === null && firstLeases.isNear(row.id, ids.next)
    lease.run(attempt, attemptsBefore, isFirst ? 0 : now + LEASE_MS, firstAttemptAt, row.id)
    if (isFirst) firstLeases.add(row.id, destination, now)
    counts.move(destination, from, LEASED, row.id)
    return {
      id: row.id,
      attempt,
      attemptsBefore,
      messageId: fromStored(row.messageId),
      source: names.name(row.source),
      destination: names.name(destination),
      type: names.name(row.type) as EventType,
      body: fromStored(row.body ?? ''),
      sinceFirstMs: Math.max(0, now - firstAttemptAt),
      dueForMs: Math.max(0, now - row.dueAt),
      traceParent: row.traceParent ?? undefined,
      lane,
      refusedBy: refusedByOf(row.refusedBy),
    }
  }

  return ({ destination: name, lane, limit, isUntried }: Claim, now: number): Delivery[] => {
    const destination = names.find(name)
    if (destination === undefined) return []
    const { from, oldest, newest } = lanes[lane]
    const found = (isUntried ? newest : oldest).all(destination, now, limit) as Row[]
    // A lease that has run out makes its delivery due again: the attempt was never settled.
    const mayLapse = lane === 'backlog' && !isUntried
    if (mayLapse) firstLeases.list(now)
    const lapsed = mayLapse ? (dueLeased.all(destination, now, limit) as Row[]) : []
    const isLapsed = new Set(lapsed)
    const rows = lapsed.length === 0 ? found : [...found, ...lapsed].sort(byDue).slice(0, limit)
    return rows.map((row) =>
      claimRow(row, isLapsed.has(row) ? LEASED : from, lane, destination, now),
    )
  }
}

/** Finds the lanes in which something is due. It looks only at the destinations of which something waits. */
export function prepareDue({ database, names, counts, firstLeases }: Shared) {
  const first = database.prepare(
    `SELECT 1 FROM deliveries INDEXED BY waiting
     WHERE destination = ? AND state = ? AND ${IS_LISTED} AND due_at <= ? LIMIT 1`,
  )
  const dueIn = (state: number, now: number): number[] =>
    Array.from(counts.destinationsIn(state)).filter((number) => first.get(number, state, now))

  return (now: number): DueLane[] =>
    LANES.flatMap((lane) => {
      // A delivery whose lease has run out is due in the backlog.
      const states = lane === 'backlog' ? [stateNumber(lane), LEASED] : [stateNumber(lane)]
      const found = new Set(states.flatMap((state) => dueIn(state, now)))
      if (lane === 'backlog')
        for (const number of firstLeases.lapsedDestinations(now)) found.add(number)
      return Array.from(found, (number) => ({ destination: names.name(number), lane }))
    })
}

function byDue(a: Row, b: Row): number {
  return a.dueAt - b.dueAt || a.id - b.id
}
