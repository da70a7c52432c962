import { createReadStream, statSync } from 'node:fs'
import { extname } from 'node:path'
import { CommandError, EXIT } from '../command.js'
import type { ColumnMap } from './columns.js'
import { readCsv } from './csv.js'
import { NEWLINE, RETURN } from './lines.js'
import { readNdjson } from './ndjson.js'
import { FORMATS, type Format, type ImportOptions } from './options.js'
import type { Progress } from './progress-file.js'
import { readPart } from './read-part.js'
import type { Place, Row } from './row.js'

/** The lines to import. */
export interface Source {
  rows: AsyncIterable<Row>
  /** The place of the first line that is read. */
  from: Place
  /** The size of the file in bytes; `undefined` for the standard input. */
  size: number | undefined
  /** The names of the columns, once they are read. Only CSV has columns. */
  header: () => readonly string[] | undefined
  /** Stops reading. Then `rows` ends with an error. */
  end: () => void
}

/** In bytes. Larger than the default of 64 KB, so that reading takes fewer turns of the event loop. */
const CHUNK_BYTES = 256 * 1024

/**
 * Opens the lines to import.
 *
 * @param before - The progress of an earlier import.
 * @throws CommandError if the file is not as it was, or does not have a column of `--map`.
 */
export function openSource(
  file: string,
  { format, map }: ImportOptions,
  before: Progress | undefined,
): Source {
  const isStdin = file === '-'
  const kind = format ?? (isStdin ? 'ndjson' : formatOf(file))
  const size = isStdin ? undefined : statSync(file).size
  const from = before ? nextLine(file, before) : { line: 0, offset: 0 }
  let header = before?.header
  if (header) requireColumns(map, header)
  const bytes = isStdin
    ? process.stdin
    : createReadStream(file, { start: from.offset, highWaterMark: CHUNK_BYTES })
  const rows =
    kind === 'csv'
      ? readCsv(bytes, from, map, header, (names) => {
          requireColumns(map, names)
          header = names
        })
      : readNdjson(bytes, from)
  const end = () => {
    bytes.destroy(new Error('reading was stopped'))
  }
  return { rows, from, size, header: () => header, end }
}

/** @throws CommandError if the file does not have a column of `--map`. Its name is probably misspelled. */
function requireColumns(map: ColumnMap, names: readonly string[]): void {
  const unknown = Object.keys(map).find((column) => !names.includes(column))
  if (unknown === undefined) return
  const columns = names.map((name) => JSON.stringify(name)).join(', ')
  const message = `The file has no column ${JSON.stringify(unknown)}, which --map names: expected one of ${columns}.`
  throw new CommandError(EXIT.usage, message)
}

function formatOf(file: string): Format {
  const extension = extname(file).slice(1).toLowerCase()
  if (extension === 'csv') return 'csv'
  if (['ndjson', 'jsonl', 'json'].includes(extension)) return 'ndjson'
  throw new CommandError(
    EXIT.usage,
    `The format of ${file} is not clear from its name. Give --format ${FORMATS.join(' or ')}.`,
  )
}

/** @throws CommandError if it is no file that can be read again from any place. */
export function requireFile(file: string): void {
  if (file === '-') return
  let stats
  try {
    stats = statSync(file)
  } catch (error) {
    throw new CommandError(EXIT.usage, `Cannot read ${file}: ${(error as Error).message}`)
  }
  if (stats.isFile()) return
  const fix = stats.isDirectory()
    ? 'got a folder. Name a file in it.'
    : `got a pipe or a device. Give - instead: cat ${file} | hookline-destination import -`
  throw new CommandError(EXIT.usage, `Cannot import ${file}: expected a file, ${fix}`)
}

/**
 * The place of the next line. If the file had no line break at its end when it was imported, the one that was added since
 * ends the former line, and is no line of its own.
 *
 * @throws CommandError if the former line goes on.
 */
function nextLine(file: string, { line, offset }: Place): Place {
  if (offset === 0) return { line, offset }
  const [before, first, second] = readPart(file, offset - 1, 3)
  if (before === NEWLINE || first === undefined) return { line, offset }
  if (first === NEWLINE) return { line, offset: offset + 1 }
  // Old programs for Macintosh end lines with a carriage return alone.
  if (before === RETURN) return { line, offset }
  if (first === RETURN) return { line, offset: offset + (second === NEWLINE ? 2 : 1) }
  throw new CommandError(
    EXIT.usage,
    `Line ${line} of ${file} was imported before it was complete. Give --restart to import the whole file.`,
  )
}
