import type { Outcome } from '../model/outcome.js'
import { refusesSignature } from '../post/signing.js'

/** What the operator should do about a problem of an endpoint. */
export const FIXES = {
  connection: 'Check that the endpoint is running and that its port is open to this machine.',
  secret:
    'Check that both sides have the same secret, and that the receiver verifies the raw bytes of the body before it parses them.',
  answer:
    'The endpoint must answer with a 2xx status when it accepts a message. Its own log may give the reason.',
  unchecked:
    'The endpoint accepts messages from anybody. Verify the signature in the receiver, for example X-Signature with verifyWebhook from hookline/webhook.',
  unsigned: 'Set sharedSecret if the receiver expects a signature: the request has none.',
  slow: 'Answer with a 2xx status as soon as the message is stored, and process it afterwards.',
  throttled:
    'Raise the limit of the endpoint, or set rateLimit of the endpoint in the settings to what it allows.',
} as const

const BY_STATUS: Readonly<Record<number, string>> = {
  404: 'Check the path of the URL: the server has nothing there.',
  405: 'The endpoint must accept POST at this path.',
  413: 'The endpoint must accept bodies of at least 32 KB, which a call may have.',
  415: 'The endpoint must accept bodies with the content type application/json.',
}

/**
 * What the operator should do about the outcome of a request.
 *
 * @param isSigned - Whether the request had a signature.
 * @returns `undefined` if there is nothing to do, or if the error of the outcome already says it.
 */
export function fixOf(
  outcome: Pick<Outcome, 'code' | 'status'>,
  isSigned: boolean,
): string | undefined {
  const { code, status } = outcome
  switch (code) {
    case 'delivered':
    case 'redirect':
    case 'dns_error':
    case 'tls_error':
    case 'address_refused':
      return undefined
    case 'timeout':
      return FIXES.slow
    case 'connection_refused':
    case 'connection_reset':
    case 'connection_failed':
      return FIXES.connection
    case 'throttled':
      return FIXES.throttled
    case 'client_error':
      if (refusesSignature(outcome)) return isSigned ? FIXES.secret : FIXES.unsigned
      return BY_STATUS[status ?? 0] ?? FIXES.answer
    case 'server_error':
    case 'request_timeout':
    case 'endpoint_down':
    case 'endpoint_busy':
      return FIXES.answer
  }
}
