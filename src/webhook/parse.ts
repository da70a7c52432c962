import type { WebhookEvent } from './events.js'
import { contentOf, nameOf, secretsOf, type Check, type Content } from './rule.js'
import { WebhookVerificationError } from './verification-error.js'

/**
 * A parse, written once for both kinds of crypto: it yields what it wants checked and is given the answer,
 * at once by Node's crypto and later by WebCrypto.
 */
export type Steps<Result> = Generator<Parameters<Check<boolean>>, Result, boolean>

/** Runs steps with a check that answers at once. */
export function run<Result>(steps: Steps<Result>, check: Check<boolean>): Result {
  let step = steps.next()
  while (step.done !== true) step = steps.next(check(...step.value))
  return step.value
}

/** Runs steps with a check that may answer later. */
export async function runAsync<Result>(
  steps: Steps<Result>,
  check: Check<boolean | Promise<boolean>>,
): Promise<Result> {
  let step = steps.next()
  while (step.done !== true) step = steps.next(await check(...step.value))
  return step.value
}

/** Verifies a body and gives its event, or throws the reason why not. */
export function* parsing(secret: unknown, body: unknown, signature: unknown): Steps<WebhookEvent> {
  const secrets = secretsOf(secret)
  const hex = signatureOf(signature)
  const content = bodyOf(body)
  if (yield [secrets, content, hex]) return eventOf(content)
  throw new WebhookVerificationError(
    'signature_mismatch',
    'Expected X-Signature to be the HMAC-SHA1 of the body under the secret, got another digest. ' +
      (yield* mendOf(secrets, content, hex)),
  )
}

/** The signature, known to be 40 hexadecimal characters. */
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
      'Pass the value of the header as it came: it is sent once and has no prefix.',
  )
}

/** An error that says that the body is gone, and which line keeps it. */
export function bodyConsumed(got: string, mend: string): WebhookVerificationError {
  return new WebhookVerificationError(
    'body_consumed',
    `Expected the body of the request, got ${got}: something read it before. ${mend}`,
  )
}

function bodyOf(body: unknown): Content {
  try {
    const content = contentOf(body)
    if (content.length > 0) return content
  } catch (error) {
    // Not there, or a stream that is still to be read: to a parse it is the same mistake.
    if (body !== undefined && body !== null && nameOf(body) !== 'a stream') throw error
  }
  throw bodyConsumed(
    nameOf(body),
    'Give this route the raw body, in Express: ' +
      "express.raw({ type: 'application/json', limit: '1mb' }), before any express.json().",
  )
}

/**
 * The likely reason of a mismatch. A hint is given only to a request whose signature is right but for that
 * one reason, so it tells a forger nothing that signing with the true secret would not. It costs as
 * much as one more parse and hash, and only for a body that is no larger than a call.
 */
function* mendOf(secrets: readonly string[], content: Content, hex: string): Steps<string> {
  if (content.length > CALL_BYTES) return NO_HINT
  const trimmed = secrets
    .map((secret) => secret.trim())
    .filter((one) => one !== '' && !secrets.includes(one))
  if (yield [trimmed, content, hex]) {
    return 'It is right for the secret without the white space around it: trim the secret.'
  }
  if (yield [secrets, recompact(content), hex]) {
    return (
      'It is right for the body parsed and stringified again: something reformatted the body on its ' +
      'way. Stop that, or pass JSON.parse(body).'
    )
  }
  return NO_HINT
}

const NO_HINT =
  "Check that the secret is the destination's sharedSecret and that nothing changed the body."

/** Calls have at most 32 KB; the envelope and a reformatting get as much again. */
const CALL_BYTES = 65_536

function recompact(content: Content): string {
  try {
    return JSON.stringify(JSON.parse(textOf(content)))
  } catch {
    return ''
  }
}

function eventOf(content: Content): WebhookEvent {
  let event: unknown
  try {
    event = JSON.parse(textOf(content))
  } catch (cause) {
    throw invalidJson('no JSON', cause)
  }
  if (typeof (event as { type?: unknown } | null)?.type !== 'string') {
    throw invalidJson('JSON without a type')
  }
  return event as WebhookEvent // what the destination signed is of the destination's shape
}

/** JSON has no byte order mark (RFC 8259, 8.1); one that was signed with the body is no reason to lose it. */
function textOf(content: Content): string {
  if (typeof content !== 'string') return new TextDecoder().decode(content)
  return content.startsWith('\uFEFF') ? content.slice(1) : content
}

function invalidJson(got: string, cause?: unknown): WebhookVerificationError {
  return new WebhookVerificationError(
    'invalid_json',
    `Expected a JSON object with a type, got ${got}. ` +
      'The signature is right, so something else than the destination signs with this secret.',
    { cause },
  )
}
