import { markChanges } from '../../model/changed-numbers.js'
import { isFields } from '../../model/fields.js'
import { readLines } from './lines.js'
import { NOT_UTF8, tooLong, type Place, type Row } from './row.js'

/** Is added to the problem of a first line with which a list begins, or an object over several lines. */
const NOT_BY_LINES =
  ". Each line must be one object. This converts a file: jq -c . FILE. If it is one list: jq -c '.[]' FILE"

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
    else if (text !== '') yield { line, end, text, ...parse(text, line === 1) }
  }
}

/** @param isFirst - The first line of a file shows whether all of it is JSON of another kind. */
function parse(text: string, isFirst: boolean): Pick<Row, 'fields' | 'marked' | 'problem'> {
  const hint = isFirst && /^[[{]/.test(text) ? NOT_BY_LINES : ''
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return { problem: `not valid JSON: ${(error as Error).message}${hint}` }
  }
  if (isFields(value)) return { fields: value, marked: markChanges(text) }
  return { problem: `expected a JSON object that has the fields of a call${hint}` }
}
