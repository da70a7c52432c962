import { recogniseAcrossBuilds } from '../across-builds.js'
import { HooklineError } from '../hookline-error.js'

/**
 * The reason why a request was refused. {@link parseWebhook} only uses the first five. The last three come from
 * the adapters, which read the body themselves.
 *
 * - `missing_signature`: the request has no `X-Signature`.
 * - `malformed_signature`: the header is not 40 hexadecimal characters, or came more than once.
 * - `signature_mismatch`: another secret signed the body, or something changed the body on its way.
 * - `body_consumed`: something read the body first and kept nothing that can be verified.
 * - `invalid_json`: the signature is right, but the body is not a JSON object with a `type`.
 * - `body_too_large`: the body is larger than `maxBytes`.
 * - `unsupported_encoding`: the body is compressed with something other than gzip, or its gzip is damaged.
 * - `body_incomplete`: the connection ended before the body did.
 */
export type WebhookErrorCode =
  | 'missing_signature'
  | 'malformed_signature'
  | 'signature_mismatch'
  | 'body_consumed'
  | 'invalid_json'
  | 'body_too_large'
  | 'unsupported_encoding'
  | 'body_incomplete'

/** The error for a request that cannot be verified or read. Its message never contains a secret or a right signature. */
export class WebhookVerificationError extends HooklineError {
  /** The name of the class, for logs. */
  override readonly name = 'WebhookVerificationError'
  /** The reason of the refusal. */
  override readonly code: WebhookErrorCode

  /** Only receivers create these errors, and tests of code that handles them. */
  constructor(code: WebhookErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

recogniseAcrossBuilds({ WebhookVerificationError })
