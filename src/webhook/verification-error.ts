import { recogniseAcrossBuilds } from '../across-builds.js'
import { HooklineError } from '../hookline-error.js'

/**
 * Why a request was refused. {@link parseWebhook} throws the first five; the adapters, which read the
 * body themselves, know the last three too.
 *
 * - `missing_signature`: the request has no `X-Signature`.
 * - `malformed_signature`: the header is no 40 hexadecimal characters, or came more than once.
 * - `signature_mismatch`: another secret signed the body, or the body was changed on its way.
 * - `body_consumed`: something read the body first and left nothing that can be verified.
 * - `invalid_json`: the signature is right, and the body is no JSON object with a `type`.
 * - `body_too_large`: the body is over `maxBytes`.
 * - `unsupported_encoding`: the body is compressed in another way than gzip, or is broken gzip.
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

/** A request that can't be trusted or read. Its message never holds a secret or a right signature. */
export class WebhookVerificationError extends HooklineError {
  /** Tells the class in a log. */
  override readonly name = 'WebhookVerificationError'
  /** The reason. */
  override readonly code: WebhookErrorCode

  /** Made by a receiver, or by a test of what you do with one. */
  constructor(code: WebhookErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

recogniseAcrossBuilds({ WebhookVerificationError })
