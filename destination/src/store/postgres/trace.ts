import type { Trace } from '../store.js'
import { fromStored, toStored } from '../text.js'
import { BACKLOG, DEAD, DONE, FRESH, SKIPPED } from './schema.js'
import type { Tables } from './tables.js'

const STATES: Record<number, Trace['state']> = {
  [FRESH]: 'fresh',
  [BACKLOG]: 'backlog',
  [DEAD]: 'dead',
  [DONE]: 'done',
  [SKIPPED]: 'skipped',
}

type Row = Omit<Trace, 'state'> & { state: number; leased: boolean }

/** Reads what is stored of one message. */
export function prepareTrace({ query, schema }: Tables) {
  const trace = `
    SELECT d.id, message_id AS "messageId", sources.name AS source, destinations.name AS destination,
      types.name AS type, user_id AS user, body, coalesce(w.state, f.state) AS state, coalesce(leased, false) AS leased,
      coalesce(w.reason, f.reason) AS reason, received_at AS "receivedAt",
      coalesce(w.first_attempt_at, f.first_attempt_at) AS "firstAttemptAt",
      CASE WHEN w.state <> ${DEAD} THEN due_at END AS "dueAt",
      (SELECT coalesce(json_agg(json_build_object('attempt', a.attempt, 'at', at, 'url', urls.name, 'code', codes.name,
          'status', status, 'ms', ms, 'error', error, 'response', response) ORDER BY a.attempt, post), '[]')
        FROM ${schema}.attempts a JOIN ${schema}.names urls ON urls.id = url JOIN ${schema}.names codes ON codes.id = code
        WHERE delivery = d.id) AS attempts
    FROM ${schema}.deliveries d
      JOIN ${schema}.names sources ON sources.id = source
      JOIN ${schema}.names destinations ON destinations.id = d.destination
      JOIN ${schema}.names types ON types.id = type
      LEFT JOIN ${schema}.waiting w ON w.id = d.id
      LEFT JOIN ${schema}.done f ON f.id = d.id
    WHERE message_id = $1 ORDER BY d.id`

  return async (messageId: string): Promise<Trace[]> => {
    const rows = await query<Row>(trace, [toStored(messageId)])
    return rows.map(({ state, leased, ...row }) => ({
      ...row,
      messageId,
      source: fromStored(row.source),
      destination: fromStored(row.destination),
      user: fromStored(row.user),
      body: fromStored(row.body),
      // Written from the same list.
      state: leased ? 'leased' : (STATES[state] as Trace['state']),
      reason: row.reason === null ? null : fromStored(row.reason),
      attempts: row.attempts.map((attempt) => ({
        ...attempt,
        url: fromStored(attempt.url),
        error: attempt.error === null ? null : fromStored(attempt.error),
        response: fromStored(attempt.response),
      })),
    }))
  }
}
