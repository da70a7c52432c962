import type { EventType } from '../../model/call.js'
import type { Claim, Delivery, DeliveryId, Lane } from '../../model/delivery.js'
import { LEASE_MS, NEWEST, type DueLane } from '../store.js'
import { fromStored, toStored } from '../text.js'
import { refusedByOf } from '../rows.js'
import { BACKLOG, stateNumber, stateOf } from '../states.js'
import type { RunQuery } from './connection.js'
import { LaneStarts } from './lane-starts.js'
import { DUE_AT, isAhead, lanesOf } from './states.js'
import { NOW, type Tables } from './tables.js'

/** The most deliveries that one statement leases, so that few rows are locked at once and the locks are short. */
const LEASE_ROWS = 2_000

/** In bytes: a statement leases no more deliveries once their bodies have this size together. */
const LEASE_BYTES = 16 * 1_048_576

/** In bytes: a statement reads no more bodies once they have this size together. */
const READ_BYTES = 4 * 1_048_576

/** What a claim reads of the rows that it finds. */
const COLUMNS =
  'id, due_at, lease_until, leased, attempt, attempts_before, first_attempt_at, refused_by, size'

/**
 * The condition for rows that are not leased in their lane, or whose lease has run out, or is from a time when the server's clock was
 * ahead.
 */
const FREE = `(lease_until IS NULL OR lease_until <= ${NOW} OR ${isAhead('lease_until')})`

/** A delivery that a claim found. It is leased if it is `taken`. If a lease of it had `lapsed`, it was put into the backlog instead. */
interface Found {
  id: DeliveryId
  /** The position of its claim, from 1. */
  n: number
  taken: boolean
  lapsed: boolean
  /** Of its body, in bytes. */
  size: number
  attempt: number
  attemptsBefore: number
  sinceFirstMs: number
  dueForMs: number
  refusedBy: string | null
  /** When it was due, in ms since the epoch. */
  dueAt: number
}

/** What is read of a delivery after it was leased. */
interface Content {
  id: DeliveryId
  messageId: string
  /** The numbers of the names of its source and its type. */
  source: number
  type: number
  body: string
  traceParent: string | null
  /** In one row, the names of all numbers. In the others `null`. */
  names: Record<string, string> | null
}

/** A delivery that is leased, and the claim that it belongs to. */
interface Leased extends Found {
  claim: Claim
}

/**
 * The statement that carries out claims. For each claim it reads the index `waiting_due` from the longest due delivery
 * on that is due at its `start` or later, skips rows that are leased or that others have locked, and stops at the limit. It sorts
 * only the rows that it found.
 *
 * A row keeps its place in the index while it is leased. If its lease has run out, it is put into the backlog, as due at the end of
 * the lease. So a message that ends each process that sends it does not come first in its lane again and again. A claim of the
 * backlog then finds it as a row that is leased and has no `lease_until`. Its last attempt does not count: it may never have been
 * made. A lease from a time when the server's clock was ahead may still be held: it lasts for as long as one that begins now.
 *
 * The server checks the constraints of a row first with its values at the beginning of the statement, when another worker may not
 * have leased it yet. So an update must not rely on `lease_until`.
 *
 * It returns only numbers. A long answer would keep the rows locked for as long as a process that was stopped, or cut off,
 * does not read it. The bodies follow after the lease has committed.
 *
 * The planner can't know how many rows that will be. With plain joins it sometimes reads whole tables or compares every
 * row with every other. The array and the `LIMIT 1` force it to look up each row by its key.
 */
export function claimStatement(schema: string): string {
  return statement(
    schema,
    `SELECT ${COLUMNS} FROM ${schema}.waiting
     WHERE destination = claims.destination AND state = claims.state AND due_at >= claims.start AND due_at <= ${NOW} AND ${FREE}
     ORDER BY due_at, id LIMIT claims.count FOR UPDATE SKIP LOCKED`,
    'due_at, id',
  )
}

/**
 * The statement for claims of untried deliveries. It looks at the newest of them without a lock, and then locks those
 * that it takes: their conditions are checked again, because another worker may have claimed them in between.
 */
function untriedStatement(schema: string): string {
  return statement(
    schema,
    `SELECT ${COLUMNS} FROM ${schema}.waiting
     WHERE id = ANY (ARRAY (
         SELECT id FROM (
           SELECT id, attempt FROM ${schema}.waiting
           WHERE destination = claims.destination AND state = claims.state AND due_at <= ${NOW}
           ORDER BY due_at DESC, id DESC LIMIT ${NEWEST}
         ) newest WHERE attempt = 0 LIMIT claims.count
       )) AND state = claims.state AND due_at <= ${NOW} AND attempt = 0
     ORDER BY due_at DESC, id DESC FOR UPDATE SKIP LOCKED`,
    'due_at DESC, id DESC',
  )
}

