import type { AttemptLog, DeliveryId, Settlement } from '../../model/delivery.js'
import { toStored } from '../text.js'
import { StoreError } from '../store-error.js'
import type { RunAll, Statement } from './connection.js'
import { isLockedOut, isOfValues } from './failure.js'
import { LateSettlements } from './late-settlements.js'
import { numbersOf, type NameList } from './names.js'
import { toRefusedBy } from '../rows.js'
import { DEAD, DONE } from '../states.js'
import { LEASE_MS } from '../store.js'
import { DUE_AT, storedState } from './states.js'
import { DURABLY, NOW, type Tables } from './tables.js'

/**
 * The most settlements in one statement. Row locks stay short, and a list that did not fit into the server's time limit
 * would be refused again and again.
 */
const CHUNK = 2_000

/**
 * In ms: a row whose lease ends sooner is not settled by {@link arrivedStatement}. This is longer than a statement usually takes,
 * so that no other process can claim what the statement is about to delete.
 */
const LEFT_MS = LEASE_MS / 2

/**
 * The statement that carries out settlements. It returns the numbers (`n`) of those that were accepted.
 *
 * The planner may believe that `waiting` is empty, because it was when the server last looked. Then it may compare every
 * row of a join with every other. So there is no join: the `LIMIT 1` makes it look up each row by its key, the array does
 * the same for the deletion, and `ON CONFLICT` finds the row to update in the unique index.
 *
 * If the first claim sent nothing, the window has not begun, and `first_attempt_at` is emptied again.
 *
 * @param isWaiting - Whether it waits for rows that others have locked, in the order in which they are given. By default it
 * leaves them as they are.
 */
export function settleStatement(schema: string, isWaiting = false): string {
  return `
    WITH ${numbersOf(schema, '$3')}, given AS MATERIALIZED (
      SELECT * FROM json_to_recordset($2::json) AS g (n int, id bigint, attempt int, state smallint, delay bigint,
        unsent boolean, refused_by text, reason text, log json, url_n int, code_n int, status int, ms double precision,
        error text, response text, headers text)
    ), settled AS MATERIALIZED (
      SELECT g.*, destination, attempts_before, attempt_at, first_attempt_at, replayed_at
      FROM given g CROSS JOIN LATERAL (
        SELECT destination, attempts_before, attempt_at, first_attempt_at, replayed_at FROM ${schema}.waiting q
        WHERE q.id = g.id AND q.attempt = g.attempt AND q.leased LIMIT 1 FOR UPDATE ${isWaiting ? '' : 'SKIP LOCKED'}
      ) q
    ), ended AS (
      DELETE FROM ${schema}.waiting WHERE id = ANY (ARRAY (SELECT id FROM settled WHERE state = ${DONE}))
    ), moved AS (
      INSERT INTO ${schema}.waiting AS q (id, due_at, destination, attempt, attempts_before, first_attempt_at, state,
        leased, replayed_at, refused_by, reason)
      SELECT id, ${NOW} + delay, destination, attempt,
        CASE WHEN unsent THEN coalesce(attempts_before, 0) + 1 ELSE attempts_before END,
        CASE WHEN unsent THEN nullif(first_attempt_at, attempt_at) ELSE first_attempt_at END, state, false,
        CASE WHEN state <> ${DEAD} THEN replayed_at END, refused_by, reason
      FROM settled WHERE state <> ${DONE}
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, leased = false, lease_until = NULL, due_at = excluded.due_at,
        attempts_before = excluded.attempts_before, first_attempt_at = excluded.first_attempt_at, refused_by = excluded.refused_by, reason = excluded.reason,
        replayed_at = excluded.replayed_at
    ), done AS (
      INSERT INTO ${schema}.done (id, first_attempt_at, attempt, attempts_before, state, at, url, code, status, ms, error,
        response, headers)
      SELECT id, first_attempt_at, attempt, attempts_before, ${DONE}, CASE WHEN code_n IS NOT NULL THEN attempt_at END,
        ids[url_n], ids[code_n], status, ms, error, response, headers
      FROM settled CROSS JOIN numbers WHERE state = ${DONE}
    ), logged AS (
      INSERT INTO ${schema}.attempts (delivery, attempt, post, at, url, code, status, ms, error, response, headers)
      SELECT id, attempt, l.post, attempt_at, ids[l.url_n], ids[l.code_n], l.status, l.ms, l.error, l.response, l.headers
      FROM settled CROSS JOIN LATERAL json_to_recordset(log) AS l (post smallint, url_n int, code_n int, status int,
        ms double precision, error text, response text, headers text) CROSS JOIN numbers
      WHERE log IS NOT NULL
    )
    SELECT n FROM settled WHERE ${DURABLY}`
}

