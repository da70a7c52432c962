import type { OutcomeCode } from '../../model/outcome.js'
import type { EventType } from '../../model/call.js'
import type { DeliveryId, Filter, Findings, Matches, Summary } from '../../model/delivery.js'
import { isExact, isOfEndpoint, matchesBeyondSql } from '../beyond-sql.js'
import { prefixPattern } from '../prefix.js'
import { decodeCause, decodeDelivery, groupIds } from '../rows.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import type { Statement, Value } from './driver.js'
import { DUE_AT, HAS_POST, SETTLED_AT } from './schema.js'
import { DEAD, stateNumber } from '../states.js'

/** A search reads cuts of 4,096 ids, which are the cuts of the index `by_user`. */
const CUT_BITS = 12
const CUT = 2 ** CUT_BITS

/** In ms: a search stops after the cut in which this time is over, so that rounds do not wait longer. */
const SEARCH_MS = 6

/** One call of a search, as `Store.find` and `Store.match` take it. */
export interface Search {
  filter: Filter
  before: DeliveryId | undefined
  limit: number
}

interface Row {
  id: number
  messageId: string
  source: number
  destination: number
  type: number
  event: string
  user: string
  state: number
  reason: string | null
  attempt: number
  receivedAt: number
  dueAt: number
  /** Negative if the row has no attempt. */
  postUrl: number
  postStatus: number
}

/** The outcome of the latest attempt of a delivery. */
interface Latest {
  code: OutcomeCode
  status: number | null
  error: string | null
  response: string
}

/** The columns of {@link Row}. */
const ROW = `id, message_id AS messageId, source, destination, type, event, user, state, reason, attempt,
  received_at AS receivedAt, ${DUE_AT} AS dueAt, post_url AS postUrl, post_status AS postStatus`

/** The columns that {@link Matches} has. */
const IDS = 'id, destination'

/**
 * A part of a condition, with the values of its `?`. The text has nothing that differs from search to search, because each text has a
 * statement of its own for as long as the file is open.
 */
type Term = [sql: string, ...values: Value[]]

/** The latest outcome of a delivery: that of the endpoint that accepted it, or else of the last attempt. */
const LATEST =
  'ORDER BY attempt DESC, coalesce(status BETWEEN 200 AND 299, 0) DESC, post DESC LIMIT 1'

/** A list of numbers as one value, so that lists of any length have the same text. */
const IN_LIST = 'IN (SELECT value FROM json_each(?))'

/**
 * Searches deliveries, the newest first. It finds a message in the index `by_message`, and a user in the index
 * `by_user`, cut by cut. For other filters it reads all rows, cut by cut.
 */
