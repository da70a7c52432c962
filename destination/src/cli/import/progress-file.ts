import { createHash } from 'node:crypto'
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { isRecord } from '../record.js'
import type { RefusedLine } from './ledger.js'
import { readPart } from './read-part.js'
import type { Place } from './row.js'
import type { Target } from './target.js'

/** The progress of an import. It is saved in a file, so that the next import continues from there. */
export interface Progress extends Place {
  /** A hash of the start of the imported file, which tells it from another file with the same name. */
  head: string
  /** The name of the import, from which ids are derived. Left out by earlier versions, which did not use it. */
  name?: string | undefined
  /** The columns of a CSV file. */
  header?: readonly string[]
  /** Where the accepted calls were sent. Left out by earlier versions. */
  target?: Target
  /** The number of lines whose calls were accepted. */
  accepted: number
  /** The number of lines that were refused. */
  bad: number
  /** The first refused lines: at most {@link MAX_REMEMBERED}. Left out by earlier versions. */
  refused?: readonly RefusedLine[]
  /** The {@link meaningOf} the options with which they were refused. Left out by earlier versions. */
  meaning?: string | undefined
  /** The {@link BadFile.mark} of the file of `--bad`. Left out without one. */
  badFile?: string
}

/** The most refused lines that are remembered with their reasons, so that the progress file stays small. */
export const MAX_REMEMBERED = 100

const HEAD_BYTES = 4_096

/**
 * Hashes the first bytes of a file: `4096:…`. Only the start is hashed, so that a file to which lines were added is
 * still the same file.
 *
 * @param bytes - The number of bytes to hash; a shorter file is hashed as a whole.
 */
export function headOf(file: string, bytes = HEAD_BYTES): string {
  const head = readPart(file, 0, bytes)
  return `${head.length}:${createHash('sha256').update(head).digest('hex')}`
}

/**
 * Reads the progress of an earlier import of a file, to continue from there.
 *
 * @returns `undefined` if there was no earlier import.
 * @throws Error if the file is no longer the same file, or the progress cannot be read.
 */
export function readProgress(path: string, file: string): Progress | undefined {
  const progress = readSaved(path)
  if (!progress) return undefined
  const upTo = `imported up to line ${progress.line}`
  if (headOf(file, Number.parseInt(progress.head, 10)) !== progress.head)
    throw new Error(
      `${file} is not the file that was ${upTo}. If you have corrected it, give --restart to import the whole file. If it is another ` +
        'file, also give --name, or name another progress file with --progress.',
    )
  if (statSync(file).size < progress.offset)
    throw new Error(`${file} is shorter than it was when it was ${upTo}. ${FIX}`)
  return progress
}

/**
 * Reads the progress of an earlier import, whatever has become of its file since.
 *
 * @returns `undefined` if there was no earlier import.
 * @throws Error if the progress cannot be read.
 */
export function readSaved(path: string): Progress | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path}: ${(error as Error).message}. ${FIX}`)
  }
  const progress = parse(text)
  if (!isProgress(progress)) throw new Error(`${path} is not a valid progress file. ${FIX}`)
  return progress
}

const FIX =
  'Give --restart to import the whole file, or name another progress file with --progress.'

/** @returns `undefined` if it is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a value, which somebody may have edited, has the shape of a {@link Progress}. */
function isProgress(value: unknown): value is Progress {
  if (!isRecord(value)) return false
  const { head, name = '', target, refused = [] } = value
  return (
    typeof head === 'string' &&
    typeof name === 'string' &&
    ['line', 'offset', 'accepted', 'bad'].every((field) => isCount(value[field])) &&
    (target === undefined ||
      (isRecord(target) && areTexts(target['collector'], target['keyHash']))) &&
    Array.isArray(refused) &&
    refused.every((each) => isRecord(each) && isCount(each['line']) && areTexts(each['problem']))
  )
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
const areTexts = (...values: unknown[]) => values.every((value) => typeof value === 'string')

/**
 * Checks whether the progress can be saved, and changes nothing.
 *
 * @throws Error if it can't.
 */
export function checkProgress(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw new Error('it is a folder')
  const next = `${path}.tmp`
  writeFileSync(next, '', { mode: 0o600 })
  rmSync(next)
}

/** Saves the progress. The rename replaces the old file in one step, so that a crash leaves one complete file. */
export function writeProgress(path: string, progress: Progress): void {
  const next = `${path}.tmp`
  writeFileSync(next, `${JSON.stringify(progress)}\n`, { mode: 0o600 })
  renameSync(next, path)
}
