import type { WebhookEvent } from './events.js'
import { nameOf, receivedOf, secretsOf, type Check, type Content } from './rule.js'
import { WebhookVerificationError } from './verification-error.js'

/**
 * A generator, so that the steps of a parse are written once for two kinds of crypto. It yields the arguments
 * of a signature check and receives the result. Node's crypto gives the result at once, WebCrypto as a promise.
 */
export type Steps<Result> = Generator<Parameters<Check<boolean>>, Result, boolean>

/** Runs the steps with a synchronous check. */
export function run<Result>(steps: Steps<Result>, check: Check<boolean>): Result {
  let step = steps.next()
  while (step.done !== true) step = steps.next(check(...step.value))
  return step.value
}

/** Runs the steps with a check that may be asynchronous. */
export async function runAsync<Result>(
  steps: Steps<Result>,
  check: Check<boolean | Promise<boolean>>,
): Promise<Result> {
  let step = steps.next()
  while (step.done !== true) step = steps.next(await check(...step.value))
  return step.value
}

/**
 * Verifies a body and returns its event.
 *
 * @throws WebhookVerificationError with the reason of a refusal
 * @throws TypeError if the secret or the type of the body is a mistake in the receiver's code
 */
export function* parsing(secret: unknown, body: unknown, signature: unknown): Steps<WebhookEvent> {
  const secrets = secretsOf(secret)
  const hex = signatureOf(signature)
  const content = bodyOf(body)
  if (yield [secrets, content, hex]) return eventOf(content)
  throw new WebhookVerificationError(
    'signature_mismatch',
    'Expected X-Signature to be the HMAC-SHA1 of the body under the secret, got another digest. ' +
      (yield* hintOf(secrets, content, hex)),
  )
}

/** Returns the signature if it is 40 hexadecimal characters, and throws if it is not. */
export function signatureOf(signature: unknown): string {
  if (signature === undefined || signature === null || signature === '') {
    throw new WebhookVerificationError(
      'missing_signature',
      'Expected an X-Signature header, got none. Set sharedSecret in the settings of the destination, ' +
        'and check that no proxy drops the header.',
    )
  }
  if (typeof signature === 'string' && /^[\da-f]{40}$/i.test(signature)) return signature
  throw new WebhookVerificationError(
    'malformed_signature',
    `Expected X-Signature to be 40 hexadecimal characters, got ${nameOf(signature)}. ` +
      'Pass the unchanged value of the header. The destination sends it once, with no prefix.',
  )
}

/** An error for a body that something else has read. `howToKeepIt` is the advice at the end of its message. */
export function bodyConsumed(got: string, howToKeepIt: string): WebhookVerificationError {
  return new WebhookVerificationError(
    'body_consumed',
    `Expected the body of the request, got ${got}: something read it before. ${howToKeepIt}`,
  )
}

function bodyOf(body: unknown): Content {
  try {
    const content = receivedOf(body)
    if (content.length > 0) return content
  } catch (error) {
    // A missing body and an unread stream have one cause, and get one code: `body_consumed`.
    if (nameOf(body) !== 'a stream') throw error
  }
  throw bodyConsumed(
    nameOf(body),
    'Give this route the raw body. In Express, mount ' +
      "express.raw({ type: 'application/json', limit: '1mb' }) before express.json().",
  )
}

/**
 * Returns the likely cause of a mismatch. A request gets a specific hint only if its signature is right apart
 * from that one cause. So a forger learns nothing that a correctly signed request would not tell. The hint
 * costs one more parse and a few hashes, so a body that is larger than any call gets none.
 */
function* hintOf(secrets: readonly string[], content: Content, hex: string): Steps<string> {
  if (content.length > CALL_BYTES) return NO_HINT
  const trimmed = secrets
    .map((secret) => secret.trim())
    .filter((one) => one !== '' && !secrets.includes(one))
  if (yield [trimmed, content, hex]) {
    return 'It matches the secret without the white space around it: trim the secret.'
  }
  if (yield [secrets, recompact(content), hex]) {
    return (
      'It matches the body after JSON.parse and JSON.stringify: something reformatted the body on its ' +
      'way. Remove the cause, or pass JSON.parse(body).'
    )
  }
  return NO_HINT
}

const NO_HINT =
  "Check that the secret is the destination's sharedSecret and that nothing changed the body."

/** A call has at most 32 KB. The other half is for the fields around it and for white space. */
const CALL_BYTES = 65_536

function recompact(content: Content): string {
  try {
    return JSON.stringify(JSON.parse(textOf(content)))
  } catch {
    return ''
  }
}

function eventOf(content: Content): WebhookEvent {
  const text = textOf(content) // a runtime that lacks TextDecoder says so
  let event: unknown
  try {
    event = JSON.parse(text)
  } catch (cause) {
    throw invalidJson('no JSON', cause)
  }
  if (typeof (event as { type?: unknown } | null)?.type !== 'string') {
    throw invalidJson('JSON without a type')
  }
  return event as WebhookEvent // the signature proves that the destination wrote it
}

/** RFC 8259, section 8.1, lets a parser ignore a byte order mark. JSON.parse throws at it, so it is removed here. */
function textOf(content: Content): string {
  if (typeof content !== 'string') return new TextDecoder().decode(content)
  return content.startsWith('\uFEFF') ? content.slice(1) : content
}

function invalidJson(got: string, cause?: unknown): WebhookVerificationError {
  return new WebhookVerificationError(
    'invalid_json',
    `Expected a JSON object with a type, got ${got}. ` +
      'The signature is right, so something other than the destination signs with this secret.',
    { cause },
  )
}
