import type { Readable } from 'node:stream'
import { CsvError, parse, type Info } from 'csv-parse'
import { markChanges } from '../../model/changed-numbers.js'
import { toField, type ColumnMap } from './columns.js'
import { MAX_LINE_BYTES, type Place, type Row } from './row.js'

/**
 * Reads CSV (RFC 4180). The first record has the names of the columns, and each further record is a call.
 *
 * @param from - The place of the first byte.
 * @param header - The names of the columns, if reading begins after the first record.
 * @param found - Is called with the names once they are read.
 * @throws Error if a column of the header is not a field of a call, or if a quote is never closed. The records after
 * such a quote cannot be told apart.
 */
export async function* readCsv(
  bytes: Readable,
  from: Place,
  map: ColumnMap,
  header?: readonly string[],
  found: (names: readonly string[]) => void = () => undefined,
): AsyncGenerator<Row, void> {
  let names = header
  let paths = names?.map((name) => toField(name, map))
  const at = ({ lines, bytes: read }: { lines: number; bytes: number }) => ({
    line: from.line + lines,
    end: from.offset + read,
  })
  const parser = bytes.pipe(
    parse({
      bom: true,
      info: true,
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
      max_record_size: MAX_LINE_BYTES,
    }),
  )
  bytes.once('error', (error) => parser.destroy(error))
  for await (const { record, info } of recordsOf(parser, from)) {
    const row = { ...at(info), text: JSON.stringify(record) }
    if (!names || !paths) {
      names = record
      paths = record.map((name) => toField(name, map))
      found(names)
      continue
    }
    if (record.length === names.length) yield { ...row, ...toFields(record, paths) }
    else {
      const problem = `the record has ${record.length} columns, but the header has ${names.length}`
      yield { ...row, problem }
    }
  }
}

interface CsvRecord {
  record: string[]
  info: Info
}

async function* recordsOf(parser: AsyncIterable<unknown>, from: Place): AsyncGenerator<CsvRecord> {
  try {
    yield* parser as AsyncIterable<CsvRecord>
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    const line = from.line + (error as unknown as Info).lines
    throw new Error(`the CSV is not valid: at line ${line} a quote is still open. Close it.`, {
      cause: error,
    })
  }
}

/** Turns cells into fields: `properties.total` sets `total` within `properties`. An empty cell sets no field. */
function toFields(
  record: readonly string[],
  paths: readonly (readonly string[] | undefined)[],
): Pick<Row, 'fields' | 'marked'> {
  const fields: Record<string, unknown> = {}
  let marked: Record<string, Record<string, unknown>> | undefined
  for (const [i, path] of paths.entries()) {
    const cell = record[i]
    if (!path || !cell) continue
    const [name = '', ...within] = path
    if (within.length === 0) {
      fields[name] = cell
      continue
    }
    const object = (fields[name] ??= {}) as Record<string, unknown>
    const key = within.join('.')
    const value = toValue(cell)
    object[key] = value
    const mark = value === cell ? undefined : markChanges(cell)
    if (mark !== undefined) ((marked ??= {})[name] ??= {})[key] = mark
  }
  return { fields, marked: marked && { ...fields, ...marked } }
}

/** Reads numbers, booleans, lists and objects as JSON. Anything else is a text, such as `007`. */
function toValue(cell: string): unknown {
  try {
    return JSON.parse(cell) as unknown
  } catch {
    return cell
  }
}