/**
 * The statement for messages that arrived with a single request, as nearly all do. It deletes their rows at once instead of
 * reading and locking them first, and takes arrays, which cost the server less than JSON. It returns the ids of those that were
 * accepted.
 *
 * The planner can't know how many rows the arrays have, and might compare each of their rows with every other row. `IS TRUE` keeps
 * it from joining them with `waiting` at all. A FULL JOIN never compares rows in that way, and `coalesce` keeps the planner from
 * making another kind of join of it.
 *
 * It locks rows in any order, so that it could meet a deadlock with another settlement that waits. It leaves out the rows whose
 * leases end soon: nobody else waits for the others.
 *
 * @public - The benchmark runs it alone.
 */
export function arrivedStatement(schema: string): string {
  return `
    WITH ${numbersOf(schema, '$2')}, given AS MATERIALIZED (
      SELECT * FROM unnest($3::bigint[], $4::int[], $5::int[], $6::int[], $7::int[], $8::float8[], $9::text[])
        AS g (id, attempt, url_n, code_n, status, ms, response)
    ), ended AS (
      DELETE FROM ${schema}.waiting
      WHERE id = ANY ($3::bigint[]) AND leased AND ${DUE_AT} > ${NOW} + ${LEFT_MS} AND ((id, attempt) IN (SELECT id, attempt FROM given)) IS TRUE
      RETURNING id, attempt, attempts_before, attempt_at, first_attempt_at
    ), done AS (
      INSERT INTO ${schema}.done (id, first_attempt_at, attempt, attempts_before, state, at, url, code, status, ms, response)
      SELECT ended.id, first_attempt_at, ended.attempt, attempts_before, ${DONE}, attempt_at, ids[url_n], ids[code_n], status,
        ms, response
      FROM ended FULL JOIN given ON given.id = ended.id CROSS JOIN numbers WHERE coalesce(ended.id, 0) <> 0
      RETURNING id
    )
    SELECT id FROM done WHERE ${DURABLY}`
}

/** What has happened to a settlement: the store has it, will write it later, or has refused it. */
export type SettleAnswer = 'taken' | 'late' | 'refused'

/**
 * Writes the outcomes of attempts and their log.
 *
 * One settlement never stops the others. If its values make the statement fail, it is written without its log. If another
 * session has locked its row for too long, it is written as soon as the row is free.
 *
 * @param taken - Is told of each settlement once, as soon as it is known to be written.
 */
