import { createHmac } from 'node:crypto'
import type { WebhookEvent } from './events.js'
import { parsing, run } from './parse.js'
import {
  contentOf,
  isComparable,
  isSameHex,
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

/** The check by Node's own crypto. */
export const isSigned: Check<boolean> = (secrets, content, signature) => {
  if (!isComparable(content, signature)) return false
  for (const secret of secrets) {
    if (isSameHex(digest(secret, content), signature)) return true
  }
  return false
}

/**
 * Whether a request comes from the destination: its `X-Signature` is the hex HMAC-SHA1 of its body under
 * the secret. The comparison takes the same time wherever the two differ.
 *
 * Whatever a stranger can send is an answer: a signature that is missing, repeated, malformed or wrong is
 * `false`, and so is an empty body.
 *
 * @param secret - The destination's `sharedSecret`; several while one is being rotated, and any may match.
 * @param body - The raw body, hashed untouched; a parsed body is verified over its `JSON.stringify`.
 * @param signature - The value of the header as it is, in lower or upper case, without a prefix.
 * @throws TypeError for what only the receiver can get wrong: an empty secret or none, a body that is
 * `undefined`, a stream or a promise.
 * @remarks The signature covers no time: a request can be replayed. Remember the `X-Message-Id` header,
 * the same in every attempt, to handle each message once.
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
  return isSigned(secretsOf(secret), contentOf(body), signature)
}

/**
 * The `X-Signature` that the destination sends with a body, in lowercase hex: for tests and tools.
 *
 * @throws TypeError if the secret is empty or the body is `undefined`, a stream or a promise.
 */
export function signWebhook(secret: string, body: WebhookBody): string {
  return digest(secretOf(secret), contentOf(body))
}

/**
 * Verifies a request as {@link verifyWebhook} does and gives its body as one of the seven events.
 *
 * @throws {@link WebhookVerificationError} with the `code` of the reason: `missing_signature`,
 * `malformed_signature`, `signature_mismatch`, `body_consumed` (no body, an empty one or a stream) or
 * `invalid_json`.
 * @throws TypeError if the secret is empty or the body is of a type that no request has.
 * @remarks An event of a `type` that this version does not know is authentic, and given as it came: keep
 * a `default` in a switch over the type.
 */
export function parseWebhook(
  secret: WebhookSecret,
  body: WebhookBody | null | undefined,
  signature: WebhookSignature,
): WebhookEvent {
  return run(parsing(secret, body, signature), isSigned)
}