export function prepareFind({ database, names, counts, ids }: Shared) {
  const statements = new Map<string, Statement>()
  const oldest = database.prepare('SELECT min(id) AS id FROM deliveries')
  const latest = database.prepare(
    `SELECT code, status, error, response FROM attempts WHERE delivery = ? ${LATEST}`,
  )

  /** Rows have only the columns that are asked for. */
  const run = (columns: string, how: string, terms: Term[], limit: number): Row[] => {
    const sql = `SELECT ${columns} FROM deliveries ${how} WHERE ${terms.map(([text]) => text).join(' AND ')} ORDER BY id DESC LIMIT ?`
    let statement = statements.get(sql)
    if (!statement) statements.set(sql, (statement = database.prepare(sql)))
    return statement.all(...terms.flatMap(([, ...values]) => values), limit) as Row[]
  }

  const latestOf = ({ id, postUrl, postStatus }: Row): Latest | undefined => {
    if (postUrl > 0) return { code: 'delivered', status: postStatus, error: null, response: '' }
    const last = latest.get(id) as (Omit<Latest, 'code'> & { code: number }) | undefined
    return last && { ...last, code: names.name(last.code) as OutcomeCode }
  }

  const toSummary = (row: Row): Summary => {
    const last = latestOf(row)
    const lastCode = last?.code ?? null
    const { messageId, event, user, state, reason } = decodeDelivery(row)
    return {
      id: row.id,
      messageId,
      source: names.name(row.source),
      destination: names.name(row.destination),
      type: names.name(row.type) as EventType,
      event,
      user,
      state,
      reason,
      attempt: row.attempt,
      receivedAt: row.receivedAt,
      dueAt: row.state < DEAD ? row.dueAt : null,
      lastCode,
      lastStatus: last?.status ?? null,
      cause: decodeCause(
        { lastCode, lastError: last?.error ?? null, lastResponse: last?.response ?? null },
        { state, reason },
      ),
    }
  }

  /** The conditions on everything but id, user and message; `undefined` if nothing can match. */
  const termsOf = (filter: Filter): Term[] | undefined => {
    const terms: Term[] = []
    const { states, event, user, messageId, isPrefix, since, until, asOf } = filter
    if (states) {
      const numbers = states.map((state) => stateNumber(state)).sort((a, b) => a - b)
      // The counts know whether any delivery waits or is dead. If none does, nothing has to be read.
      if (!numbers.some((n) => n > DEAD || counts.destinationsIn(n).next().done === false))
        return undefined
      terms.push([`state IN (${numbers.join()})`])
    }
    for (const field of ['destination', 'source', 'type'] as const) {
      const name = filter[field]
      if (name === undefined) continue
      const number = names.find(name)
      if (number === undefined) return undefined
      terms.push([`${field} = ?`, number])
    }
    if (filter.destinations) {
      const numbers = filter.destinations.flatMap((name) => names.find(name) ?? [])
      if (numbers.length === 0) return undefined
      terms.push([`destination ${IN_LIST}`, JSON.stringify(numbers)])
    }
    if (isPrefix === true) {
      for (const [column, prefix] of Object.entries({ event, user, message_id: messageId })) {
        if (prefix !== undefined && prefix !== '')
          terms.push([`${column} LIKE ? ESCAPE '\\'`, prefixPattern(prefix)])
      }
    } else if (event !== undefined) terms.push(['event = ?', toStored(event)])
    if (since !== undefined) terms.push(['received_at >= ?', since])
    if (until !== undefined) terms.push(['received_at < ?', until])
    if (asOf !== undefined) terms.push([`${SETTLED_AT} <= ?`, asOf])
    return addLatest(terms, filter) ? terms : undefined
  }

  /** Adds the conditions on the latest outcome, which are the slowest. Returns `false` if nothing can match. */
  const addLatest = (terms: Term[], { code, status, endpoint }: Filter): boolean => {
    const last = (column: string, ofRow: string | number) =>
      `iif(${HAS_POST}, ${ofRow}, (SELECT ${column} FROM attempts WHERE delivery = deliveries.id ${LATEST}))`
    if (code !== undefined) {
      const number = names.find(code)
      if (number === undefined) return false
      terms.push([`${last('code', names.find('delivered') ?? 0)} = ?`, number])
    }
    if (status)
      terms.push([`${last('status', 'post_status')} BETWEEN ? AND ?`, status.from, status.to])
    if (endpoint === undefined) return true
    const urls = names.numbersOf((name) => isOfEndpoint(name, endpoint))
    terms.push([`${last('url', 'post_url')} ${IN_LIST}`, JSON.stringify(urls)])
    return urls.length > 0
  }

  /** Reads rows with ids below `from`, down to the oldest. It stops when the time is over. */
  const look = (columns: string, filter: Filter, terms: Term[], from: number, limit: number) => {
    const user = filter.isPrefix === true ? undefined : filter.user
    const { id: firstId } = oldest.get() as { id: number | null }
    const rows: Row[] = []
    const endsAt = performance.now() + SEARCH_MS
    for (let before = from; before > (firstId ?? before);) {
      const cut = Math.floor((before - 1) / CUT)
      const start = cut * CUT
      const found =
        user === undefined
          ? run(
              columns,
              'NOT INDEXED',
              [['id >= ?', start], ['id < ?', before], ...terms],
              limit - rows.length,
            )
          : run(
              columns,
              'INDEXED BY by_user',
              [
                [`id >> ${CUT_BITS} = ?`, cut],
                ['user = ?', toStored(user)],
                ['id < ?', before],
                ...terms,
              ],
              limit - rows.length,
            )
      rows.push(...found)
      before = start
      if (rows.length === limit) return { rows, next: rows.at(-1)?.id }
      if (performance.now() >= endsAt)
        return { rows, next: before > (firstId ?? 0) ? before : undefined }
    }
    return { rows, next: undefined }
  }

  /** The rows of one slice, with these columns. */
  const search = (columns: string, { filter, before = ids.next, limit }: Search) => {
    const terms = termsOf(filter)
    if (!terms) return { rows: [], next: undefined }
    if (filter.messageId === undefined || filter.isPrefix === true)
      return look(columns, filter, terms, before, limit)
    if (filter.user !== undefined) terms.push(['user = ?', toStored(filter.user)])
    terms.push(['message_id = ?', toStored(filter.messageId)], ['id < ?', before])
    const rows = run(columns, 'INDEXED BY by_message', terms, limit)
    return { rows, next: rows.length === limit ? rows.at(-1)?.id : undefined }
  }

  const find = (one: Search): Findings & Pick<Matches, 'next'> => {
    const { rows, next } = search(ROW, one)
    const found = rows.map(toSummary).filter((summary) => matchesBeyondSql(one.filter, summary))
    return { deliveries: found, next }
  }

  const match = (one: Search): Matches => {
    if (!isExact(one.filter)) {
      const { deliveries, next } = find(one)
      return { matches: groupIds(deliveries), next }
    }
    const { rows, next } = search(IDS, one)
    const found = rows.map(({ id, destination }) => ({ id, destination: names.name(destination) }))
    return { matches: groupIds(found), next }
  }

  return { find, match }
}
