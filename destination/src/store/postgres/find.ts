import type { DeliveryId, Filter, Findings, Matches, Summary } from '../../model/delivery.js'
import { fromStored, toStored } from '../text.js'
import { isExact, matchesBeyondSql } from '../beyond-sql.js'
import { prefixPattern } from '../prefix.js'
import { decodeCause, decodeDelivery, groupIds, type LastOutcome } from '../rows.js'
import { DEAD, stateNumber } from '../states.js'
import type { Tables } from './tables.js'
import { attemptsTable } from './schema.js'
import { DUE_AT, stateColumn } from './states.js'

/** The most rows that one slice reads. */
const SLICE = 20_000

/** The most cuts of the index by user, of 4,096 deliveries each, that one slice reads. */
const CUTS = 500
const CUT_BITS = 12

type Row = Omit<Summary, 'state' | 'cause'> & LastOutcome & { state: number }

/** The latest outcome of a delivery: that of the endpoint that accepted it, or else of the last attempt. */
const LATEST =
  'ORDER BY a.attempt DESC, coalesce(status BETWEEN 200 AND 299, false) DESC, post DESC LIMIT 1'

/** What a search for prefixes asks of the indexes: nothing. */
const NONE: Pick<Filter, 'event' | 'user' | 'messageId'> = {}

/** The ids that one slice searches: from `low` up to, but not including, `high`. */
interface Slice {
  low: DeliveryId
  high: DeliveryId
  /** Whether no delivery has a lower id. */
  isLast: boolean
}

/**
 * Searches deliveries, the newest first. One index gives the ids that may match. For each of them, the `LIMIT 1` makes
 * the planner look up the other columns by their key, whatever size it assumes for the tables.
 */
