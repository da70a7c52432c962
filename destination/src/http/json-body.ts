import { isFields, type Fields } from '../model/fields.js'
import { Refusal, show } from './refusal.js'

/** The text of a body. Bytes that are not UTF-8 become U+FFFD, so that one such byte does not lose a whole batch. */
export function textOf(body: Buffer): string {
  // Some clients send a byte order mark, although JSON must not have one (RFC 8259, 8.1).
  return body.toString('utf8', body[0] === 0xef && body[1] === 0xbb ? 3 : 0)
}

/**
 * Reads the JSON of a body.
 *
 * @param text - The text of the body, if the caller has it already.
 * @param isOptional - Whether every field of it is optional, so that an empty object is a body.
 * @throws {@link Refusal} if the body is not a JSON object.
 */
export function parseBody(body: Buffer, text = textOf(body), isOptional = false): Fields {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    const isEmpty = body.length === 0
    const came = isEmpty ? 'it is empty' : (error as SyntaxError).message
    const fix = isEmpty && isOptional ? ' Send {} for the defaults.' : ''
    throw new Refusal(400, 'invalid_json', `The body must be JSON in UTF-8: ${came}.${fix}`)
  }
  if (isFields(parsed)) return parsed
  const message = `The body must be a JSON object; got ${show(parsed)}.`
  throw new Refusal(400, 'invalid_json', message)
}
