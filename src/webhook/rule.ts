/** The destination's `sharedSecret`, or a list of secrets during a rotation. */
export type WebhookSecret = string | readonly string[]

/**
 * The body of a request: its text or bytes as they arrived, or the value that a JSON parser returned.
 *
 * A parsed body is verified over its `JSON.stringify`. This works because the destination only signs JSON that
 * stays the same when it is parsed and stringified again.
 */
export type WebhookBody = string | Uint8Array | ArrayBuffer | object

/** The value of the `X-Signature` header. A list means that the header came more than once. */
export type WebhookSignature = string | readonly string[] | null | undefined

/** The text or bytes to hash. */
export type Content = string | Uint8Array

/** Says whether one of the secrets produces the signature. Each kind of crypto has its own implementation. */
export type Check<Answer extends boolean | Promise<boolean>> = (
  secrets: readonly string[],
  content: Content,
  signature: unknown,
) => Answer

/** A SHA-1 digest has 20 bytes, and hex has two characters for each byte. */
const HEX_LENGTH = 40

/**
 * Says whether it makes sense to compare a body and a signature. The destination never sends an empty body,
 * so an empty body was lost on its way and is never authentic.
 */
export function isComparable(content: Content, signature: unknown): signature is string {
  return typeof signature === 'string' && signature.length === HEX_LENGTH && content.length > 0
}

/**
 * Compares a digest in lowercase hex with 40 characters. The time does not depend on where they differ, so a
 * forger cannot guess the digest character by character. Nothing is allocated. A letter may be in either case:
 * if bit 0x40 of the digest says that the character is a letter, bit 0x20 is ignored.
 */
export function isSameHex(digest: string, signature: string): boolean {
  let difference = 0
  for (let index = 0; index < HEX_LENGTH; index++) {
    const code = digest.charCodeAt(index)
    difference |= (code ^ signature.charCodeAt(index)) & ~((code & 0x40) >> 1)
  }
  return difference === 0
}

/** Returns the secrets as a list. An empty secret throws: HMAC accepts an empty key, and then anybody could sign. */
export function secretsOf(secret: unknown): readonly string[] {
  const secrets: readonly unknown[] = Array.isArray(secret) ? secret : [secret]
  if (secrets.length === 0) {
    throw new TypeError(
      `secret: expected at least one, got an empty list. ${WHERE_SECRETS_COME_FROM}`,
    )
  }
  for (const one of secrets) secretOf(one)
  return secrets as readonly string[]
}

/** Returns the secret if it is a non-empty string, and throws a TypeError if it is not. */
export function secretOf(secret: unknown): string {
  if (typeof secret === 'string' && secret !== '') return secret
  throw new TypeError(
    `secret: expected a non-empty string, got ${nameOf(secret)}. ${WHERE_SECRETS_COME_FROM}`,
  )
}

const WHERE_SECRETS_COME_FROM =
  "Pass the destination's sharedSecret. If it comes from the environment, check that the variable is set."

/** Returns the text or bytes to hash. Bytes are not decoded, because decoding would drop a byte order mark. */
export function contentOf(body: unknown): Content {
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array) return body
  // Jest runs tests in a realm of their own, and its Uint8Array is not an instance of this realm's class.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength)
  const kind = kindOf(body)
  if (kind === 'ArrayBuffer') return new Uint8Array(body as ArrayBuffer)
  if ((kind === 'Object' || kind === 'Array') && !isStream(body)) return stringify(body)
  throw new TypeError(
    `body: expected the request's text, bytes or parsed JSON, got ${nameOf(body)}. ` +
      'Pass the raw body: read the stream or await the promise first, and do not mount a parser that drops the body.',
  )
}

/** Describes a value for an error message. It never shows the value, which may be a secret. */
export function nameOf(value: unknown): string {
  if (value === '') return 'an empty string'
  if (typeof value === 'string') return `a string of ${value.length} characters`
  if (Array.isArray(value)) return `a list of ${value.length}`
  if (value === undefined || value === null) return String(value)
  return isStream(value) ? 'a stream' : `a value of type ${kindOf(value)}`
}

/** The name of a value's class, also for one of another realm and for a polyfill. */
export const kindOf = (value: unknown): string => Object.prototype.toString.call(value).slice(8, -1)

const isStream = (value: unknown): boolean =>
  typeof (value as { pipe?: unknown } | undefined)?.pipe === 'function'

function stringify(body: unknown): string {
  try {
    return (JSON.stringify as (value: unknown) => string | undefined)(body) ?? ''
  } catch (cause) {
    const message =
      'body: expected parsed JSON, got a value that JSON.stringify refuses. Pass the raw body.'
    throw new TypeError(message, { cause })
  }
}

/**
 * Returns the text or bytes of a received body. A body that a stranger can send, and the destination never sends,
 * counts as empty, because an empty body is never authentic: no body, a single number, and JSON that a parser reads
 * but JSON.stringify refuses. Only a mistake in the receiver's code throws, such as a promise.
 */
export function receivedOf(body: unknown): Content {
  if (typeof body === 'string') return body
  if (body === null || (typeof body !== 'object' && typeof body !== 'function')) return ''
  try {
    return contentOf(body)
  } catch (error) {
    const { cause } = error as TypeError
    // Nested too deeply for JSON.stringify, or read by a parser that makes a BigInt of a large number.
    if (cause instanceof RangeError || (cause !== undefined && isJsonWithBigInts(body))) return ''
    throw error
  }
}

function isJsonWithBigInts(body: unknown): boolean {
  try {
    JSON.stringify(body, (_, value: unknown) => (typeof value === 'bigint' ? '' : value))
    return true
  } catch {
    return false
  }
}
