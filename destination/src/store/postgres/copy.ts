import { toNullable, toRefusedBy } from '../rows.js'
import type { Copy, DeliveryId, NewDelivery } from '../../model/delivery.js'
import { LEASE_MS } from '../store.js'
import { toStored } from '../text.js'
import { numbersOf, type NameList } from './names.js'
import { DONE } from '../states.js'
import { toLogRow } from './settle.js'
import { storedState } from './states.js'
import { DURABLY, LOGGED, type Tables } from './tables.js'
import { copyStatement, readCopies } from './trace.js'

/** Copies deliveries to and from another store. */
export function prepareCopy({ query, schema, names }: Tables) {
  const out = copyStatement(schema, 'WHERE d.id > $1 ORDER BY d.id LIMIT $2')
  const same = copyStatement(schema, 'WHERE d.id = ANY ($1::bigint[])')
  // The `LIMIT 1` makes the planner look up each key in the index, whatever size it assumes for the tables.
  const find = `
    SELECT n, id FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS keys (message_id, source, destination, n)
      LEFT JOIN LATERAL (
        SELECT id FROM ${schema}.deliveries d WHERE d.message_id = keys.message_id COLLATE "C"
          AND d.source = (SELECT id FROM ${schema}.names WHERE name = keys.source)
          AND d.destination = (SELECT id FROM ${schema}.names WHERE name = keys.destination) LIMIT 1
      ) d ON true`
  const findIds = `${find} ORDER BY n`
  // Whoever is told that a message is known answers for it.
  const findKnown = `
    WITH found AS MATERIALIZED (${find}
    ), logged AS (
      SELECT ${LOGGED} AS position WHERE EXISTS (SELECT FROM found WHERE id IS NOT NULL)
    )
    SELECT id IS NOT NULL AS known FROM found LEFT JOIN logged ON position IS NULL WHERE ${DURABLY} ORDER BY n`
  const add = `
    WITH ${numbersOf(schema, '$2')}, given AS MATERIALIZED (
      SELECT nextval('${schema}.ids') AS id, g.*, ids[source_n] AS source, ids[destination_n] AS destination,
        ids[type_n] AS type
      FROM json_to_recordset($1::json) AS g (message_id text, source_n int, destination_n int, type_n int, user_id text,
        event text, trace_parent text, body text, received_at bigint, state smallint, leased boolean, due_at bigint, first_attempt_at bigint,
        attempt int, attempts_before int, replayed_at bigint, refused_by text, reason text, log json) CROSS JOIN numbers
    ), added AS (
      INSERT INTO ${schema}.deliveries (id, received_at, source, destination, type, message_id, user_id, event,
        trace_parent, body)
      SELECT id, received_at, source, destination, type, message_id, user_id, event, trace_parent, body FROM given
      ORDER BY message_id COLLATE "C", source, destination
      ON CONFLICT (message_id, source, destination) DO NOTHING RETURNING id
    ), queued AS (
      INSERT INTO ${schema}.waiting (id, due_at, first_attempt_at, attempt_at, destination, attempt, state, leased,
        attempts_before, replayed_at, refused_by, reason, size)
      SELECT id, due_at, first_attempt_at, CASE WHEN leased THEN due_at - ${LEASE_MS} END, destination, attempt, state,
        leased, CASE WHEN attempts_before > 0 OR replayed_at IS NOT NULL THEN attempts_before END, replayed_at, refused_by,
        reason, octet_length(body)
      FROM added JOIN given USING (id) WHERE state < ${DONE}
    ), done AS (
      INSERT INTO ${schema}.done (id, first_attempt_at, attempt, attempts_before, state, reason)
      SELECT id, first_attempt_at, attempt, attempts_before, state, reason FROM added JOIN given USING (id) WHERE state >= ${DONE}
    ), logged AS (
      INSERT INTO ${schema}.attempts (delivery, attempt, post, at, url, code, status, ms, error, response, headers)
      SELECT id, l.attempt, post, at, ids[url_n], ids[code_n], status, ms, error, response, headers
      FROM added JOIN given USING (id) CROSS JOIN LATERAL json_to_recordset(log) AS l (attempt int, post smallint,
        at bigint, url_n int, code_n int, status int, ms double precision, error text, response text, headers text) CROSS JOIN numbers
    ), known AS (
      SELECT ${LOGGED} AS position WHERE NOT EXISTS (SELECT FROM added)
    )
    SELECT added.id IS NOT NULL AS added
    FROM given LEFT JOIN added USING (id) LEFT JOIN known ON position IS NULL
    WHERE ${DURABLY} ORDER BY given.id`

  const keysOf = (messages: readonly Pick<Copy, 'messageId' | 'source' | 'destination'>[]) => [
    messages.map(({ messageId }) => toStored(messageId)),
    messages.map(({ source }) => toStored(source)),
    messages.map(({ destination }) => toStored(destination)),
  ]

  return {
    knows: async (deliveries: readonly NewDelivery[]): Promise<boolean[]> => {
      const rows = await query<{ known: boolean }>(findKnown, keysOf(deliveries))
      return rows.map(({ known }) => known)
    },
    count: async (): Promise<number> => {
      const [row] = await query<{ count: number }>(
        `SELECT count(*) AS count FROM ${schema}.deliveries`,
      )
      return row?.count ?? 0
    },
    copyOut: (after: DeliveryId, limit: number): Promise<Copy[]> =>
      readCopies(query, out, [after, limit]),
    copyIn: async (copies: Copy[]): Promise<boolean[]> => {
      const rows = await names.write<{ added: boolean }>(add, (list) => {
        const given = copies.map((copy) => toGiven(copy, list))
        return [JSON.stringify(given), String(list)]
      })
      return rows.map(({ added }) => added)
    },
    copiesOf: async (copies: Copy[]): Promise<(Copy | undefined)[]> => {
      const found = await query<{ id: DeliveryId | null }>(findIds, keysOf(copies))
      const own = await readCopies(query, same, [found.flatMap(({ id }) => id ?? [])])
      const byId = new Map(own.map((copy) => [copy.id, copy]))
      return found.map(({ id }) => (id === null ? undefined : byId.get(id)))
    },
  }
}

function toGiven(copy: Copy, list: NameList) {
  const posts = new Map<number, number>()
  return {
    message_id: toStored(copy.messageId),
    source_n: list.position(copy.source),
    destination_n: list.position(copy.destination),
    type_n: list.position(copy.type),
    user_id: toStored(copy.user),
    event: toStored(copy.event),
    trace_parent: copy.traceParent,
    body: toStored(copy.body),
    received_at: copy.receivedAt,
    state: storedState(copy.state),
    leased: copy.state === 'leased',
    due_at: copy.dueAt,
    first_attempt_at: copy.firstAttemptAt,
    attempt: copy.attempt,
    attempts_before: copy.attemptsBefore,
    replayed_at: copy.replayedAt,
    refused_by: toRefusedBy(copy.refusedBy),
    reason: toNullable(copy.reason),
    log: copy.attempts.map((one) => {
      const post = posts.get(one.attempt) ?? 0
      posts.set(one.attempt, post + 1)
      return { attempt: one.attempt, post, at: one.at, ...toLogRow(one, list) }
    }),
  }
}
