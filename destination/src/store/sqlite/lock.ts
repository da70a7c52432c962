import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readlinkSync,
  realpathSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { StoreError } from '../store-error.js'
import type { Database, OpenDatabase } from './driver.js'
import { resultCode } from './failure.js'

/** In ms. A process that was just killed releases the lock within this time. */
const PATIENCE_MS = 500

/**
 * Locks a store's file for this process until the returned connection is closed. It is a lock of SQLite on a second,
 * empty file, beside the file that a symbolic link leads to. The system releases it when the process ends, even if it is
 * killed. Other programs, such as a backup, can still read the store's own file.
 *
 * @throws StoreError `locked` if another process has it.
 */
export function lock(open: OpenDatabase, path: string): Database {
  const target = targetOf(path)
  const file = `${target}-lock`
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
  createPrivate(target)
  return connection
}

/** The file that a path leads to through symbolic links. It need not exist; its folder is created. */
function targetOf(path: string): string {
  makeFolder(dirname(path))
  try {
    return realpathSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const file = join(realpathSync(dirname(path)), basename(path))
  const link = lstatSync(file, { throwIfNoEntry: false })
  return link ? targetOf(resolve(dirname(file), readlinkSync(file))) : file
}

/** Creates a folder and those around it. Node's own `recursive` never ends where folders can't be made, as in `/proc`. */
function makeFolder(path: string): void {
  const parent = dirname(path)
  if (existsSync(path) || parent === path) return // a drive of Windows may not exist
  makeFolder(parent)
  try {
    mkdirSync(path, 0o700)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}

/**
 * Creates a file that only its owner can read, if there is none. SQLite gives its other files the same mode. An
 * existing file is not opened: by POSIX, closing it would release all locks that this process has on it.
 */
function createPrivate(path: string): void {
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
}
