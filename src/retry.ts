/** What an answer means for the batch that got it. */
export type Verdict = 'delivered' | 'retry' | 'split' | 'rejected'

/**
 * Judges an HTTP status. A 413, and a 400 for several messages, may be the fault of one of them: pieces of
 * the batch find out which. A redirect is never followed, since a 302 would turn the POST into a GET: it is
 * a refusal. (Runtimes that hide redirects give the status 0.)
 */
export function judge(status: number, messages: number): Verdict {
  if (status >= 200 && status < 300) return 'delivered'
  if ((status === 413 || status === 400) && messages > 1) return 'split'
  // A 407 comes from a proxy: the endpoint has not seen the batch. Source: RFC 9110 section 15.5.8.
  if (status === 407 || status === 408 || status === 429) return 'retry'
  // 501 and 505 say that the server never will.
  if (status >= 500 && status !== 501 && status !== 505) return 'retry'
  return 'rejected'
}

/** What the reader of a refusal can do about it. */
export function adviceFor(status: number, location: string | null): string {
  if (status === 401 || status === 403) return 'Check the write key.'
  if (status === 404 || status === 405) return 'Check the path of the endpoint.'
  if (status === 413) return 'This server takes no message of that size.'
  if (status < 400) {
    return `Redirects are not followed: make ${location ?? 'the final URL'} the endpoint.`
  }
  return 'Sending it again would not help.'
}

const FIRST_BACKOFF_MS = 250
const MAX_BACKOFF_MS = 30_000

/**
 * How long to wait after so many failures in a row: at least 250 ms, 500 ms, 1 s … 15 s, and up to twice
 * that. A fleet of clients is spread over half of each wait; the other half is kept, so that an endpoint
 * that is down sees no client more than five times in the first five seconds. The waits start over when the
 * client is closed, and when a script ends.
 *
 * @param failures - how many attempts failed since one succeeded, from 1
 * @param random - a number from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const leastMs = Math.min(MAX_BACKOFF_MS / 2, FIRST_BACKOFF_MS * 2 ** (failures - 1))
  return leastMs * (1 + random)
}

/** A server that asks for more is asked again after this. */
const MAX_RETRY_AFTER_MS = 300_000

/** The only form of an HTTP date that does not name its zone, which is GMT. Source: RFC 9110 section 5.6.7. */
const ASCTIME = /^\s*\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\s*$/

/**
 * Reads a `Retry-After` header, seconds or an HTTP date, to at most 5 minutes.
 * Source: RFC 9110 section 10.2.3.
 *
 * @returns milliseconds from now; 0 if there is none, or none that can be read
 */
export function retryAfterMs(header: string | null, nowMs: number): number {
  if (header === null) return 0
  const delayMs = /^\s*\d+(\.\d+)?\s*$/.test(header)
    ? Number(header) * 1_000
    : Date.parse(ASCTIME.test(header) ? `${header} GMT` : header) - nowMs
  return delayMs > 0 ? Math.min(delayMs, MAX_RETRY_AFTER_MS) : 0
}