/**
 * @param search - The rows of `waiting` for one row of `claims`, locked.
 * @param order - The order of these rows, and of what each claim returns.
 */
function statement(schema: string, search: string, order: string): string {
  return `
    WITH claims AS MATERIALIZED (
      SELECT (SELECT id FROM ${schema}.names WHERE names.name = given.name LIMIT 1) AS destination, state, count, start, n
      FROM json_to_recordset($2::json) AS given (name text, state smallint, count int, start bigint, n int)
    ), found AS MATERIALIZED (
      SELECT n, w.*
      FROM claims CROSS JOIN LATERAL (
        ${search}
      ) w LIMIT ${LEASE_ROWS}
    ), sized AS MATERIALIZED (
      SELECT *, lease_until IS NULL AND coalesce(sum(size) OVER before, 0) < ${LEASE_BYTES} AS taken
      FROM (
        SELECT n, id, due_at, lease_until, leased, attempt, attempts_before, first_attempt_at, refused_by, coalesce(size, (
          SELECT octet_length(body) FROM ${schema}.deliveries d WHERE d.id = found.id LIMIT 1
        ), 0) AS size FROM found
      ) measured
      WINDOW before AS (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), leased AS (
      UPDATE ${schema}.waiting
      SET leased = true, lease_until = ${NOW} + ${LEASE_MS}, attempt = attempt + 1,
        attempt_at = ${NOW}, first_attempt_at = least(first_attempt_at, ${NOW}),
        attempts_before = CASE WHEN leased THEN coalesce(attempts_before, 0) + 1 ELSE attempts_before END
      WHERE id = ANY (ARRAY (SELECT id FROM sized WHERE taken))
    ), lapsed AS (
      UPDATE ${schema}.waiting SET state = ${BACKLOG}, due_at = least(${DUE_AT}, ${NOW} + ${LEASE_MS}), lease_until = NULL
      WHERE id = ANY (ARRAY (SELECT id FROM sized WHERE lease_until IS NOT NULL))
    )
    SELECT id, n, taken, lease_until IS NOT NULL AS lapsed, size, attempt + 1 AS attempt, coalesce(attempts_before, 0) + leased::int AS "attemptsBefore",
      greatest(0, coalesce(${NOW} - first_attempt_at, 0)) AS "sinceFirstMs", refused_by AS "refusedBy",
      due_at AS "dueAt", greatest(0, ${NOW} - due_at) AS "dueForMs"
    FROM sized ORDER BY n, ${order}`
}

/**
 * The statement that reads leased deliveries. It leaves out those that were deleted meanwhile. Few sources and types are in one
 * answer, so that their names are looked up once, and one of the rows has them.
 *
 * @public - The benchmark runs it alone.
 */
export function contentStatement(schema: string): string {
  return `
    WITH read AS MATERIALIZED (
      SELECT id, message_id AS "messageId", trace_parent AS "traceParent", body, source, type
      FROM ${schema}.deliveries WHERE id = ANY ($1::bigint[])
    )
    SELECT read.*, CASE WHEN id = (SELECT min(id) FROM read) THEN (
      SELECT json_object_agg(id, name) FROM ${schema}.names
      WHERE id = ANY (ARRAY (SELECT source FROM read UNION SELECT type FROM read))
    ) END AS names FROM read`
}

/**
 * Leases due deliveries, then reads them. One call leases only so many that its statements are short.
 *
 * @param onCut - Called for each claim that did not get all that it asked for, because the others had enough, because it
 * began behind the beginning of its lane, or because it found leases that had run out: then also for the backlog.
 * @param join - Runs the statement that leases what was due the longest. It may be in a transaction with others.
 */
