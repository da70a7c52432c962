import type { RunQuery } from './connection.js'
import type { Names } from './names.js'

/** What the statements work on. */
export interface Tables {
  query: RunQuery
  /** As it stands in statements. */
  schema: string
  names: Names
  /** The store's time, where a test sets it; `null` leaves it to the server. */
  now: () => number | null
}

/**
 * The time at which a statement began, in ms since the epoch, by the server's clock unless `$1` has another. As a
 * subquery it is asked for once, and an index can be searched for it.
 */
export const NOW =
  '(SELECT coalesce($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint))'
