/** The whole window of retries: a longer wait would be the end of the message. */
const MAX_RETRY_AFTER_MS = 4 * 60 * 60 * 1_000

/**
 * Reads a `Retry-After` header: seconds, or a date in any of HTTP's three forms.
 * Source: RFC 9110 section 10.2.3, and 5.6.7 for dates.
 *
 * @returns ms from now, at most 4 hours; `undefined` if it asks for no wait, or can't be read
 */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  const delayMs = /^\d+(\.\d+)?$/.test(header)
    ? Number(header) * 1_000
    : parseHttpDate(header) - nowMs
  return delayMs > 0 ? Math.min(delayMs, MAX_RETRY_AFTER_MS) : undefined
}

/** `Date.parse` reads all three, but also much that is no date, and takes the one without a zone for local time. */
function parseHttpDate(text: string): number {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return NaN
  return Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
}
