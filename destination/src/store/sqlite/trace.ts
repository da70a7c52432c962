import type { OutcomeCode } from '../../attempt/outcome.js'
import type { EventType } from '../../call.js'
import type { Trace } from '../store.js'
import { fromStored, toStored } from '../text.js'
import type { Shared } from './shared.js'
import { DEAD, STATES } from './schema.js'

interface DeliveryRow {
  id: number
  source: number
  destination: number
  type: number
  user: string
  body: string | null
  state: number
  reason: string | null
  receivedAt: number
  firstAttemptAt: number | null
  dueAt: number
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

/** Reads what is stored of one message. */
export function prepareTrace({ database, names }: Shared) {
  const deliveries = database.prepare(
    `SELECT d.id, source, destination, type, user, body, state, reason, received_at AS receivedAt,
       first_attempt_at AS firstAttemptAt, due_at AS dueAt
     FROM deliveries d LEFT JOIN bodies ON bodies.id = d.id WHERE message_id = ? ORDER BY d.id`,
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

  return (messageId: string): Trace[] =>
    (deliveries.all(toStored(messageId)) as DeliveryRow[]).map((row) => ({
      id: row.id,
      messageId,
      source: names.name(row.source),
      destination: names.name(row.destination),
      type: names.name(row.type) as EventType,
      user: fromStored(row.user),
      body: fromStored(row.body ?? ''),
      // Written from the same list.
      state: STATES[row.state] as Trace['state'],
      reason: row.reason === null ? null : fromStored(row.reason),
      receivedAt: row.receivedAt,
      firstAttemptAt: row.firstAttemptAt,
      dueAt: row.state < DEAD ? row.dueAt : null,
      attempts: attemptsOf(row.id),
    }))
}
