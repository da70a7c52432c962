import type { AttemptLog, DeliveryId, Settlement } from '../../model/delivery.js'
import { toStored } from '../text.js'
import { isLockedOut, isOfValues } from './failure.js'
import { LateSettlements, type Numbered } from './late-settlements.js'
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

/**
 * Writes the outcomes of attempts and their log.
 *
 * One settlement never stops the others. If its values make the statement fail, it is written without its log. If another
 * session has locked its row for too long, it is written as soon as the row is free.
 */
export function prepareSettle({ query, schema, names, now }: Tables) {
  const statement = settleStatement(schema)
  const findLocked = `
    WITH free AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
    )
    SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) AND id NOT IN (SELECT id FROM free)`

  /** Writes all settlements, or none if it rejects. Returns the numbers of those that were accepted. */
  const writeAll = async (settlements: Numbered[]): Promise<number[]> => {
    const given = settlements.map(({ settlement, n }) => toGiven(settlement, n, names))
    const rows = await query<{ n: number }>(statement, [now(), JSON.stringify(given)])
    return rows.map(({ n }) => n)
  }

  /** As {@link writeAll}, but halves the settlements until it has found those whose values make the statement fail. */
  const write = async (settlements: Numbered[]): Promise<number[]> => {
    if (settlements.length === 0) return []
    try {
      return await writeAll(settlements)
    } catch (error) {
      if (!isOfValues(error)) throw error
      const [one] = settlements
      if (one && settlements.length === 1) return await writeWithoutLog(one)
      const half = Math.ceil(settlements.length / 2)
      const accepted = await write(settlements.slice(0, half))
      return accepted.concat(await write(settlements.slice(half)))
    }
  }

  /** The state matters more than the log. If even the state can't be written, the delivery is sent again. */
  const writeWithoutLog = async ({ settlement, n }: Numbered): Promise<number[]> => {
    try {
      return await writeAll([{ settlement: { ...settlement, log: [] }, n }])
    } catch (error) {
      if (isOfValues(error)) return []
      throw error
    }
  }

  /** Writes the settlements whose rows no other session has locked, and returns the others as `locked`. */
  const writeFree = async (settlements: Numbered[]) => {
    const rows = await query<{ id: DeliveryId }>(findLocked, [
      settlements.map(({ settlement: { id } }) => id),
    ])
    const ids = new Set(rows.map(({ id }) => id))
    const locked = settlements.filter(({ settlement: { id } }) => ids.has(id))
    const free = settlements.filter(({ settlement: { id } }) => !ids.has(id))
    return { locked, accepted: await write(free) }
  }

  const late = new LateSettlements(async (settlements) => (await writeFree(settlements)).locked)

  return {
    /** Returns for each settlement whether it was accepted. One that is written later counts as accepted. */
    settle: async (settlements: Settlement[]): Promise<boolean[]> => {
      await names.add(settlements.flatMap(({ log }) => log.flatMap(({ url, code }) => [url, code])))
      const given = firsts(settlements)
      const accepted = await write(given).catch(async (error: unknown) => {
        if (!isLockedOut(error)) throw error
        const written = await writeFree(given)
        late.add(written.locked)
        return written.accepted.concat(written.locked.map(({ n }) => n))
      })
      const isAccepted = new Set(accepted)
      return settlements.map((_, n) => isAccepted.has(n))
    },

    /** Tries once more to write what is late. Call it when the store closes. */
    finish: (): Promise<void> => late.finish(),
  }
}

/** Keeps only the first settlement of each attempt, because one statement can change a row only once. */
function firsts(settlements: Settlement[]): Numbered[] {
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
    delay: 'delayMs' in next ? Math.round(next.delayMs) : 0,
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
