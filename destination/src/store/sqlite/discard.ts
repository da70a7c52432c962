import { LANES, stateNumber } from '../states.js'
import { IS_LISTED } from './schema.js'
import type { Shared } from './shared.js'

/** Deletes messages that wait for a destination. */
export function prepareDiscard({ database, names, counts }: Shared) {
  const waiting = database.prepare(
    `SELECT id FROM deliveries INDEXED BY waiting
     WHERE destination = ? AND state = ? AND ${IS_LISTED} ORDER BY due_at LIMIT ?`,
  )
  const deletes = [
    'DELETE FROM deliveries WHERE id = ?',
    'DELETE FROM bodies WHERE id = ?',
    'DELETE FROM attempts WHERE delivery = ?',
  ].map((sql) => database.prepare(sql))

  return (name: string, limit: number): number => {
    const destination = names.find(name)
    if (destination === undefined) return 0
    let discarded = 0
    for (const state of LANES.map(stateNumber)) {
      const rows = waiting.all(destination, state, limit - discarded) as { id: number }[]
      for (const { id } of rows) {
        for (const statement of deletes) statement.run(id)
        counts.move(destination, state, undefined, id)
      }
      discarded += rows.length
    }
    return discarded
  }
}
