import { createReadStream, statSync } from 'node:fs'
import { extname } from 'node:path'
import { CommandError, EXIT } from '../command.js'
import type { ColumnMap } from './columns.js'
import { readCsv } from './csv.js'
import { readNdjson } from './ndjson.js'
import { FORMATS, type Format, type ImportOptions } from './options.js'
import type { Progress } from './progress-file.js'
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
 * @throws CommandError if the file can't be read.
 */
export function openSource(
  file: string,
  { format, map }: ImportOptions,
  before: Progress | undefined,
): Source {
  const isStdin = file === '-'
  const kind = format ?? (isStdin ? 'ndjson' : formatOf(file))
  const size = isStdin ? undefined : sizeOf(file)
  const from = before ?? { line: 0, offset: 0 }
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

function sizeOf(file: string): number {
  try {
    return statSync(file).size
  } catch (error) {
    throw new CommandError(EXIT.usage, `Cannot read ${file}: ${(error as Error).message}`)
  }
}