export function prepareFind({ query, schema }: Tables) {
  const attempts = attemptsTable(schema)
  // This reads only the index of ids. A search for waiting or dead deliveries reads the smaller table.
  const slice = (table: 'waiting' | 'deliveries') => `
    SELECT min(id) AS low, count(*)::int AS count
    FROM (SELECT id FROM ${schema}.${table} WHERE id < $1 ORDER BY id DESC LIMIT ${SLICE}) looked`
  const ends = `SELECT min(id) AS first, max(id) AS last FROM ${schema}.deliveries`

  const candidates = {
    all: `SELECT * FROM ${schema}.deliveries WHERE id >= $1 AND id < $2`,
    waiting: `
      SELECT d.* FROM ${schema}.waiting w CROSS JOIN LATERAL (
        SELECT * FROM ${schema}.deliveries WHERE id = w.id LIMIT 1
      ) d WHERE w.id >= $1 AND w.id < $2`,
    user: `
      SELECT d.* FROM generate_series(($2::bigint - 1) >> ${CUT_BITS}, $1::bigint >> ${CUT_BITS}, -1) cut
      CROSS JOIN LATERAL (
        SELECT * FROM ${schema}.deliveries
        WHERE id >> ${CUT_BITS} = cut AND hashtextextended(user_id, 0) = hashtextextended($9::text COLLATE "C", 0)
          AND id >= $1 AND id < $2
      ) d`,
    message: `SELECT * FROM ${schema}.deliveries WHERE message_id = $10 AND id >= $1 AND id < $2`,
  }
  const found = (from: string) => `
    (
      SELECT d.*, s.* FROM (${from}) d
      CROSS JOIN LATERAL (
        SELECT ${stateColumn('w', 'f')} AS state, coalesce(w.reason, f.reason) AS reason,
          coalesce(w.attempt, f.attempt) AS attempt, CASE WHEN w.state <> ${DEAD} THEN ${DUE_AT} END AS due_at,
          CASE WHEN w.state = ${DEAD} THEN w.due_at ELSE f.first_attempt_at END AS settled_at
        FROM (SELECT) one
          LEFT JOIN LATERAL (SELECT * FROM ${schema}.waiting WHERE id = d.id LIMIT 1) w ON true
          LEFT JOIN LATERAL (SELECT * FROM ${schema}.done WHERE id = d.id LIMIT 1) f ON true
      ) s
      WHERE ($4::int[] IS NULL OR state = ANY ($4)) AND ($5::text IS NULL OR destination = (SELECT id FROM ${schema}.names WHERE name = $5))
        AND ($6::text IS NULL OR source = (SELECT id FROM ${schema}.names WHERE name = $6))
        AND ($7::text IS NULL OR type = (SELECT id FROM ${schema}.names WHERE name = $7))
        AND ($8::text IS NULL OR event = $8) AND ($9::text IS NULL OR user_id = $9)
        AND ($10::text IS NULL OR message_id = $10)
        AND ($11::bigint IS NULL OR received_at >= $11) AND ($12::bigint IS NULL OR received_at < $12)
        AND ($21::bigint IS NULL OR coalesce(settled_at, 0) <= $21)
        AND ($13::text IS NULL OR event ILIKE $13) AND ($14::text IS NULL OR user_id ILIKE $14)
        AND ($15::text IS NULL OR message_id ILIKE $15)
        AND ($20::text[] IS NULL OR destination = ANY (ARRAY (SELECT id FROM ${schema}.names WHERE name = ANY ($20))))
        AND ($16::text IS NULL AND $17::int IS NULL AND $19::text IS NULL OR EXISTS (
          SELECT FROM (SELECT code, status, url FROM ${attempts} a WHERE delivery = d.id ${LATEST}) a
          WHERE ($16::text IS NULL OR code = (SELECT id FROM ${schema}.names WHERE name = $16))
            AND ($17::int IS NULL OR status BETWEEN $17 AND $18::int)
            AND ($19::text IS NULL OR url = ANY (ARRAY (SELECT id FROM ${schema}.names WHERE split_part(name, '?', 1) = $19)))
        ))
      ORDER BY d.id DESC LIMIT $3
    ) d
      JOIN ${schema}.names destinations ON destinations.id = destination`
  const ids = (from: string) =>
    `SELECT d.id, destinations.name AS destination FROM ${found(from)} ORDER BY d.id DESC`
  const summaries = (from: string) => `
    SELECT d.id, message_id AS "messageId", sources.name AS source, destinations.name AS destination,
      types.name AS type, event, user_id AS user, state, reason, attempt, received_at AS "receivedAt", due_at AS "dueAt",
      last.code AS "lastCode", last.status AS "lastStatus", last.error AS "lastError", last.response AS "lastResponse"
    FROM ${found(from)}
      JOIN ${schema}.names sources ON sources.id = source
      JOIN ${schema}.names types ON types.id = type
      LEFT JOIN LATERAL (
        SELECT codes.name AS code, status, error, response
        FROM (
          SELECT code, status, error, response FROM ${attempts} a WHERE delivery = d.id ${LATEST}
        ) a JOIN ${schema}.names codes ON codes.id = code
      ) last ON true
    ORDER BY d.id DESC`

  const sliceOf = async (
    { user, messageId }: Pick<Filter, 'user' | 'messageId'>,
    isWaiting: boolean,
    before: DeliveryId | undefined,
  ): Promise<Slice | undefined> => {
    const [bounds] = await query<{ first: number | null; last: number | null }>(ends)
    const { first, last } = bounds ?? {}
    if (typeof first !== 'number' || typeof last !== 'number') return undefined
    const high = Math.min(before ?? last + 1, last + 1)
    if (messageId !== undefined) return { low: first, high, isLast: true }
    if (user !== undefined) {
      const cut = 2 ** CUT_BITS
      const low = Math.max(first, (Math.floor((high - 1) / cut) - CUTS + 1) * cut)
      return { low, high, isLast: low <= first }
    }
    const [looked] = await query<{ low: number | null; count: number }>(
      slice(isWaiting ? 'waiting' : 'deliveries'),
      [high],
    )
    if (typeof looked?.low !== 'number') return undefined
    return { low: looked.low, high, isLast: looked.count < SLICE }
  }

  /** The rows of one slice, by a statement that is made for where the ids come from. They have only its columns. */
  const search = async (
    statement: (from: string) => string,
    filter: Filter,
    before: DeliveryId | undefined,
    limit: number,
  ): Promise<{ rows: Row[]; next: DeliveryId | undefined }> => {
    const { states, isPrefix } = filter
    const { event, user, messageId } = isPrefix === true ? NONE : filter
    const isWaiting = states?.every((state) => stateNumber(state) <= DEAD) ?? false
    const looked = await sliceOf({ user, messageId }, isWaiting, before)
    if (!looked) return { rows: [], next: undefined }
    const { low, high, isLast } = looked
    const way =
      messageId !== undefined
        ? 'message'
        : user !== undefined
          ? 'user'
          : isWaiting
            ? 'waiting'
            : 'all'
    const text = (value: string | undefined) => (value === undefined ? null : toStored(value))
    const rows = await query<Row>(statement(candidates[way]), [
      low,
      high,
      limit,
      states?.map((state) => stateNumber(state)) ?? null,
      text(filter.destination),
      text(filter.source),
      filter.type ?? null,
      text(event),
      text(user),
      text(messageId),
      filter.since ?? null,
      filter.until ?? null,
      ...[filter.event, filter.user, filter.messageId].map((prefix) =>
        isPrefix === true && prefix !== undefined ? prefixPattern(prefix) : null,
      ),
      filter.code ?? null,
      filter.status?.from ?? null,
      filter.status?.to ?? null,
      text(filter.endpoint),
      filter.destinations?.map(toStored) ?? null,
      filter.asOf ?? null,
    ])
    const next = rows.length === limit ? rows.at(-1)?.id : isLast ? undefined : low
    return { rows, next }
  }

  const find = async (
    filter: Filter,
    before: DeliveryId | undefined,
    limit: number,
  ): Promise<Findings & Pick<Matches, 'next'>> => {
    const { rows, next } = await search(summaries, filter, before, limit)
    const deliveries = rows.map(toSummary).filter((one) => matchesBeyondSql(filter, one))
    return { deliveries, next }
  }

  const match = async (
    filter: Filter,
    before: DeliveryId | undefined,
    limit: number,
  ): Promise<Matches> => {
    if (!isExact(filter)) {
      const { deliveries, next } = await find(filter, before, limit)
      return { matches: groupIds(deliveries), next }
    }
    const { rows, next } = await search(ids, filter, before, limit)
    const decoded = rows.map(({ id, destination }) => ({
      id,
      destination: fromStored(destination),
    }))
    return { matches: groupIds(decoded), next }
  }

  return { find, match }
}

function toSummary({ lastError, lastResponse, ...row }: Row): Summary {
  const decoded = decodeDelivery(row)
  return {
    ...decoded,
    source: fromStored(row.source),
    destination: fromStored(row.destination),
    cause: decodeCause({ lastCode: row.lastCode, lastError, lastResponse }, decoded),
  }
}
