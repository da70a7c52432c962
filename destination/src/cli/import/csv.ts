import { markChanges } from '../../model/changed-numbers.js'
import { toField, type ColumnMap } from './columns.js'
import { CsvRecord } from './csv-record.js'
import { readLines, type Line } from './lines.js'
import { MAX_LINE_BYTES, NOT_UTF8, tooLong, type Place, type Row } from './row.js'

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
  bytes: AsyncIterable<Buffer>,
  from: Place,
  map: ColumnMap,
  header?: readonly string[],
  found: (names: readonly string[]) => void = () => undefined,
): AsyncGenerator<Row, void> {
  let names = header
  let paths = names && toPaths(names, map)
  for await (const record of readRecords(readLines(bytes, from))) {
    const { line, firstLine, end, cells, problem } = record
    const row = { line, firstLine, end, text: JSON.stringify(cells) }
    if (!names || !paths) {
      if (problem !== undefined)
        throw new Error(`the CSV is not valid: at line ${firstLine} ${problem}`)
      names = cells
      paths = toPaths(cells, map)
      found(names)
    } else if (problem !== undefined) yield { ...row, problem }
    else if (cells.length === names.length) yield { ...row, ...toFields(cells, paths) }
    else {
      const problem = `the record has ${cells.length} columns, but the header has ${names.length}`
      yield { ...row, problem }
    }
  }
}

interface FoundRecord extends Pick<Line, 'line' | 'end'> {
  firstLine: number
  cells: string[]
  problem?: string
}

/** Joins lines to records. Empty lines are skipped. A record of one line that is too long has a problem. */
async function* readRecords(lines: AsyncIterable<Line>): AsyncGenerator<FoundRecord> {
  let record = new CsvRecord()
  let isReadable = true
  let firstLine = 1
  for await (const { line, end, text, lineBreak, isUtf8, bytes, quotes } of lines) {
    if (!record.isOpen) firstLine = line
    if (text === undefined) {
      // An odd number of quotes leaves one open. The lines after it are not records of their own.
      if (record.isOpen || quotes % 2 === 1) throw openQuote(firstLine)
      yield { line, firstLine, end, cells: [], problem: tooLong('record', bytes) }
      continue
    }
    const content = text.endsWith('\r') ? text.slice(0, -1) : text
    if (content === '' && !record.isOpen) continue
    const start = line === 1 ? content.replace(/^\uFEFF/, '') : content
    isReadable &&= isUtf8
    record.add(start, content === text ? lineBreak : '\r\n')
    if (!record.isOpen) {
      const { cells } = record
      yield { line, firstLine, end, cells, ...(!isReadable && { problem: NOT_UTF8 }) }
      record = new CsvRecord()
      isReadable = true
    } else if (record.length > MAX_LINE_BYTES) throw openQuote(firstLine)
  }
  if (record.isOpen) throw openQuote(firstLine)
}

function openQuote(firstLine: number): Error {
  return new Error(
    `the CSV is not valid: the record that begins at line ${firstLine} has a quote that is not closed. Close it.`,
  )
}

type Paths = readonly (readonly string[] | undefined)[]

/**
 * Finds the field of each column.
 *
 * @throws Error if a column is not a field of a call, or if two columns are the same field.
 */
function toPaths(names: readonly string[], map: ColumnMap): Paths {
  const [only = '', ...others] = names
  const [separator] = /[;\t|]/.exec(only) ?? []
  if (separator !== undefined && others.length === 0 && !Object.hasOwn(map, only)) {
    throw new Error(
      `The columns are separated by ${JSON.stringify(separator)}: expected commas. Write the file again with commas.`,
    )
  }
  const columns = new Map<string, string>()
  return names.map((name) => {
    const path = toField(name, map)
    const field = path?.join('.')
    const other = field === undefined ? undefined : columns.get(field)
    if (field === undefined) return path
    if (other === undefined) columns.set(field, name)
    else {
      const both = `The columns ${JSON.stringify(other)} and ${JSON.stringify(name)} both set ${field}.`
      throw new Error(
        other === name
          ? `${both} Rename one of them in the file.`
          : `${both} Leave one of them out with --map '${name}='.`,
      )
    }
    return path
  })
}

/** Turns cells into fields: `properties.total` sets `total` within `properties`. An empty cell sets no field. */
function toFields(record: readonly string[], paths: Paths): Pick<Row, 'fields' | 'marked'> {
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
    const object = (fields[name] ??= empty()) as Record<string, unknown>
    const key = within.join('.')
    const value = toValue(cell)
    object[key] = value
    const mark = value === cell ? undefined : markChanges(cell)
    if (mark !== undefined) ((marked ??= {})[name] ??= empty())[key] = mark
  }
  return { fields, marked: marked && { ...fields, ...marked } }
}

/** An object in which `__proto__` is a key as any other. */
const empty = () => Object.create(null) as Record<string, unknown>

/** Reads numbers, booleans, lists and objects as JSON. Anything else is a text, such as `007`, `null` and `"quoted"`. */
function toValue(cell: string): unknown {
  try {
    const value = JSON.parse(cell) as unknown
    return value === null || typeof value === 'string' ? cell : value
  } catch {
    return cell
  }
}
