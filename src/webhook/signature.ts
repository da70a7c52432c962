import { createHmac } from 'node:crypto'
import type { WebhookEvent } from './events.js'
import { parsing, run } from './parse.js'
import {
  contentOf,
  isComparable,
  isSameHex,
  receivedOf,
  secretOf,
  secretsOf,
  type Check,
  type Content,
  type WebhookBody,
  type WebhookSecret,
  type WebhookSignature,
} from './rule.js'

const digest = (secret: string, content: Content): string =>
  createHmac('sha1', secret).update(content).digest('hex')

/** The signature check with Node's crypto. */
export const isSigned: Check<boolean> = (secrets, content, signature) => {
  if (!isComparable(content, signature)) return false
  for (const secret of secrets) {
    if (isSameHex(digest(secret, content), signature)) return true
  }
  return false
}

/**
 * Says whether a request comes from the destination: its `X-Signature` must be the HMAC-SHA1 of its body under
 * the secret, in hex. The time of the comparison does not depend on where the two differ.
 *
 * It never throws because of what a stranger sends. It returns `false` for a signature that is missing,
 * repeated, malformed or wrong, and for a body that is missing, empty or not an object. A parser such as
 * `express.raw` leaves no body if a stranger's request has none, or has another content type.
 *
 * @param secret - The destination's `sharedSecret`. During a rotation, a list of which any may match.
 * @param body - The raw body, which is hashed as it is. A parsed body is verified over its `JSON.stringify`.
 * @param signature - The unchanged value of the header: lower or upper case, without a prefix.
 * @throws TypeError for a mistake in the receiver's code: the secret is missing or empty, or the body is a
 * stream, a promise or another value that no parser returns for JSON.
 * @remarks The signature does not expire, so somebody can send a copy of a request. To handle each message
 * once, remember its `X-Message-Id` header, which is the same in every attempt.
 * @example
 * ```ts
 * import { signWebhook, verifyWebhook } from 'hookline'
 *
 * const signature = signWebhook('s3cret', '{"type":"delete"}')
 * verifyWebhook(['new s3cret', 's3cret'], '{"type":"delete"}', signature) // true
 * ```
 */
export function verifyWebhook(
  secret: WebhookSecret,
  body: WebhookBody,
  signature: WebhookSignature,
): boolean {
  return isSigned(secretsOf(secret), receivedOf(body), signature)
}

/**
 * Returns the `X-Signature` that the destination sends with a body, in lowercase hex. It is for tests and tools.
 *
 * @throws TypeError if the secret is empty, or the body is `undefined`, a stream, a promise or another value that is
 * neither text, bytes nor JSON.
 */
export function signWebhook(secret: string, body: WebhookBody): string {
  return digest(secretOf(secret), contentOf(body))
}

/**
 * Verifies a request as {@link verifyWebhook} does, and returns its body as one of the seven events.
 *
 * @throws {@link WebhookVerificationError} with one of the codes `missing_signature`, `malformed_signature`,
 * `signature_mismatch`, `body_consumed` (the body is missing, empty, a stream, or a parsed value that is no
 * object) and `invalid_json`.
 * @throws TypeError if the secret is missing or empty, or the body has a type that no request body has.
 * @remarks It also returns verified events with a `type` that this version does not know. So keep a `default`
 * in a switch over the type.
 */
export function parseWebhook(
  secret: WebhookSecret,
  body: WebhookBody | null | undefined,
  signature: WebhookSignature,
): WebhookEvent {
  return run(parsing(secret, body, signature), isSigned)
}
