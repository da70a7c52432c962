import { BE_DURABLE, type RunAll, type RunQuery, type Transact } from './connection.js'
import type { ServerClock } from './clock.js'
import type { Names } from './names.js'

/** What all statements need. */
export interface Tables {
  query: RunQuery
  /** As `query`, for statements that many messages share: the server keeps their plans. */
  prepared: RunQuery
  preparedAll: RunAll
  transact: Transact
  /** The schema's name in double quotes, as in statements. */
  schema: string
  names: Names
  /** The store's time if a test sets it, in ms since the epoch; `null` for the server's clock. */
  now: () => number | null
  /** The server's clock, which queries set. */
  clock: ServerClock
}

/**
 * The SQL expression for the time at which the statement began, in ms since the epoch: `$1`, or the server's clock if
 * that is `null`. It is a subquery, so that it is evaluated once and can be a condition of an index.
 */
export const NOW =
  '(SELECT coalesce($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000)::bigint))'

/** The SQL condition that does the same as {@link BE_DURABLE} for its statement. It is true, and is evaluated once. */
export const DURABLY = `coalesce((${BE_DURABLE}), 'on') <> ''`

/**
 * The SQL expression for the position of an empty message in the server's log. It makes the commit wait for the standby, as a commit
 * that writes something does. What a statement finds stored already may not be on the standby yet: the server may have been
 * restarted while the commit of that waited.
 */
export const LOGGED = "pg_logical_emit_message(true, 'hookline', '')"
