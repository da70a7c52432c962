import type { Purged } from '../store.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { DEAD } from './schema.js'

/** So many cuts of the index by user are looked at in one go, a quarter of a million deliveries, and so many deleted. */
const CUTS = 64
const LIMIT = 1_000

/** Deletes what is stored of a user, but for the deletions themselves: those are still to be sent. */
export function preparePurge({ database, names, tally }: Shared) {
  const bounds = database.prepare(
    'SELECT min(id) >> 12 AS first, max(id) >> 12 AS last FROM deliveries',
  )
  const ofUser = database.prepare(
    `SELECT id, destination, state FROM deliveries INDEXED BY by_user
     WHERE id >> 12 = ? AND user = ? AND type IS NOT ?
     LIMIT ${LIMIT}`,
  )
  const memberships = database.prepare(
    'SELECT audience FROM audiences JOIN members ON audience = id AND user = ?',
  )
  const deletes = [
    'DELETE FROM deliveries WHERE id = ?',
    'DELETE FROM bodies WHERE id = ?',
    'DELETE FROM attempts WHERE delivery = ?',
  ].map((sql) => database.prepare(sql))
  const leave = database.prepare('DELETE FROM members WHERE audience = ? AND user = ?')

  const cuts = () => bounds.get() as { first: number | null; last: number | null }
  const rowsOf = (cut: number, user: string) =>
    ofUser.all(cut, user, names.find('delete') ?? null) as {
      id: number
      destination: number
      state: number
    }[]

  const purgeCut = (cut: number, user: string): number => {
    const rows = rowsOf(cut, user)
    for (const { id, destination, state } of rows) {
      for (const statement of deletes) statement.run(id)
      if (state <= DEAD) tally.move(destination, state, undefined, id)
    }
    return rows.length
  }

  const purgeMemberships = (user: string): number => {
    const rows = memberships.all(user) as { audience: number }[]
    for (const { audience } of rows) leave.run(audience, user)
    return rows.length
  }

  return {
    has: (user: string): boolean => {
      const stored = toStored(user)
      if (memberships.get(stored)) return true
      const { first, last } = cuts()
      if (first === null || last === null) return false
      for (let cut = last; cut >= first; cut--) if (rowsOf(cut, stored).length > 0) return true
      return false
    },

    purge: (user: string, from: number): Purged => {
      const stored = toStored(user)
      const { first, last } = cuts()
      let purged = from === 0 ? purgeMemberships(stored) : 0
      if (first === null || last === null) return { purged, next: undefined }
      // Cuts are counted from 1 here, for 0 is the start.
      const start = Math.max(first, from - 1)
      const end = Math.min(last, start + CUTS - 1)
      for (let cut = start; cut <= end; cut++) {
        purged += purgeCut(cut, stored)
        if (purged >= LIMIT) return { purged, next: cut + 1 }
      }
      return { purged, next: end < last ? end + 2 : undefined }
    },
  }
}
