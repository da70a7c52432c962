import { resolve } from 'node:path'
import { isPostgres } from './kind.js'
import { openSqlite } from './sqlite/store.js'
import type { DriverName } from './sqlite/driver.js'
import type { Store } from './store.js'
import { StoreError } from './store-error.js'

/** How a store is opened. */
export interface OpenOptions {
  /**
   * The store's clock: ms since the epoch.
   *
   * @defaultValue `Date.now` for SQLite, the server's own clock for PostgreSQL
   */
  now?: () => number
  /**
   * Which SQLite is used.
   *
   * @defaultValue Node's own where there is one (22.13 and newer), else better-sqlite3
   */
  driver?: DriverName
}

/**
 * Opens the store that the settings name: `sqlite:` and a path, absolute or from the working directory, or
 * `postgres://user:password@host:port/database` with the parameters `schema`, `connections`, `sslmode`, `sslrootcert`,
 * `sslcert`, `sslkey`, `host` and `application_name`.
 *
 * @throws StoreError `locked` if another process has it; `newer` if a newer version wrote it; `unsupported` if this
 * can't open such a store, or has no SQLite; `full` if there is no room; `failed` for anything else. The message says
 * what to do.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:./data/hookline.db')
 * ```
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  const { now = Date.now, driver } = options
  if (isPostgres(url)) {
    // Whoever has SQLite need not load another database's driver.
    const { openPostgres } = await import('./postgres/store.js')
    return openPostgres(url, options.now)
  }
  return openSqlite(toPath(url), now, driver)
}

function toPath(url: string): string {
  const path = /^sqlite:(.+)$/s.exec(url)?.[1]
  if (path === ':memory:') {
    throw new StoreError(
      'unsupported',
      'store: sqlite::memory: would lose all that was accepted at the next stop: name a file, ' +
        'such as sqlite:./data/hookline.db.',
    )
  }
  // sqlite://name would be a host in any other URL; sqlite:///path is an absolute path, as elsewhere.
  if (!path || /^\/\/(?!\/)/.test(path)) {
    throw new StoreError(
      'unsupported',
      `store: expected sqlite: and a path, such as sqlite:./data/hookline.db, got ${withoutSecrets(url)}.`,
    )
  }
  return resolve(path)
}

/** A URL can have a password. */
function withoutSecrets(url: string): string {
  return JSON.stringify(url.replace(/\/\/[^/]*@/, '//…@'))
}
