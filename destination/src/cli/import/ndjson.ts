import { MAX_LINE_BYTES, type Place, type Row } from './row.js'

const NEWLINE = 0x0a

/**
 * Reads newline-delimited JSON, an object a line. Empty lines are passed over. Never has more in memory than the longest
 * line that is allowed.
 *
 * @param from - The place of the first chunk.
 */
export async function* readNdjson(
  chunks: AsyncIterable<Buffer>,
  from: Place,
): AsyncGenerator<Row, void> {
  let { line, offset } = from
  let rest: Buffer = Buffer.alloc(0)
  /** Bytes of a line that is too long, and was let go of. */
  let skipped = 0

  const toRow = (bytes: Buffer, newline: number): Row | undefined => {
    line++
    offset += skipped + bytes.length + newline
    const length = skipped + bytes.length
    skipped = 0
    if (length > MAX_LINE_BYTES) {
      const problem = `a line of ${length} bytes: a call has ${MAX_LINE_BYTES} at most`
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

function parse(text: string): Pick<Row, 'fields' | 'problem'> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { problem: `no JSON: ${(error as Error).message}` }
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return { fields: value as Record<string, unknown> }
  }
  return { problem: 'expected a JSON object, a call with its type' }
}
