import { Refusal, show } from './refusal.js'

/** A JSON object, whose fields are not checked yet. */
export type Fields = Record<string, unknown>

/**
 * Reads the JSON of a body. Bytes that are no UTF-8 become U+FFFD, so that one of them does not cost a batch.
 *
 * @throws {@link Refusal} if it is no JSON object.
 */
export function parseBody(body: Buffer): Fields {
  let parsed: unknown
  try {
    // JSON has no byte order mark (RFC 8259, 8.1); some clients send one.
    parsed = JSON.parse(body.toString('utf8', body[0] === 0xef && body[1] === 0xbb ? 3 : 0))
  } catch (error) {
    const came = body.length === 0 ? 'it is empty' : (error as SyntaxError).message
    throw new Refusal(400, 'invalid_json', `The body must be JSON in UTF-8: ${came}.`)
  }
  if (isFields(parsed)) return parsed
  const message = `The body must be a JSON object, got ${show(parsed)}.`
  throw new Refusal(400, 'invalid_json', message)
}

/** Whether JSON gave an object. */
export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
