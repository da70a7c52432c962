import { parseWebhook, WebhookVerificationError } from 'hookline/webhook'

/** What is known about the signature of a body. */
export interface SignatureVerdict {
  /** `unchecked` if there is no secret. */
  signature: 'ok' | 'missing' | 'wrong' | 'unchecked'
  /** Why the signature is wrong or the body is not an event, with the fix. */
  reason?: string
}

/** Checks the signature of a body. A signature by any of the secrets is right. */
export function checkSignature(
  secrets: readonly string[],
  bytes: Buffer,
  signature: string | undefined,
): SignatureVerdict {
  if (secrets.length === 0) return { signature: 'unchecked' }
  try {
    parseWebhook(secrets, bytes, signature)
    return { signature: 'ok' }
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    const { code, message: reason } = error
    if (code === 'invalid_json') return { signature: 'ok', reason }
    // The advice of the package is for a receiver in which something else has read the body.
    if (code === 'body_consumed') return { signature: 'wrong', reason: EMPTY }
    return { signature: code === 'missing_signature' ? 'missing' : 'wrong', reason }
  }
}

const EMPTY =
  'The body is empty, and the destination never sends an empty one. Check the file, or the server that passed the request on.'