export function prepareClaim(
  { prepared, schema, now }: Tables,
  onCut: (claim: Claim) => void,
  join: RunQuery = prepared,
) {
  const oldestDue = claimStatement(schema)
  const untried = untriedStatement(schema)
  const content = contentStatement(schema)
  /** The lane whose claim was cut first. The next call begins with it, so that each lane has its turn. */
  let nextLane: string | undefined

  const starts = new LaneStarts()

  /** Notes where claims ended, and returns those that may find more before their start. */
  const noteEnds = (claims: Claim[], rows: Found[], cut: Claim[]): Claim[] => {
    return claims.filter((claim, i) => {
      const found = rows.filter(({ n }) => n === i + 1)
      const isFull = found.length === claim.limit
      if (isFull && found[0]) starts.noteFull(laneOf(claim), found[0].dueAt)
      return !isFull && !cut.includes(claim) && starts.noteShort(laneOf(claim))
    })
  }

  const lease = async (sql: string, claims: Claim[], isAgain = false): Promise<Leased[]> => {
    if (claims.length === 0) return []
    const given = claims.map((claim, i) => ({
      name: toStored(claim.destination),
      state: stateNumber(claim.lane),
      count: claim.limit,
      start: starts.of(laneOf(claim)),
      n: i + 1,
    }))
    const run = sql === oldestDue ? join : prepared
    const rows = await run<Found>(sql, [now(), JSON.stringify(given)])
    const lapsed = claims.filter((_, i) => rows.some((row) => row.lapsed && row.n === i + 1))
    for (const claim of lapsed) onCut({ ...claim, lane: 'backlog' })
    const isNoneTaken = !rows.some(({ taken }) => taken)
    if (lapsed.length > 0 && isNoneTaken && !isAgain) return lease(sql, claims, true)
    const cut = cutClaims(claims, rows)
    if (cut[0]) nextLane = laneOf(cut[0])
    cut.forEach(onCut)
    const left = sql === oldestDue ? noteEnds(claims, rows, cut) : []
    if (rows.length === 0 && left.length > 0) return lease(sql, left)
    left.forEach(onCut)
    return rows.flatMap((row) => {
      const claim = claims[row.n - 1]
      return claim && row.taken ? [{ ...row, claim }] : []
    })
  }

  /** Reads as many deliveries as it can. Those that it can't read are due again when their leases end. */
  const read = async (leased: Leased[]): Promise<Delivery[]> => {
    const deliveries: Delivery[] = []
    for (const part of partsOf(leased)) {
      try {
        const rows = await prepared<Content>(content, [`{${part.map(({ id }) => id).join()}}`])
        const byId = new Map(rows.map((row) => [row.id, row]))
        const names = rows.find((row) => row.names)?.names ?? {}
        deliveries.push(...part.flatMap((one) => toDelivery(one, byId.get(one.id), names)))
      } catch (error) {
        if (deliveries.length === 0) throw error
        break
      }
    }
    return deliveries
  }

  return async (claims: Claim[]): Promise<Delivery[]> => {
    const first = claims.findIndex((claim) => laneOf(claim) === nextLane)
    const inTurn = first < 0 ? claims : [...claims.slice(first), ...claims.slice(0, first)]
    nextLane = undefined
    const probes = await lease(
      untried,
      inTurn.filter(({ isUntried }) => isUntried),
    )
    const others = await lease(
      oldestDue,
      inTurn.filter(({ isUntried }) => !isUntried),
    )
    return read([...probes, ...others])
  }
}

/** Finds the lanes in which something is due. In each lane it steps over what is leased. */
export function prepareDue({ query, schema, now }: Tables) {
  const statement = `
    WITH RECURSIVE ${lanesOf(schema)}
    SELECT name, state FROM lanes CROSS JOIN LATERAL (
      SELECT FROM ${schema}.waiting w
      WHERE w.destination = lanes.destination AND w.state = lanes.state AND due_at <= ${NOW} AND ${FREE}
      ORDER BY due_at LIMIT 1
    ) due JOIN ${schema}.names ON names.id = destination
    WHERE state <= ${BACKLOG}`

  return async (): Promise<DueLane[]> =>
    (await query<{ name: string; state: number }>(statement, [now()])).map(({ name, state }) => ({
      destination: fromStored(name),
      lane: stateOf(state) as Lane,
    }))
}

/** The claims that ended before they had found all that they asked for. */
function cutClaims(claims: Claim[], rows: Found[]): Claim[] {
  const isFull = rows.length === LEASE_ROWS
  const from = isFull ? (rows.at(-1)?.n ?? 0) - 1 : claims.length
  const isLeft = new Set(rows.filter(({ taken }) => !taken).map(({ n }) => n - 1))
  return claims.filter((_, i) => i >= from || isLeft.has(i))
}

function laneOf({ destination, lane }: Claim): string {
  return `${lane} ${destination}`
}

/** Cuts a list where the bodies reach {@link READ_BYTES}. */
function partsOf(leased: readonly Leased[]): Leased[][] {
  const parts: Leased[][] = []
  let bytes = Infinity
  for (const one of leased) {
    if (bytes >= READ_BYTES) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(one)
    bytes += one.size
  }
  return parts
}

function toDelivery(
  { claim: { destination, lane }, ...found }: Leased,
  content: Content | undefined,
  names: Record<string, string>,
): Delivery[] {
  const [source, type] = [names[content?.source ?? ''], names[content?.type ?? '']]
  if (!content || source === undefined || type === undefined) return []
  return [
    {
      id: found.id,
      attempt: found.attempt,
      attemptsBefore: found.attemptsBefore,
      messageId: fromStored(content.messageId),
      source: fromStored(source),
      destination,
      type: type as EventType,
      body: fromStored(content.body),
      sinceFirstMs: found.sinceFirstMs,
      dueForMs: found.dueForMs,
      lane,
      traceParent: content.traceParent ?? undefined,
      refusedBy: refusedByOf(found.refusedBy),
    },
  ]
}
