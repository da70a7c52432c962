import { createHash } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import type { Place } from './row.js'

/** How far an import got: kept beside the file, so that the next one goes on from there. */
export interface Progress extends Place {
  /** Tells the file from another one of its name. */
  head: string
  /** The columns of a CSV file. */
  header?: readonly string[]
  /** Lines whose calls were accepted. */
  accepted: number
  /** Lines that were not. */
  bad: number
}

const HEAD_BYTES = 4_096

/** What a file begins with, as a hash of so many bytes: `4096:…`. A file that has grown begins as before. */
export function headOf(file: string, bytes = HEAD_BYTES): string {
  const descriptor = openSync(file, 'r')
  try {
    const head = Buffer.alloc(Math.min(bytes, fstatSync(descriptor).size))
    readSync(descriptor, head, 0, head.length, 0)
    return `${head.length}:${createHash('sha256').update(head).digest('hex')}`
  } finally {
    closeSync(descriptor)
  }
}

/**
 * Reads how far an import of a file got; `undefined` if there was none.
 *
 * @throws Error if the file is another one by now, or the progress can't be read.
 */
export function readProgress(path: string, file: string): Progress | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const fix = `Give --restart to send all of it, or name another file with --progress.`
  let progress: Progress
  try {
    progress = JSON.parse(text) as Progress
    if (!Number.isSafeInteger(progress.offset) || typeof progress.head !== 'string')
      throw new Error()
  } catch {
    throw new Error(`${path} does not say how far an import got. ${fix}`)
  }
  if (headOf(file, Number.parseInt(progress.head, 10)) === progress.head) return progress
  throw new Error(`${file} is not the file that was imported up to line ${progress.line}. ${fix}`)
}

/** Replaces what was there, in one step. */
export function writeProgress(path: string, progress: Progress): void {
  const next = `${path}.tmp`
  writeFileSync(next, `${JSON.stringify(progress)}\n`, { mode: 0o600 })
  renameSync(next, path)
}
