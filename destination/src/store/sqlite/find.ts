import type { OutcomeCode } from '../../model/outcome.js'
import type { EventType } from '../../model/call.js'
import type { DeliveryId, Filter, Findings, Summary } from '../../model/delivery.js'
import { decodeDelivery } from '../rows.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import type { Statement, Value } from './driver.js'
import { DEAD, stateNumber } from '../states.js'

/** A search reads cuts of 4,096 ids, which are the cuts of the index `by_user`. */
const CUT_BITS = 12
const CUT = 2 ** CUT_BITS

/** In ms: a search stops after the cut in which this time is over, so that rounds do not wait longer. */
const SEARCH_MS = 6

/** One call of a search, as `Store.find` takes it. */
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
}

/** A part of a condition, with the value of its `?`. */
type Term = [sql: string, value?: Value]

/**
 * Searches deliveries, the newest first. It finds a message in the index `by_message`, and a user in the index
 * `by_user`, cut by cut. For other filters it reads all rows, cut by cut.
 */
export function prepareFind({ database, names, counts, ids }: Shared) {
  const statements = new Map<string, Statement>()
  const oldest = database.prepare('SELECT min(id) AS id FROM deliveries')
  const latest = database.prepare(
    `SELECT code, status FROM attempts WHERE delivery = ?
     ORDER BY attempt DESC, status BETWEEN 200 AND 299 DESC, post DESC LIMIT 1`,
  )

  const run = (how: string, terms: Term[], limit: number): Row[] => {
    const sql = `SELECT id, message_id AS messageId, source, destination, type, event, user, state, reason, attempt,
         received_at AS receivedAt, due_at AS dueAt
       FROM deliveries ${how} WHERE ${terms.map(([text]) => text).join(' AND ')} ORDER BY id DESC LIMIT ?`
    let statement = statements.get(sql)
    if (!statement) statements.set(sql, (statement = database.prepare(sql)))
    const values = terms.flatMap(([, value]) => (value === undefined ? [] : [value]))
    return statement.all(...values, limit) as Row[]
  }

  const toSummary = (row: Row): Summary => {
    const last = latest.get(row.id) as { code: number; status: number | null } | undefined
    const { source, destination, type, dueAt, ...texts } = decodeDelivery(row)
    return {
      ...texts,
      source: names.name(source),
      destination: names.name(destination),
      type: names.name(type) as EventType,
      dueAt: row.state < DEAD ? dueAt : null,
      lastCode: last ? (names.name(last.code) as OutcomeCode) : null,
      lastStatus: last?.status ?? null,
    }
  }

  /** The conditions on everything but id, user and message; `undefined` if nothing can match. */
  const termsOf = (filter: Filter): Term[] | undefined => {
    const terms: Term[] = []
    const { states, event, since, until } = filter
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
    if (event !== undefined) terms.push(['event = ?', toStored(event)])
    if (since !== undefined) terms.push(['received_at >= ?', since])
    if (until !== undefined) terms.push(['received_at < ?', until])
    return terms
  }

  /** Reads rows with ids below `from`, down to the oldest. It stops when the time is over. */
  const look = (filter: Filter, terms: Term[], from: number, limit: number) => {
    const { user } = filter
    const { id: firstId } = oldest.get() as { id: number | null }
    const rows: Row[] = []
    const endsAt = performance.now() + SEARCH_MS
    for (let before = from; before > (firstId ?? before);) {
      const cut = Math.floor((before - 1) / CUT)
      const start = cut * CUT
      const found =
        user === undefined
          ? run(
              'NOT INDEXED',
              [['id >= ?', start], ['id < ?', before], ...terms],
              limit - rows.length,
            )
          : run(
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

  return ({ filter, before = ids.next, limit }: Search): Findings => {
    const terms = termsOf(filter)
    if (!terms) return { deliveries: [], next: undefined }
    if (filter.messageId === undefined) {
      const { rows, next } = look(filter, terms, before, limit)
      return { deliveries: rows.map(toSummary), next }
    }
    if (filter.user !== undefined) terms.push(['user = ?', toStored(filter.user)])
    terms.push(['message_id = ?', toStored(filter.messageId)], ['id < ?', before])
    const rows = run('INDEXED BY by_message', terms, limit)
    return {
      deliveries: rows.map(toSummary),
      next: rows.length === limit ? rows.at(-1)?.id : undefined,
    }
  }
}
