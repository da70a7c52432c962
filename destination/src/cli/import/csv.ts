import type { Readable } from 'node:stream'
import { CsvError, parse, type Info } from 'csv-parse'
import { toField, type ColumnMap } from './columns.js'
import { MAX_LINE_BYTES, type Place, type Row } from './row.js'

/**
 * Reads CSV (RFC 4180). Each record is a call; the first one has the names of the columns.
 *
 * @param from - The place of the first byte.
 * @param header - The names of the columns, if the first byte is beyond them.
 * @param found - Told of the names.
 * @throws Error if a column of the header is none of a call's; if a quote is never closed, since all after it is in
 * doubt then.
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
    if (record.length === names.length) yield { ...row, fields: toFields(record, paths) }
    else {
      const problem = `${record.length} columns, where the header has ${names.length}`
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
    throw new Error(`no CSV up to line ${line}, where a quote is still open: close it.`, {
      cause: error,
    })
  }
}

/** Cells to fields: `properties.total` is `total` within `properties`. An empty cell is none. */
function toFields(
  record: readonly string[],
  paths: readonly (readonly string[] | undefined)[],
): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  for (const [i, path] of paths.entries()) {
    const cell = record[i]
    if (!path || !cell) continue
    const [name = '', ...within] = path
    if (within.length === 0) {
      fields[name] = cell
      continue
    }
    const object = (fields[name] ??= {}) as Record<string, unknown>
    object[within.join('.')] = toValue(cell)
  }
  return fields
}

/** Numbers, booleans, lists and objects as JSON has them; anything else is text, such as `007`. */
function toValue(cell: string): unknown {
  try {
    return JSON.parse(cell) as unknown
  } catch {
    return cell
  }
}
