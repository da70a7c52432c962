import { decodeAttempt, decodeDelivery, refusedByOf, toTrace } from '../rows.js'
import type { Copy, DeliveryId, Trace } from '../../model/delivery.js'
import { fromStored, toStored } from '../text.js'
import type { RunQuery } from './connection.js'
import { attemptsTable } from './schema.js'
import { DUE_AT, stateColumn } from './states.js'
import type { Tables } from './tables.js'

type Row = Omit<Copy, 'state' | 'refusedBy'> & {
  state: number
  refusedBy: string | null
}

/**
 * The statement that reads everything that is stored of deliveries. Of what has arrived, the first attempt stands for the replay, as for a sweep.
 *
 * @param which - The `WHERE` and `ORDER BY` clauses that select the deliveries.
 */
export function copyStatement(schema: string, which: string): string {
  return `
    SELECT d.id, message_id AS "messageId", sources.name AS source, destinations.name AS destination,
      types.name AS type, event, user_id AS user, body, ${stateColumn('w', 'f')} AS state,
      coalesce(w.reason, f.reason) AS reason, received_at AS "receivedAt",
      coalesce(w.first_attempt_at, f.first_attempt_at) AS "firstAttemptAt",
      ${DUE_AT} AS "dueAt", coalesce(w.attempt, f.attempt) AS attempt, refused_by AS "refusedBy",
      coalesce(w.attempts_before, f.attempts_before, 0) AS "attemptsBefore",
      coalesce(replayed_at, CASE WHEN f.attempts_before > 0 THEN f.first_attempt_at END) AS "replayedAt",
      trace_parent AS "traceParent",
      (SELECT coalesce(json_agg(json_build_object('attempt', a.attempt, 'at', at, 'url', urls.name, 'code', codes.name,
          'status', status, 'ms', ms, 'error', error, 'response', response, 'headers', headers) ORDER BY a.attempt, post), '[]')
        FROM ${attemptsTable(schema)} a JOIN ${schema}.names urls ON urls.id = url JOIN ${schema}.names codes ON codes.id = code
        WHERE delivery = d.id) AS attempts
    FROM ${schema}.deliveries d
      JOIN ${schema}.names sources ON sources.id = source
      JOIN ${schema}.names destinations ON destinations.id = d.destination
      JOIN ${schema}.names types ON types.id = type
      LEFT JOIN ${schema}.waiting w ON w.id = d.id
      LEFT JOIN ${schema}.done f ON f.id = d.id
    ${which}`
}

/** Runs a {@link copyStatement}. */
export async function readCopies(
  query: RunQuery,
  statement: string,
  values: unknown[],
): Promise<Copy[]> {
  const rows = await query<Row>(statement, values)
  return rows.map((row) => ({
    ...decodeDelivery(row),
    source: fromStored(row.source),
    destination: fromStored(row.destination),
    body: fromStored(row.body),
    refusedBy: refusedByOf(row.refusedBy),
    attempts: row.attempts.map((attempt) => ({
      ...decodeAttempt(attempt),
      url: fromStored(attempt.url),
    })),
  }))
}

/** Reads the trace of one delivery. */
export function prepareGet({ query, schema }: Tables) {
  const statement = copyStatement(schema, 'WHERE d.id = $1')
  return async (id: DeliveryId): Promise<Trace | undefined> =>
    (await readCopies(query, statement, [id])).map(toTrace)[0]
}

/** Reads the traces of all deliveries of one message. */
export function prepareTrace({ query, schema }: Tables) {
  const statement = copyStatement(schema, 'WHERE message_id = $1 ORDER BY d.id')
  return async (messageId: string): Promise<Trace[]> => {
    const copies = await readCopies(query, statement, [toStored(messageId)])
    return copies.map(toTrace)
  }
}
