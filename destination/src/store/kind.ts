export { parseUrl as parsePostgresUrl } from './postgres/url.js'
export { sqlitePath } from './sqlite/path.js'

/** One of several servers of a store. */
export interface StoreServer {
  /** It never changes, while the URL may. */
  name: string
  /** The URL of its database: `postgres://`. */
  url: string
}

/** Where a store is: its URL, or its servers. */
export type StorePlace = string | readonly StoreServer[]

/** Whether a store is in PostgreSQL. Any other URL names a file of SQLite. */
export function isPostgres(place: StorePlace): boolean {
  return typeof place !== 'string' || /^postgres(ql)?:/.test(place)
}
