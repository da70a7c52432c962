import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { StoreError } from '../store-error.js'
import type { Database, OpenDatabase } from './driver.js'
import { resultCode } from './failure.js'

/** Enough for a process that was killed a moment ago to be gone. */
const PATIENCE_MS = 500

/**
 * Takes a store's file for this process, until the connection that it returns is closed. The lock is one that SQLite
 * takes on a second, empty file: the system lets go of it when the process ends, however it ends, and the store's own
 * file can still be read by others, a backup for one.
 *
 * @throws StoreError `locked` if another process has it.
 */
export function lock(open: OpenDatabase, path: string): Database {
  const file = `${path}-lock`
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  createPrivate(file)
  const connection = open(file)
  try {
    connection.exec(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
    connection.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    connection.close()
    if (resultCode(cause) !== 'SQLITE_BUSY') throw cause
    throw new StoreError(
      'locked',
      `${path} is the store of another running process. End that process, or name another file ` +
        `(\`fuser ${file}\` shows which process it is).`,
      { cause },
    )
  }
  createPrivate(path)
  return connection
}

/**
 * Makes a file that only its owner can read, if there is none. SQLite gives its other files the same mode. It is
 * never opened if it is there: by POSIX, closing it would let go of all locks that this process has on it.
 */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
