import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { StoreError } from '../store-error.js'
import type { Database, OpenDatabase } from './driver.js'
import { resultCode, toStoreError } from './failure.js'

/** In ms. A process that was just killed releases the lock within this time. */
const PATIENCE_MS = 500

/**
 * Locks a store's file for this process until the returned connection is closed. It is a lock of SQLite on a second,
 * empty file, beside the file that a symbolic link leads to. The system releases it when the process ends, even if it is
 * killed. Other programs, such as a backup, can still read the store's own file.
 *
 * @throws StoreError `locked` if another process has it; `unsupported` if the file has another name, which another process could
 * lock.
 */
export function lock(open: OpenDatabase, path: string): Database {
  const target = targetOf(path)
  requireOneName(target)
  const file = `${target}-lock`
  if (createPrivate(file)) giveTo(target, file)
  let connection: Database | undefined
  try {
    connection = open(file)
    connection.exec(`PRAGMA busy_timeout = ${PATIENCE_MS}`)
    connection.exec('BEGIN EXCLUSIVE')
  } catch (cause) {
    connection?.close()
    if (resultCode(cause) !== 'SQLITE_BUSY') throw toStoreError(cause, file)
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

/**
 * The lock and the log of SQLite are files beside the store's file, named after it. Two processes that use one file by two names
 * have two locks and two logs, and what one of them writes to the file, the other one overwrites.
 */
function requireOneName(path: string): void {
  const links = statSync(path, { throwIfNoEntry: false })?.nlink ?? 1
  if (links > 1) {
    throw new StoreError(
      'unsupported',
      `${path} has ${links} names (hard links). Processes that use it by different names would lose messages. Stop them, and ` +
        `remove the other names (\`find / -xdev -samefile ${path}\` lists them). For a backup, use VACUUM INTO.`,
    )
  }
  if (isMountPoint(path)) {
    throw new StoreError(
      'unsupported',
      `${path} is mounted as a single file. Its log and its lock are files in the same folder, and would not be with it. Mount ` +
        'its folder instead.',
    )
  }
}

function isMountPoint(path: string): boolean {
  try {
    // proc_pid_mountinfo(5): the fifth field is the mount point, with spaces as \040.
    const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    return lines.some((line) => line.split(' ')[4] === path.replaceAll(' ', '\\040'))
  } catch {
    return false // not Linux
  }
}

/**
 * Gives a new file to the owner of another one. If root reads the store of a service, the service must be able to open the lock
 * file afterwards. SQLite does the same with its own files.
 */
function giveTo(target: string, file: string): void {
  if (process.getuid?.() !== 0) return
  try {
    const { uid, gid } = statSync(target)
    chownSync(file, uid, gid)
  } catch {
    // There is no file yet, or this root may not do so, as in a container without capabilities.
  }
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
 *
 * @returns whether there was none.
 */
function createPrivate(path: string): boolean {
  try {
    closeSync(openSync(path, 'wx', 0o600))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  }
}
