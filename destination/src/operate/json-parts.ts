import { Readable } from 'node:stream'
import { turn } from '../model/slices.js'

/** In characters. A part this long is computed in about a millisecond. */
const PART_LENGTH = 16_384

/**
 * An object as JSON, whose long lists are computed and sent in parts. Other work of the process goes on between them.
 *
 * @param object - Its lists may be iterables that compute each element when they are asked for it.
 */
export function jsonInParts(object: object): Readable {
  return Readable.from(parts(object), { objectMode: false })
}

async function* parts(object: object): AsyncGenerator<string> {
  let part = ''
  for (const text of texts(object)) {
    part += text
    if (part.length < PART_LENGTH) continue
    yield part
    part = ''
    await turn()
  }
  yield part
}

function* texts(value: object): Generator<string> {
  let separator = ''
  if (Symbol.iterator in value) {
    yield '['
    for (const element of value as Iterable<unknown>) {
      yield separator + JSON.stringify(element)
      separator = ','
    }
    yield ']'
    return
  }
  yield '{'
  for (const [name, field] of Object.entries(value) as [string, unknown][]) {
    yield `${separator}${JSON.stringify(name)}:`
    if (typeof field === 'object' && field !== null) yield* texts(field)
    else yield JSON.stringify(field)
    separator = ','
  }
  yield '}'
}