export function prepareSettle(
  { query, schema, names, now }: Tables,
  taken: (settlements: readonly Settlement[]) => void,
) {
  const ofFree = settleStatement(schema)
  const ofAll = settleStatement(schema, true)
  const ofArrived = arrivedStatement(schema)
  const findLocked = `
    WITH free AS MATERIALIZED (
      SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE SKIP LOCKED
    )
    SELECT id FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) AND id NOT IN (SELECT id FROM free)`
  const findSettled = `
    SELECT id, attempt, ${DONE} AS state, NULL AS reason FROM ${schema}.done WHERE id = ANY ($1::bigint[])
    UNION ALL
    SELECT id, attempt, state, reason FROM ${schema}.waiting WHERE id = ANY ($1::bigint[]) AND NOT leased
    UNION ALL
    SELECT DISTINCT delivery, attempt, NULL::int, NULL FROM ${schema}.attempts WHERE delivery = ANY ($1::bigint[])`

  /**
   * Settlements that were accepted. If their call fails afterwards, the caller repeats it, and they are not refused then.
   */
  const accepted = new WeakSet<Settlement>()

  /**
   * They are told of now, not when their call resolves: it may still fail because of others, and a process that ends does not repeat
   * it.
   */
  const accept = (settlements: Settlement[]) => {
    for (const settlement of settlements) accepted.add(settlement)
    if (settlements.length > 0) taken(settlements)
  }

  const unaccepted = (settlements: Settlement[]) =>
    settlements.filter((settlement) => !accepted.has(settlement))

  /** Those that are written later. */
  const isLate = new WeakSet<Settlement>()

  /** Those whose statement failed. It may have been carried out nevertheless, if only its answer was lost. */
  const isUnsure = new WeakSet<Settlement>()

  const doubt = (settlements: Settlement[]) => {
    for (const one of settlements) isUnsure.add(one)
  }

  /**
   * Accepts those that a former statement has carried out. Nobody else settles the same attempt, but a sweep may have made a
   * dead letter of it, or another worker may have claimed the next one.
   */
  const acceptSettled = async (settlements: Settlement[]): Promise<void> => {
    const doubtful = settlements.filter((one) => isUnsure.has(one))
    if (doubtful.length === 0) return
    const rows = await query<SettledRow>(findSettled, [doubtful.map(({ id }) => id)])
    const settled = new Map<DeliveryId, SettledRow[]>()
    for (const row of rows) settled.set(row.id, [...(settled.get(row.id) ?? []), row])
    accept(doubtful.filter((one) => settled.get(one.id)?.some((row) => isSettledBy(one, row))))
  }

  const valuesOf = (settlements: Settlement[], withLog: boolean, list: NameList) => {
    const given = settlements.map((one, n) => toGiven(withLog ? one : { ...one, log: [] }, n, list))
    return [now(), JSON.stringify(given), String(list)]
  }

  /**
   * Writes settlements, all that can be written without waiting for another process: its locks may be shared with a claim. If it
   * rejects, it has written none.
   */
  const writeAtOnce = async (
    settlements: Settlement[],
    { withLog = true, run }: { withLog?: boolean; run?: RunAll } = {},
  ): Promise<void> => {
    const arrived = new Map<DeliveryId, Arrived>()
    const others: Settlement[] = []
    for (const one of settlements) {
      if (withLog && isArrived(one) && !arrived.has(one.id)) arrived.set(one.id, one)
      else others.push(one)
    }
    const toStatements = (list: NameList): Statement[] => {
      const arrays = toArrays([...arrived.values()], list)
      const values = valuesOf(others, withLog, list)
      const both = [
        { text: ofArrived, values: [now(), String(list), ...arrays] },
        { text: ofFree, values },
      ]
      return both.slice(arrived.size > 0 ? 0 : 1, others.length > 0 ? 2 : 1)
    }
    const results = await names.writeAll<{ id: DeliveryId } | { n: number }>(toStatements, run)
    accept(
      results.flat().flatMap((row) => ('id' in row ? arrived.get(row.id) : others[row.n]) ?? []),
    )
  }

  /**
   * Writes settlements: first nearly all of them at once, and then the rest by a statement of its own, which waits for locks in
   * the order of ids. So no two processes wait for each other. What is still not accepted then has been settled before, or never
   * will be.
   */
  const writeAll = async (settlements: Settlement[], withLog = true): Promise<void> => {
    try {
      await writeAtOnce(settlements, { withLog })
      const rest = unaccepted(settlements)
      if (rest.length === 0) return
      const rows = await names.write<{ n: number }>(ofAll, (list) => valuesOf(rest, withLog, list))
      accept(rows.flatMap(({ n }) => rest[n] ?? []))
      await acceptSettled(unaccepted(rest))
    } catch (error) {
      doubt(unaccepted(settlements))
      throw error
    }
  }

  /** As {@link writeAtOnce}, but an error of the settlements is no error. */
  const tryAtOnce = async (settlements: Settlement[], run: RunAll): Promise<void> => {
    try {
      await writeAtOnce(settlements, { run })
    } catch (error) {
      doubt(settlements)
      if (error instanceof StoreError && error.isUnreachable) throw error
    }
  }

  /** As {@link writeAll}, but halves the settlements until it has found those whose values make the statement fail. */
  const write = async (given: Settlement[]): Promise<void> => {
    const settlements = unaccepted(given)
    if (settlements.length === 0) return
    try {
      await writeAll(settlements)
    } catch (error) {
      if (!isOfValues(error)) throw error
      if (settlements.length === 1) {
        await writeWithoutLog(settlements)
        return
      }
      const half = Math.ceil(settlements.length / 2)
      await write(settlements.slice(0, half))
      await write(settlements.slice(half))
    }
  }

  /** The state matters more than the log. If even the state can't be written, the delivery is sent again. */
  const writeWithoutLog = async (settlements: Settlement[]): Promise<void> => {
    try {
      await writeAll(settlements, false)
    } catch (error) {
      if (!isOfValues(error)) throw error
    }
  }

  /** Writes the settlements whose rows no other session has locked, and returns the others. */
  const writeFree = async (settlements: Settlement[]): Promise<Settlement[]> => {
    const rows = await query<{ id: DeliveryId }>(findLocked, [settlements.map(({ id }) => id)])
    const ids = new Set(rows.map(({ id }) => id))
    await write(settlements.filter(({ id }) => !ids.has(id)))
    return settlements.filter(({ id }) => ids.has(id))
  }

  let lateRefused = 0

  const late = new LateSettlements(async (settlements) => {
    const locked = await writeFree(settlements)
    lateRefused += unaccepted(settlements).length - unaccepted(locked).length
    return unaccepted(locked)
  })

  const writeNowOrLate = async (settlements: Settlement[]): Promise<void> => {
    try {
      await write(settlements)
    } catch (error) {
      if (!isLockedOut(error)) throw error
      const locked = await writeFree(unaccepted(settlements))
      late.add(locked)
      for (const one of locked) isLate.add(one)
    }
  }

  return {
    /**
     * Carries out settlements. If it rejects, the same objects have to be given again.
     *
     * @param share - Tried first, and once, if the settlements fit into one transaction: it may run others in it.
     */
    settle: async (settlements: Settlement[], share?: RunAll): Promise<SettleAnswer[]> => {
      const all = unaccepted(firsts(settlements)).filter((one) => !isLate.has(one))
      if (share && all.length > 0 && all.length <= CHUNK) await tryAtOnce(all, share)
      const left = unaccepted(all)
      for (let from = 0; from < left.length; from += CHUNK) {
        await writeNowOrLate(left.slice(from, from + CHUNK))
      }
      return settlements.map((one) => {
        // What is late may still turn out to have been carried out before.
        if (isLate.delete(one)) return 'late'
        isUnsure.delete(one)
        return accepted.delete(one) ? 'taken' : 'refused'
      })
    },

    /** How many settlements that were late have been refused since the last call. */
    takeRefused: (): number => {
      const refused = lateRefused
      lateRefused = 0
      return refused
    },

    /** Tries once more to write what is late. Call it when the store closes. */
    finish: (): Promise<void> => late.finish(),
  }
}

