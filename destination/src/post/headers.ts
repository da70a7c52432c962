import { createHmac } from 'node:crypto'

/** Names and values in turn, as they go out. */
export type HeaderList = readonly string[]

/** The headers that every request of an endpoint has: the destination's own, and those of its settings. */
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
 * The headers of one message in one attempt, the same for all endpoints of its destination.
 *
 * @param messageId - see {@link encodeMessageId} for what becomes of it
 * @param attempt - counts from 1
 */
export function messageHeaders(
  secret: string | undefined,
  body: string,
  messageId: string,
  attempt: number,
): HeaderList {
  return [
    ...signatureHeaders(secret, body),
    'X-Message-Id',
    encodeMessageId(messageId),
    'X-Attempt',
    String(attempt),
  ]
}

/**
 * The signature of a body: hex HMAC-SHA1 of its bytes in UTF-8 (RFC 2104). The same as `signWebhook` of
 * `hookline/webhook`, without its checks of what the settings have checked.
 *
 * @param secret - `undefined` for no signature
 */
export function signatureHeaders(secret: string | undefined, body: string): HeaderList {
  if (secret === undefined) return []
  return ['X-Signature', createHmac('sha1', secret).update(body).digest('hex')]
}

/**
 * Ids come from strangers, and a header holds little but ASCII (RFC 9110 section 5.5): all but visible ASCII, and the
 * percent sign itself, is percent-encoded in UTF-8, so that `decodeURIComponent` gives the id back. Half of a
 * surrogate pair, which has no UTF-8, becomes U+FFFD.
 */
export function encodeMessageId(messageId: string): string {
  if (/^[!-$&-~]*$/.test(messageId)) return messageId
  return messageId.replace(/[^!-$&-~]+/gu, (part) =>
    Buffer.from(part).toString('hex').toUpperCase().replace(/../g, '%$&'),
  )
}
