import type { DeadGroups, DeadPlace } from '../../model/delivery.js'
import type { OutcomeCode } from '../../model/outcome.js'
import { groupsOf, type DeadRow } from '../dead-groups.js'
import { DEAD } from '../states.js'
import { IS_LISTED } from './schema.js'
import type { Shared } from './shared.js'

type Row = Omit<DeadRow, 'lastCode'> & { code: number | null }

/** Groups dead letters of one destination by their latest outcome and cause, the latest dead letters first. */
export function prepareDeadGroups({ database, names }: Shared) {
  const read = database.prepare(
    `SELECT d.id, d.due_at AS diedAt, d.reason, a.code, a.status, a.error AS lastError, a.response AS lastResponse
     FROM (
       SELECT id, due_at, reason FROM deliveries INDEXED BY waiting
       WHERE destination = ? AND state = ${DEAD} AND ${IS_LISTED} AND (due_at, id) < (?, ?)
       ORDER BY due_at DESC, id DESC LIMIT ?
     ) d LEFT JOIN attempts a ON a.delivery = d.id AND (a.attempt, a.post) = (
       SELECT attempt, post FROM attempts WHERE delivery = d.id ORDER BY attempt DESC, post DESC LIMIT 1
     )
     ORDER BY d.due_at DESC, d.id DESC`,
  )

  return (destination: string, before: DeadPlace | undefined, limit: number): DeadGroups => {
    const number = names.find(destination)
    if (number === undefined) return { groups: [], next: undefined }
    const { diedAt, id } = before ?? { diedAt: Number.MAX_SAFE_INTEGER, id: 0 }
    const rows = (read.all(number, diedAt, id, limit) as Row[]).map(({ code, ...row }) => ({
      ...row,
      lastCode: code === null ? null : (names.name(code) as OutcomeCode),
    }))
    return groupsOf(destination, rows, limit)
  }
}

/** Counts the dead letters of each destination that died after a time. */
export function prepareDeadCounts({ database, names }: Shared) {
  const count = database.prepare(
    `SELECT count(*) AS count FROM (
       SELECT 1 FROM deliveries INDEXED BY waiting
       WHERE destination = ? AND state = ${DEAD} AND ${IS_LISTED} AND due_at > ? LIMIT ?
     )`,
  )
  return (destinations: readonly string[], after: number, most: number): number[] =>
    destinations.map((destination) => {
      const number = names.find(destination)
      if (number === undefined) return 0
      return (count.get(number, after, most) as { count: number }).count
    })
}
