/** The destination's `sharedSecret`, or several of them while one is being rotated. */
export type WebhookSecret = string | readonly string[]

/**
 * The body of a request: its text or bytes as they came, or what a JSON parser made of them.
 *
 * A parsed body is verified over its `JSON.stringify`: the destination signs a JSON fixed point, a text
 * that parsing and stringifying again leave as it is.
 */
export type WebhookBody = string | Uint8Array | ArrayBuffer | object

/** What a request's `X-Signature` header gave: one value, or anything else that a header can give. */
export type WebhookSignature = string | readonly string[] | null | undefined

/** What is hashed. */
export type Content = string | Uint8Array

/** Whether one of the secrets gives the signature: what each kind of crypto answers in its own way. */
export type Check<Answer extends boolean | Promise<boolean>> = (
  secrets: readonly string[],
  content: Content,
  signature: unknown,
) => Answer

/** A SHA-1 digest in hex. */
const HEX_LENGTH = 40

/**
 * Whether the two can belong together at all. The destination sends no empty body: one that arrives empty
 * was lost on its way here, and is never authentic.
 */
export function isComparable(content: Content, signature: unknown): signature is string {
  return typeof signature === 'string' && signature.length === HEX_LENGTH && content.length > 0
}

/**
 * Compares a digest in lowercase hex with 40 characters, in a time that does not depend on where they
 * differ, and without allocating: a letter may come in either case, so bit 0x20 is left out where bit 0x40
 * of the digest says "letter".
 */
export function isSameHex(digest: string, signature: string): boolean {
  let difference = 0
  for (let index = 0; index < HEX_LENGTH; index++) {
    const code = digest.charCodeAt(index)
    difference |= (code ^ signature.charCodeAt(index)) & ~((code & 0x40) >> 1)
  }
  return difference === 0
}

/** The secrets, each a non-empty string: HMAC takes an empty key, and then anyone can sign. */
export function secretsOf(secret: unknown): readonly string[] {
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret]
  if (secrets.length === 0) {
    throw new TypeError(`secret: expected at least one, got an empty list. ${SECRET_MEND}`)
  }
  for (const one of secrets) secretOf(one)
  return secrets as readonly string[]
}

/** One secret, known to be a non-empty string. */
export function secretOf(secret: unknown): string {
  if (typeof secret === 'string' && secret !== '') return secret
  throw new TypeError(`secret: expected a non-empty string, got ${nameOf(secret)}. ${SECRET_MEND}`)
}

const SECRET_MEND =
  "Pass the destination's sharedSecret; if it comes from the environment, check that the variable is set."

/** The text or bytes to hash. Bytes are never decoded, so that a byte order mark stays part of them. */
export function contentOf(body: unknown): Content {
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return body
  // Test runners hand over bytes of another realm, which are no instances of anything here.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  const kind = kindOf(body)
  if (kind === 'ArrayBuffer') return new Uint8Array(body as ArrayBuffer)
  if ((kind === 'Object' || kind === 'Array') && !isStream(body)) return stringify(body)
  throw new TypeError(
    `body: expected the request's text, bytes or parsed JSON, got ${nameOf(body)}. ` +
      'Pass the raw body: read the stream or await the promise first, and mount no parser that drops it.',
  )
}

/** What a value is, for a message: never the value itself. */
export function nameOf(value: unknown): string {
  if (value === '') return 'an empty string'
  if (typeof value === 'string') return `a string of ${value.length} characters`
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (value === undefined || value === null) return String(value)
  return isStream(value) ? 'a stream' : `a value of type ${kindOf(value)}`
}

const kindOf = (value: unknown): string => Object.prototype.toString.call(value).slice(8, -1)

const isStream = (value: unknown): boolean =>
  typeof (value as { pipe?: unknown } | undefined)?.pipe === 'function'

function stringify(body: unknown): string {
  try {
    return (JSON.stringify as (value: unknown) => string | undefined)(body) ?? ''
  } catch (cause) {
    // Nested so deep that only a stranger would send it: as an empty body, it is never authentic.
    if (cause instanceof RangeError) return ''
    const message =
      'body: expected parsed JSON, got what JSON.stringify refuses. Pass the raw body.'
    throw new TypeError(message, { cause })
  }
}
