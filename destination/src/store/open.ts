import { statSync } from 'node:fs'
import { systemClock } from '../model/clock.js'
import { isPostgres, type StorePlace } from './kind.js'
import { sqlitePath } from './sqlite/path.js'
import { openSqlite } from './sqlite/store.js'
import type { DriverName } from './sqlite/driver.js'
import type { Upgrade } from './sqlite/schema.js'
import type { Store } from './store.js'
import { StoreError } from './store-error.js'

/** Options of {@link openStore}. */
export interface OpenOptions {
  /**
   * The clock by which the store measures: ms since the epoch. It never goes back.
   *
   * @defaultValue that of `systemClock` for SQLite, the server's own clock for PostgreSQL
   */
  now?: () => number
  /**
   * The clock of the times that people see, for SQLite: ms since the epoch. It may jump.
   *
   * @defaultValue `now` if that is given, else `Date.now`
   */
  wall?: () => number
  /**
   * The SQLite driver.
   *
   * @defaultValue `node:sqlite` where Node has it (22.13 and newer), else `@photostructure/sqlite`
   */
  driver?: DriverName
  /**
   * Whether the store must exist. Without this, a store that does not exist is created, and a misspelled path looks like an
   * empty store.
   *
   * @defaultValue false
   */
  mustExist?: boolean
  /**
   * Is called before a file of an older version is brought to the version of this code. That takes 3 to 7 s for a million
   * deliveries.
   */
  upgrading?: (upgrade: Upgrade) => void
}

/**
 * Opens the store that the settings name. The URL is `sqlite:` and a path, absolute or relative to the working
 * directory, or `postgres://user:password@host:port/database` with the parameters `schema`, `connections`,
 * `statement_timeout`, `sslmode`, `sslrootcert`, `sslcert`, `sslkey`, `host` and `application_name`. A list of servers is one store
 * that is spread over them.
 *
 * @throws StoreError `locked` if another process uses the file; `newer` if a newer version wrote the store;
 * `unsupported` if the URL is not valid, the server can't be used, there is no SQLite, or a store that must exist does not;
 * `full` if there is no room; `failed` for anything else. The message says what to do.
 *
 * @example
 * ```ts
 * const store = await openStore('sqlite:./data/hookline.db')
 * ```
 */
export async function openStore(url: StorePlace, options: OpenOptions = {}): Promise<Store> {
  const { now, wall = now, driver, mustExist = false, upgrading } = options
  if (typeof url !== 'string') {
    const { openPostgres } = await import('./postgres/store.js')
    const { openSeveral } = await import('./several/open.js')
    return openSeveral(
      url.map(({ name, url }) => ({ name, open: () => openPostgres(url, now, mustExist, true) })),
    )
  }
  if (isPostgres(url)) {
    // Loaded only here, so that a process with a SQLite store does not load the driver of PostgreSQL.
    const { openPostgres } = await import('./postgres/store.js')
    return openPostgres(url, now, mustExist)
  }
  const path = sqlitePath(url)
  if (mustExist) requireStore(path)
  return openSqlite(path, now && wall ? { now, wall } : systemClock(), driver, upgrading)
}

/** @throws StoreError if there is no file with the tables of a store. Opening a store writes its lock file first. */
function requireStore(path: string): void {
  if (hasContent(path)) return
  throw new StoreError(
    'unsupported',
    `there is no store at ${path}: expected the file of an existing store. Check the path. Nothing was created.`,
  )
}

function hasContent(path: string): boolean {
  try {
    const file = statSync(path)
    return file.isFile() && file.size > 0
  } catch (error) {
    // After any other error the file may exist. Opening it says what to do.
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')
  }
}