/**
 * Keeps only the first settlement of each attempt, because one statement can change a row only once. All processes lock
 * rows in the order of ids, so that they do not block each other.
 */
function firsts(settlements: Settlement[]): Settlement[] {
  const seen = new Set<string>()
  const isFirst = ({ id, attempt }: Settlement): boolean => {
    const { size } = seen
    return seen.add(`${id} ${attempt}`).size > size
  }
  return settlements.filter(isFirst).sort((a, b) => a.id - b.id)
}

/** What the store has of a delivery that is not leased, or an attempt in its log. */
interface SettledRow {
  id: DeliveryId
  attempt: number
  /** `null` if it is in the log, which only a settlement writes. */
  state: number | null
  reason: string | null
}

function isSettledBy({ attempt, next }: Settlement, row: SettledRow): boolean {
  if (row.attempt !== attempt) return false
  if (row.state === null) return true
  if (row.state !== storedState(next.state)) return false
  return next.state !== 'dead' || row.reason === toStored(next.reason)
}

/** The settlement of a message that arrived with a single request. */
type Arrived = Settlement & { log: [AttemptLog] }

function isArrived(settlement: Settlement): settlement is Arrived {
  const [only, ...others] = settlement.log
  const isShort = only?.error === null && only.headers === undefined && others.length === 0
  return settlement.next.state === 'done' && isShort
}

/** The values of {@link arrivedStatement} after the time and the names. The driver takes longer to make arrays of numbers. */
function toArrays(arrived: Arrived[], list: NameList): (string | string[])[] {
  const numbers = (toNumber: (one: Arrived) => number | null) =>
    `{${arrived.map((one) => toNumber(one) ?? 'NULL').join()}}`
  return [
    numbers(({ id }) => id),
    numbers(({ attempt }) => attempt),
    numbers(({ log: [{ url }] }) => list.position(url)),
    numbers(({ log: [{ code }] }) => list.position(code)),
    numbers(({ log: [{ status }] }) => status),
    numbers(({ log: [{ ms }] }) => ms),
    arrived.map(({ log: [{ response }] }) => toStored(response)),
  ]
}

function toGiven(
  { id, attempt, next, refusedBy, isUnsent, log }: Settlement,
  n: number,
  list: NameList,
) {
  const of = { n, id, attempt, state: storedState(next.state) }
  const [only, ...others] = log
  if (next.state === 'done' && others.length === 0) {
    return only ? { ...of, ...toLogRow(only, list) } : of
  }
  return {
    ...of,
    delay: 'delayMs' in next ? Math.round(next.delayMs) : 0,
    unsent: isUnsent ?? false,
    refused_by: toRefusedBy(refusedBy),
    reason: next.state === 'dead' ? toStored(next.reason) : null,
    log: log.map((one, post) => ({ post, ...toLogRow(one, list) })),
  }
}

/** The columns of one row of `attempts`, which is the log of one POST. */
export function toLogRow(
  { url, code, status, ms, error, response, headers }: AttemptLog,
  list: NameList,
) {
  return {
    url_n: list.position(url),
    code_n: list.position(code),
    status,
    ms,
    ...(error !== null && { error: toStored(error) }),
    response: toStored(response),
    ...(headers !== undefined && { headers: toStored(headers) }),
  }
}
