import type { AttemptLog, DeliveryId, Settlement } from '../../model/delivery.js'
import { toStored } from '../text.js'
import type { Names } from './names.js'
import { toNullable, toRefusedBy } from '../rows.js'
import { DEAD, DONE } from '../states.js'
import { storedState } from './states.js'
import { NOW, type Tables } from './tables.js'

/**
 * The statement that carries out a round of settlements. It returns the numbers (`n`) of the settlements that were
 * accepted.
 *
 * @public - The benchmark runs it alone.
 */
export function settleStatement(schema: string): string {
  return `
    WITH given AS MATERIALIZED (
      SELECT * FROM json_to_recordset($2::json) AS g (n int, id bigint, attempt int, state smallint, delay bigint,
        refused_by text, reason text, log json)
    ), ended AS (
      DELETE FROM ${schema}.waiting q USING given g
      WHERE q.id = g.id AND q.attempt = g.attempt AND q.leased AND g.state = ${DONE}
      RETURNING n, log, q.id, q.attempt, q.attempts_before, attempt_at, first_attempt_at
    ), moved AS (
      UPDATE ${schema}.waiting q
      SET state = g.state, leased = false, due_at = ${NOW} + g.delay, refused_by = g.refused_by, reason = g.reason,
        replayed_at = CASE WHEN g.state <> ${DEAD} THEN q.replayed_at END
      FROM given g
      WHERE q.id = g.id AND q.attempt = g.attempt AND q.leased AND g.state <> ${DONE}
      RETURNING n, log, q.id, q.attempt, attempt_at
    ), done AS (
      INSERT INTO ${schema}.done (id, first_attempt_at, attempt, attempts_before, state)
      SELECT id, first_attempt_at, attempt, attempts_before, ${DONE} FROM ended ORDER BY id
    ), settled AS (
      SELECT n, log, id, attempt, attempt_at FROM ended UNION ALL SELECT * FROM moved
    ), logged AS (
      INSERT INTO ${schema}.attempts (delivery, attempt, post, at, url, code, status, ms, error, response)
      SELECT id, attempt, post, attempt_at, url, code, status, ms, error, response
      FROM settled CROSS JOIN LATERAL json_to_recordset(log) AS l (post smallint, url int, code int, status int,
        ms double precision, error text, response text)
      ORDER BY id, post
    )
    SELECT n FROM settled`
}

/** Writes the outcomes of attempts and their log. Returns for each settlement whether it was accepted. */
export function prepareSettle({ query, schema, names, now }: Tables) {
  const settle = settleStatement(schema)

  return async (settlements: Settlement[]): Promise<boolean[]> => {
    await names.add(settlements.flatMap(({ log }) => log.flatMap(({ url, code }) => [url, code])))
    const given = firsts(settlements).map(({ settlement, n }) => toGiven(settlement, n, names))
    const accepted = settlements.map(() => false)
    const rows = await query<{ n: number }>(settle, [now(), JSON.stringify(given)])
    for (const { n } of rows) accepted[n] = true
    return accepted
  }
}

/** Keeps only the first settlement of each attempt, because one statement can change a row only once. */
function firsts(settlements: Settlement[]): { settlement: Settlement; n: number }[] {
  const seen = new Map<DeliveryId, Set<number>>()
  return settlements
    .map((settlement, n) => ({ settlement, n }))
    .filter(({ settlement: { id, attempt } }) => {
      const attempts = seen.get(id)
      if (!attempts) seen.set(id, new Set([attempt]))
      else if (attempts.has(attempt)) return false
      else attempts.add(attempt)
      return true
    })
}

function toGiven({ id, attempt, next, refusedBy, log }: Settlement, n: number, names: Names) {
  return {
    n,
    id,
    attempt,
    state: storedState(next.state),
    delay: next.state === 'backlog' ? Math.round(next.delayMs) : 0,
    refused_by: toRefusedBy(refusedBy),
    reason: next.state === 'dead' ? toStored(next.reason) : null,
    log: log.map((one, post) => ({ post, ...toLogRow(one, names) })),
  }
}

/** The columns of one row of `attempts`, which is the log of one POST. */
export function toLogRow(
  { url, code, status, ms, error, response }: AttemptLog,
  names: Pick<Names, 'number'>,
) {
  return {
    url: names.number(url),
    code: names.number(code),
    status,
    ms,
    error: toNullable(error),
    response: toStored(response),
  }
}
