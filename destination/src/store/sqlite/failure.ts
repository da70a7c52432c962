import { closeSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { StoreError } from '../store-error.js'
import type { Failure } from './round.js'

/**
 * SQLite's primary result codes that are handled differently: https://www.sqlite.org/rescode.html
 * `@photostructure/sqlite` gives no code with an error that occurs while it reads rows, so the texts of SQLite are here, too.
 */
const CODES: readonly { number: number; name: string; text: string }[] = [
  { number: 5, name: 'SQLITE_BUSY', text: 'database is locked' },
  { number: 8, name: 'SQLITE_READONLY', text: 'attempt to write a readonly database' },
  { number: 10, name: 'SQLITE_IOERR', text: 'disk I/O error' },
  { number: 11, name: 'SQLITE_CORRUPT', text: 'database disk image is malformed' },
  { number: 13, name: 'SQLITE_FULL', text: 'database or disk is full' },
  { number: 14, name: 'SQLITE_CANTOPEN', text: 'unable to open database file' },
  { number: 26, name: 'SQLITE_NOTADB', text: 'file is not a database' },
]

/**
 * The primary result codes for values that can't be stored: too big, a constraint, the wrong type, out of range.
 * https://www.sqlite.org/rescode.html
 */
const OF_VALUES = new Set([18, 19, 20, 25])

/** The system's error codes for no room: the device is full, the quota is used up, the file has reached its limit. */
const NO_ROOM = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Larger than any file that SQLite creates at once next to the database: its shared memory takes 32 KB. */
const PROBE_BYTES = 65_536

/** The primary result code of an error of either driver; `undefined` if {@link CODES} does not have it. */
export function resultCode(error: unknown): string | undefined {
  const { errcode, code, message } = error as {
    errcode?: unknown
    code?: unknown
    message?: unknown
  }
  const found =
    typeof errcode === 'number'
      ? CODES.find(({ number }) => number === (errcode & 0xff))
      : (CODES.find(({ name }) => code === name || String(code).startsWith(`${name}_`)) ??
        CODES.find(({ text }) => text === message))
  return found?.name
}

/**
 * Whether a statement failed because of a value that was given to it, so that it would fail each time.
 *
 * @param error - The error of the driver; `undefined` if there is none.
 */
export function isOfValues(error: unknown): boolean {
  const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown }
  if (typeof errcode === 'number') return OF_VALUES.has(errcode & 0xff)
  return code === 'ERR_INVALID_ARG_TYPE' || code === 'ERR_INVALID_ARG_VALUE'
}

/** Turns an error of SQLite or of the file system into a StoreError that says what to do. */
export function toStoreError(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error
  const code = resultCode(error)
  const text = error instanceof Error ? error.message : String(error)
  if (isFull(error, code, path)) {
    return new StoreError(
      'full',
      `There is no room to write ${path}. Free at least ${neededMb(path)} MB of disk space: writing then continues automatically.`,
      {
        cause: error,
      },
    )
  }
  return new StoreError('failed', explain(code, codeOf(error), text, path), { cause: error })
}

/** A StoreError in the form that can be sent to another thread. */
export function toFailure({ code, message, cause }: StoreError): Failure {
  return { code, message, cause }
}

function explain(
  code: string | undefined,
  systemCode: unknown,
  text: string,
  path: string,
): string {
  switch (code ?? systemCode) {
    case 'SQLITE_NOTADB':
    case 'SQLITE_CORRUPT':
      return (
        `${path} is damaged or is not a SQLite database (${text}). If the destination is running, stop it first. Move the ` +
        'file away together with its -wal and -shm files. Then put a backup in its place, or start with an empty store.'
      )
    case 'SQLITE_CANTOPEN':
    case 'SQLITE_READONLY':
    case 'EACCES':
    case 'EPERM':
      return `${path} can't be written (${text}). Its folder and the files in it must belong to the user that runs this process.`
    case 'EROFS':
      return `${path} can't be written (${text}). Mount its file system for writing, or set "store" to a path on another one.`
    case 'SQLITE_BUSY':
      return `Another program has locked ${path} (${text}). End the program that writes to it.`
    default:
      return `SQLite can't use ${path}: ${text}.`
  }
}

/**
 * SQLite reports `SQLITE_FULL` only for a full device. A used-up quota and a file at its size limit are plain I/O
 * errors, without the system's error code. So this tries to write a file itself.
 */
function isFull(error: unknown, code: string | undefined, path: string): boolean {
  if (code === 'SQLITE_FULL' || NO_ROOM.has(String(codeOf(error)))) return true
  return (code === 'SQLITE_IOERR' || code === 'SQLITE_CANTOPEN') && !hasRoom(path)
}

/** Writes as much, at the same offset, as the database would: size limits apply to the offset. The file is sparse. */
function hasRoom(path: string): boolean {
  const probe = `${path}-probe`
  try {
    const farthest = Math.max(sizeOf(path), sizeOf(`${path}-wal`))
    const file = openSync(probe, 'w', 0o600)
    try {
      return writeSync(file, Buffer.alloc(PROBE_BYTES, 1), 0, PROBE_BYTES, farthest) === PROBE_BYTES
    } finally {
      closeSync(file)
      rmSync(probe, { force: true })
    }
  } catch (error) {
    return !NO_ROOM.has(String(codeOf(error)))
  }
}

/**
 * How many MB make sure that writing continues. Before the log can begin anew, all of it is copied into the file, which may have to grow
 * by as much. With less room than that, the log would only grow by it. The next round needs some room, too.
 */
function neededMb(path: string): number {
  return Math.ceil(sizeOf(`${path}-wal`) / 1e6) + 1
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
