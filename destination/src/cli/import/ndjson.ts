import { markChanges } from '../../model/changed-numbers.js'
import { MAX_LINE_BYTES, type Place, type Row } from './row.js'

const NEWLINE = 0x0a

/**
 * Reads newline-delimited JSON, one object in each line. Empty lines are skipped. Memory holds at most a chunk and the
 * longest line that is allowed.
 *
 * @param from - The place of the first chunk.
 */
export async function* readNdjson(
  chunks: AsyncIterable<Buffer>,
  from: Place,
): AsyncGenerator<Row, void> {
  let { line, offset } = from
  let rest: Buffer = Buffer.alloc(0)
  /** The bytes that were dropped of a line that is too long. */
  let skipped = 0

  const toRow = (bytes: Buffer, newline: number): Row | undefined => {
    line++
    offset += skipped + bytes.length + newline
    const length = skipped + bytes.length
    skipped = 0
    if (length > MAX_LINE_BYTES) {
      const problem = `the line has ${length} bytes, but a call has at most ${MAX_LINE_BYTES}`
      return { line, end: offset, text: '', problem }
    }
    const text = bytes
      .toString()
      .replace(/^\uFEFF/, '')
      .trim()
    return text === '' ? undefined : { line, end: offset, text, ...parse(text) }
  }

  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let start = 0
    for (let end; (end = rest.indexOf(NEWLINE, start)) >= 0; start = end + 1) {
      const row = toRow(rest.subarray(start, end), 1)
      if (row) yield row
    }
    rest = rest.subarray(start)
    if (rest.length > MAX_LINE_BYTES) {
      skipped += rest.length
      rest = Buffer.alloc(0)
    }
  }
  if (rest.length + skipped === 0) return
  const row = toRow(rest, 0)
  if (row) yield row
}

function parse(text: string): Pick<Row, 'fields' | 'marked' | 'problem'> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { problem: `not valid JSON: ${(error as Error).message}` }
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return { fields: value as Record<string, unknown>, marked: markChanges(text) }
  }
  return { problem: 'expected a JSON object that has the fields of a call' }
}
