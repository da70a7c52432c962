import { createHmac, type KeyObject } from 'node:crypto'

/** Header names and values in turn, as they are sent: `[name, value, name, value]`. */
export type HeaderList = readonly string[]

/**
 * The headers that are the same in all requests to an endpoint: the fixed ones, and those of the endpoint's settings.
 */
export function fixedHeaders(headers: Record<string, string>): HeaderList {
  return [
    'User-Agent',
    'Service.io/1.0',
    'Content-Type',
    'application/json',
    ...Object.entries(headers).flat(),
  ]
}

/**
 * The headers of one message in one attempt. They are the same for all endpoints of its destination.
 *
 * @param secret - Signs the body; `undefined` for no signature. A key is faster than a text, because it is prepared once.
 * @param messageId - Any string. It is sent encoded: see {@link encodeMessageId}.
 * @param attempt - Counts from 1.
 */
export function messageHeaders(
  secret: string | KeyObject | undefined,
  body: string | Buffer,
  messageId: string,
  attempt: number,
): HeaderList {
  const headers = signatureHeaders(secret, body)
  headers.push('X-Message-Id', encodeMessageId(messageId), 'X-Attempt', String(attempt))
  return headers
}

/**
 * The headers of the trace that a message belongs to (W3C Trace Context).
 *
 * @param trace - The `traceparent`, then a space and the `tracestate` if there is one.
 */
export function traceHeaders(trace: string): HeaderList {
  const end = trace.indexOf(' ')
  if (end < 0) return ['traceparent', trace]
  return ['traceparent', trace.slice(0, end), 'tracestate', trace.slice(end + 1)]
}

/**
 * The signature of a body: the HMAC-SHA1 of its bytes in UTF-8, in hex (RFC 2104). It equals that of `signWebhook` from
 * `hookline/webhook`. The checks of `signWebhook` are missing here, because the settings have been checked already.
 *
 * @param secret - `undefined` for no signature.
 */
export function signatureHeaders(
  secret: string | KeyObject | undefined,
  body: string | Buffer,
): string[] {
  if (secret === undefined) return []
  return ['X-Signature', createHmac('sha1', secret).update(body).digest('hex')]
}

/**
 * Encodes a message id for a header. Clients may send any string as an id, but a header can carry only visible ASCII
 * reliably (RFC 9110 section 5.5). All other characters and the percent sign are percent-encoded in UTF-8, so that
 * `decodeURIComponent` restores the id. Half of a surrogate pair has no UTF-8 encoding and becomes U+FFFD.
 */
export function encodeMessageId(messageId: string): string {
  if (/^[!-$&-~]*$/.test(messageId)) return messageId
  return messageId.replace(/[^!-$&-~]+/gu, (part) =>
    Buffer.from(part).toString('hex').toUpperCase().replace(/../g, '%$&'),
  )
}
