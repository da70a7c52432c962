import type { DeliveryId } from '../../model/delivery.js'
import type { PurgedPart } from '../store.js'
import { fromOf, purgePage, PURGE_LIMIT, type Bounds } from '../purge-pages.js'
import { toStored } from '../text.js'
import type { Shared } from './shared.js'
import { DEAD, LEASED } from '../states.js'

/** Deletes what is stored of a user, except `delete` messages: they still have to be sent. */
export function preparePurge({ database, names, counts, firstLeases }: Shared) {
  const bounds = database.prepare(
    'SELECT min(id) >> 12 AS first, max(id) >> 12 AS last FROM deliveries',
  )
  const ofUser = database.prepare(
    `SELECT id, destination, state FROM deliveries INDEXED BY by_user
     WHERE id >> 12 = ? AND user = ? AND type IS NOT ?
     LIMIT ${PURGE_LIMIT}`,
  )
  const memberships = database.prepare(
    'SELECT audience FROM audiences JOIN members ON audience = id AND user = ?',
  )
  const untold = database.prepare('SELECT told FROM told JOIN untold ON told = id AND user = ?')
  const deletes = [
    'DELETE FROM deliveries WHERE id = ?',
    'DELETE FROM bodies WHERE id = ?',
    'DELETE FROM attempts WHERE delivery = ?',
  ].map((sql) => database.prepare(sql))
  const leave = database.prepare('DELETE FROM members WHERE audience = ? AND user = ?')
  const forget = database.prepare('DELETE FROM untold WHERE told = ? AND user = ?')

  const cuts = () => bounds.get() as Bounds
  const rowsOf = (cut: number, user: string) =>
    ofUser.all(cut, user, names.find('delete') ?? null) as {
      id: number
      destination: number
      state: number
    }[]

  /** @returns how many it deleted, and which of them were leased. */
  const purgeCut = (cut: number, user: string): [number, DeliveryId[]] => {
    const rows = rowsOf(cut, user)
    for (const { id, destination, state } of rows) {
      for (const statement of deletes) statement.run(id)
      firstLeases.remove(id)
      if (state <= DEAD) counts.move(destination, state, undefined, id)
    }
    return [rows.length, rows.filter(({ state }) => state === LEASED).map(({ id }) => id)]
  }

  const purgeMemberships = (user: string): number => {
    const rows = memberships.all(user) as { audience: number }[]
    for (const { audience } of rows) leave.run(audience, user)
    for (const { told } of untold.all(user) as { told: number }[]) forget.run(told, user)
    return rows.length
  }

  return {
    has: (user: string): boolean => {
      const stored = toStored(user)
      if (memberships.get(stored) ?? untold.get(stored)) return true
      const { first, last } = cuts()
      if (first === null || last === null) return false
      for (let cut = last; cut >= first; cut--) if (rowsOf(cut, stored).length > 0) return true
      return false
    },

    purge: (user: string, from: number): PurgedPart => {
      const stored = toStored(user)
      let purged = from === 0 ? purgeMemberships(stored) : 0
      const leased: DeliveryId[] = []
      const page = purgePage(from, cuts())
      if (!page) return { purged, next: undefined, leased }
      for (let cut = page.start; cut <= page.end; cut++) {
        const [count, own] = purgeCut(cut, stored)
        purged += count
        leased.push(...own)
        if (purged >= PURGE_LIMIT) return { purged, next: fromOf(cut), leased }
      }
      return { purged, next: page.next, leased }
    },
  }
}
