import { realpathSync, statSync } from 'node:fs'
import { StoreError } from '../store-error.js'

/**
 * The files of an open store, as the file system knows them. SQLite goes on with files that were removed or replaced, and what it
 * writes to them is lost when the process ends.
 */
export class Files {
  readonly #path: string
  #logPath = ''
  #database: string | undefined
  #log: string | undefined

  constructor(path: string) {
    this.#path = path
  }

  /** The file exists, and is about to be opened. */
  found(): void {
    this.#database = identityOf(this.#path)
    this.#logPath = `${realpathSync(this.#path)}-wal` // SQLite follows symbolic links, too
  }

  /** A connection is open, so there is a log. */
  opened(): void {
    this.#log = identityOf(this.#logPath)
  }

  /** The connection is closed. SQLite removes the log with the last one. */
  closed(): void {
    this.#log = undefined
  }

  /** The path of a file that was removed or replaced; `undefined` if all are in their places. */
  missing(): string | undefined {
    if (!isSame(this.#path, this.#database)) return this.#path
    return isSame(this.#logPath, this.#log) ? undefined : this.#logPath
  }

  /** @throws StoreError `removed` if a file was removed or replaced. */
  require(): void {
    const path = this.missing()
    if (path === undefined) return
    throw new StoreError(
      'removed',
      `${path} was removed or replaced while this process uses it. Calls are refused, because they would be lost when the ` +
        'process ends. The messages that it has are still delivered, as long as it runs. Put this very file back, not a copy: ' +
        'then calls are accepted again. Or wait until no message waits any more, and restart.',
    )
  }
}

/** Tells a file from all others; `undefined` if there is none, or if the file system can't say. */
function identityOf(path: string): string | undefined {
  const file = read(path)
  return file === 'none' ? undefined : file
}

/** Whether a file is still at its path. It counts as being there while the file system can't say. */
function isSame(path: string, before: string | undefined): boolean {
  if (before === undefined) return true
  const now = read(path)
  return now === undefined || now === before
}

/** Tells a file from all others; `none` if there is none, and `undefined` after any other error. */
function read(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true }) // they may have 64 bits
    return `${dev}:${ino}`
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return ['ENOENT', 'ENOTDIR'].includes(code) ? 'none' : undefined
  }
}
