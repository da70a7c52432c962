import type { Shared } from './shared.js'
import { IS_LISTED } from './schema.js'
import { BACKLOG, LEASED } from '../states.js'

/**
 * Makes all leased deliveries due at once. Their attempts keep their numbers, because they may have reached an endpoint.
 * They do not count in the retry window, because they may never have been made.
 */
export function prepareRelease({ database, counts, firstLeases }: Shared) {
  const release = database.prepare(
    `UPDATE deliveries INDEXED BY waiting SET state = ${BACKLOG}, due_at = ?, attempts_before = attempts_before + 1
     WHERE destination = ? AND state = ${LEASED} AND ${IS_LISTED} RETURNING id`,
  )
  return (now: number): void => {
    firstLeases.list(Infinity)
    for (const destination of counts.destinationsIn(LEASED)) {
      for (const row of release.all(now, destination)) {
        counts.move(destination, LEASED, BACKLOG, (row as { id: number }).id)
      }
    }
  }
}
