import type { OutcomeCode } from '../../model/outcome.js'
import type { EventType } from '../../model/call.js'
import { toTrace } from '../copy.js'
import { refusedByOf } from '../refused-by.js'
import type { Copy, DeliveryId, Trace } from '../../model/delivery.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'
import { DEAD, STATES } from './schema.js'

interface DeliveryRow {
  id: number
  messageId: string
  source: number
  destination: number
  type: number
  event: string
  user: string
  body: string | null
  state: number
  reason: string | null
  receivedAt: number
  firstAttemptAt: number | null
  dueAt: number
  attempt: number
  attemptsBefore: number
  replayedAt: number | null
  refusedBy: string | null
  traceParent: string | null
}

interface AttemptRow {
  attempt: number
  at: number
  url: number
  code: number
  status: number | null
  ms: number
  error: string | null
  response: string
}

/**
 * Makes a reader of all that is stored of deliveries.
 *
 * @param which - The part of the statement that says of which: a condition, an order.
 */
export function prepareCopies({ database, names }: Shared, which: string) {
  const deliveries = database.prepare(
    `SELECT d.id, message_id AS messageId, source, destination, type, event, user, body, state, attempt, reason,
       received_at AS receivedAt, first_attempt_at AS firstAttemptAt, due_at AS dueAt, refused_by AS refusedBy,
       attempts_before AS attemptsBefore, replayed_at AS replayedAt, trace_parent AS traceParent
     FROM deliveries d LEFT JOIN bodies ON bodies.id = d.id ${which}`,
  )
  const attempts = database.prepare(
    `SELECT attempt, at, url, code, status, ms, error, response FROM attempts
     WHERE delivery = ? ORDER BY attempt, post`,
  )

  const attemptsOf = (id: number): Trace['attempts'] =>
    (attempts.all(id) as AttemptRow[]).map((row) => ({
      attempt: row.attempt,
      at: row.at,
      url: names.name(row.url),
      code: names.name(row.code) as OutcomeCode,
      status: row.status,
      ms: row.ms,
      error: row.error === null ? null : fromStored(row.error),
      response: fromStored(row.response),
    }))

  return (...values: (string | number)[]): Copy[] =>
    (deliveries.all(...values) as DeliveryRow[]).map((row) => ({
      id: row.id,
      messageId: fromStored(row.messageId),
      source: names.name(row.source),
      destination: names.name(row.destination),
      type: names.name(row.type) as EventType,
      event: fromStored(row.event),
      user: fromStored(row.user),
      body: fromStored(row.body ?? ''),
      // Written from the same list.
      state: STATES[row.state] as Trace['state'],
      reason: row.reason === null ? null : fromStored(row.reason),
      receivedAt: row.receivedAt,
      firstAttemptAt: row.firstAttemptAt,
      dueAt: row.state <= DEAD ? row.dueAt : null,
      attempt: row.attempt,
      attemptsBefore: row.attemptsBefore,
      replayedAt: row.state < DEAD ? row.replayedAt : null,
      traceParent: row.traceParent,
      refusedBy: row.state <= DEAD ? refusedByOf(row.refusedBy) : [],
      attempts: attemptsOf(row.id),
    }))
}

/** Reads what is stored of one delivery. */
export function prepareGet(shared: Shared) {
  const copies = prepareCopies(shared, 'WHERE d.id = ?')
  return (id: DeliveryId): Trace | undefined => copies(id).map(toTrace)[0]
}

/** Reads what is stored of one message. */
export function prepareTrace(shared: Shared) {
  const copies = prepareCopies(shared, 'WHERE message_id = ? ORDER BY d.id')
  return (messageId: string): Trace[] => copies(toStored(messageId)).map(toTrace)
}
