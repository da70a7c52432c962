import { markChanges } from '../../model/changed-numbers.js'
import { readLines } from './lines.js'
import { NOT_UTF8, tooLong, type Place, type Row } from './row.js'

/**
 * Reads newline-delimited JSON, one object in each line. Empty lines are skipped.
 *
 * @param from - The place of the first chunk.
 */
export async function* readNdjson(
  chunks: AsyncIterable<Buffer>,
  from: Place,
): AsyncGenerator<Row, void> {
  for await (const { line, end, text: read, isUtf8, bytes } of readLines(chunks, from)) {
    const text = read?.replace(/^\uFEFF/, '').trim()
    if (text === undefined) yield { line, end, text: '', problem: tooLong('line', bytes) }
    else if (!isUtf8) yield { line, end, text, problem: NOT_UTF8 }
    else if (text !== '') yield { line, end, text, ...parse(text) }
  }
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
