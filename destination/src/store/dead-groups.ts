import type { DeadGroup, DeadGroups, DeliveryId } from '../model/delivery.js'
import { decodeCause, type LastOutcome } from './rows.js'
import { fromStored } from './text.js'

/** A dead letter, as a database has it. */
export interface DeadRow extends LastOutcome {
  id: DeliveryId
  diedAt: number
  reason: string | null
  status: number | null
}

/** The groups of one slice, which has all that is left if it has fewer rows than the limit. */
export function groupsOf(destination: string, rows: readonly DeadRow[], limit: number): DeadGroups {
  const groups = rows.map((row): DeadGroup => {
    const { status, lastCode: code, diedAt } = row
    const reason = row.reason === null ? null : fromStored(row.reason)
    const cause = decodeCause(row, { state: 'dead', reason }) ?? ''
    return { destination, code, status, cause, count: 1, firstAt: diedAt, lastAt: diedAt }
  })
  const last = rows.length < limit ? undefined : rows.at(-1)
  return { groups: joined(groups), next: last && { diedAt: last.diedAt, id: last.id } }
}

/** Joins the groups that have the same destination, outcome and cause. The largest comes first. */
export function joined(groups: readonly DeadGroup[]): DeadGroup[] {
  const found = new Map<string, DeadGroup>()
  for (const one of groups) {
    const { destination, code, status, cause } = one
    const key = JSON.stringify([destination, code, status, cause])
    const group = found.get(key)
    if (group) {
      group.count += one.count
      group.firstAt = Math.min(group.firstAt, one.firstAt)
      group.lastAt = Math.max(group.lastAt, one.lastAt)
    } else found.set(key, { ...one })
  }
  return Array.from(found.values()).sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
}
