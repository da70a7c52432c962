import { isUtf8 } from 'node:buffer'
import { MAX_LINE_BYTES, type Place } from './row.js'

export const NEWLINE = 0x0a
export const RETURN = 0x0d

/** What compressed files begin with. A workbook of Excel is a ZIP file. Sources: RFC 1952, section 2.3.1; APPNOTE.TXT of PKWARE, 4.3.7. */
const GZIP = 0x1f8b
const ZIP = 'PK\x03\x04'

/** One line of a file. */
export interface Line {
  /** The number of the line, from 1. */
  line: number
  /** The bytes of the file up to the end of the line, with its line break. */
  end: number
  /** The line without its `lineBreak`; `undefined` if it is longer than {@link MAX_LINE_BYTES}. */
  text: string | undefined
  /** The byte that ends the lines of the file. */
  lineBreak: '\n' | '\r'
  /** Whether the text is what the bytes say. Otherwise it has U+FFFD for some of them. */
  isUtf8: boolean
  /** The size of the line in bytes, without its line break. */
  bytes: number
  /** The number of quotes in a line that is too long. Of other lines it is 0, because they have a text. */
  quotes: number
}

/**
 * Cuts bytes into lines. Memory holds at most a chunk and the longest line that is allowed.
 *
 * @param from - The place of the first chunk.
 * @throws Error if the file is UTF-16 or compressed.
 */
export async function* readLines(
  chunks: AsyncIterable<Buffer>,
  from: Place,
): AsyncGenerator<Line, void> {
  let { line, offset } = from
  let rest: Buffer = Buffer.alloc(0)
  let lineBreak = NEWLINE
  /** Of a line that is too long: the bytes that were dropped, and the quotes in them. */
  let dropped = { bytes: 0, quotes: 0 }

  const toLine = (last: Buffer, breakBytes: number): Line => {
    const isTooLong = dropped.bytes + last.length > MAX_LINE_BYTES
    if (isTooLong) drop(last)
    const { bytes, quotes } = isTooLong ? dropped : { bytes: last.length, quotes: 0 }
    dropped = { bytes: 0, quotes: 0 }
    offset += bytes + breakBytes
    const text = isTooLong ? undefined : last.toString()
    const byte = lineBreak === RETURN ? '\r' : '\n'
    return { line: ++line, end: offset, text, lineBreak: byte, isUtf8: isUtf8(last), bytes, quotes }
  }
  const drop = (bytes: Buffer) => {
    dropped = { bytes: dropped.bytes + bytes.length, quotes: dropped.quotes + quotesIn(bytes) }
  }

  let isFirst = true
  for await (const chunk of chunks) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    if (isFirst && rest.length < 2) continue // too short to recognize UTF-16
    if (isFirst && from.offset === 0) requireText(rest)
    if (isFirst) lineBreak = lineBreakOf(rest)
    isFirst = false
    let start = 0
    for (let end; (end = rest.indexOf(lineBreak, start)) >= 0; start = end + 1) {
      yield toLine(rest.subarray(start, end), 1)
    }
    rest = rest.subarray(start)
    if (rest.length > MAX_LINE_BYTES) {
      drop(rest)
      rest = Buffer.alloc(0)
    }
  }
  if (rest.length + dropped.bytes > 0) yield toLine(rest, 0)
}

/** Old programs for Macintosh end lines with a carriage return alone. */
function lineBreakOf(start: Buffer): number {
  return !start.includes(NEWLINE) && start.subarray(0, -1).includes(RETURN) ? RETURN : NEWLINE
}

function quotesIn(bytes: Buffer): number {
  let quotes = 0
  for (let at = bytes.indexOf('"'); at >= 0; at = bytes.indexOf('"', at + 1)) quotes++
  return quotes
}

function requireText(start: Buffer): void {
  const mark = start.readUInt16BE(0)
  if (mark === GZIP || start.toString('latin1', 0, 4) === ZIP) {
    throw new Error('the file is compressed, but only text can be read. Unpack it first.')
  }
  if (mark === 0xfeff || mark === 0xfffe) {
    throw new Error('the file is UTF-16, but only UTF-8 can be read. Save it as UTF-8.')
  }
}
