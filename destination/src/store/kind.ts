export { parseUrl as parsePostgresUrl } from './postgres/url.js'

/** Whether a store's URL names a PostgreSQL database. Any other URL names a file of SQLite. */
export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:/.test(url)
}
