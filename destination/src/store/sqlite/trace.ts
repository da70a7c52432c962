import type { OutcomeCode } from '../../model/outcome.js'
import type { EventType } from '../../model/call.js'
import { decodeAttempt, decodeDelivery, refusedByOf, toTrace } from '../rows.js'
import type { Copy, DeliveryId, Trace } from '../../model/delivery.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'
import { DUE_AT } from './schema.js'
import { DEAD } from '../states.js'

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
  /** Negative if the row has no attempt. */
  postUrl: number
  postStatus: number
  postMs: number
  postResponse: string
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
  headers: string | null
}

/**
 * Prepares a query for everything that is stored of deliveries.
 *
 * @param which - The `WHERE` and `ORDER BY` clauses that select the deliveries.
 */
export function prepareCopies({ database, names }: Shared, which: string) {
  const deliveries = database.prepare(
    `SELECT d.id, message_id AS messageId, source, destination, type, event, user, body, state, attempt, reason,
       received_at AS receivedAt, first_attempt_at AS firstAttemptAt, ${DUE_AT} AS dueAt, refused_by AS refusedBy,
       attempts_before AS attemptsBefore, replayed_at AS replayedAt, trace_parent AS traceParent,
       post_url AS postUrl, post_status AS postStatus, post_ms AS postMs, post_response AS postResponse
     FROM deliveries d LEFT JOIN bodies ON bodies.id = d.id ${which}`,
  )
  const attempts = database.prepare(
    `SELECT attempt, at, url, code, status, ms, error, response, headers FROM attempts
     WHERE delivery = ? ORDER BY attempt, post`,
  )

  const attemptsOf = (id: number): Trace['attempts'] =>
    (attempts.all(id) as AttemptRow[]).map((row) => ({
      ...decodeAttempt(row),
      url: names.name(row.url),
      code: names.name(row.code) as OutcomeCode,
    }))

  const toCopy = ({ postUrl, postStatus, postMs, postResponse, ...row }: DeliveryRow): Copy => ({
    ...decodeDelivery(row),
    source: names.name(row.source),
    destination: names.name(row.destination),
    type: names.name(row.type) as EventType,
    body: fromStored(row.body ?? ''),
    dueAt: row.state <= DEAD ? row.dueAt : null,
    refusedBy: row.state <= DEAD ? refusedByOf(row.refusedBy) : [],
    attempts:
      postUrl > 0
        ? [
            {
              attempt: 1,
              at: row.firstAttemptAt ?? row.receivedAt,
              url: names.name(postUrl),
              code: 'delivered',
              status: postStatus,
              ms: postMs,
              error: null,
              response: fromStored(postResponse),
            },
          ]
        : attemptsOf(row.id),
  })

  return (...values: (string | number)[]): Copy[] =>
    (deliveries.all(...values) as DeliveryRow[]).map(toCopy)
}

/** Reads the trace of one delivery. */
export function prepareGet(shared: Shared) {
  const copies = prepareCopies(shared, 'WHERE d.id = ?')
  return (id: DeliveryId): Trace | undefined => copies(id).map(toTrace)[0]
}

/** Reads the traces of all deliveries of one message. */
export function prepareTrace(shared: Shared) {
  const copies = prepareCopies(shared, 'WHERE message_id = ? ORDER BY d.id')
  return (messageId: string): Trace[] => copies(toStored(messageId)).map(toTrace)
}
