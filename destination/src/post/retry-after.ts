/** The longest wait that an endpoint may ask for, in ms: one wrong answer must not hold a message for hours. */
export const MAX_RETRY_AFTER_MS = 300_000

/**
 * Reads a `Retry-After` header: a number of seconds, or a date in one of HTTP's three formats.
 * Source: RFC 9110 section 10.2.3, and section 5.6.7 for dates.
 *
 * @param nowMs - The time of day in ms since the epoch, by the system's clock.
 * @param sentAt - The answer's `Date` header. A date in `Retry-After` is compared with it, because both are of one clock.
 * @returns The wait in ms, at most {@link MAX_RETRY_AFTER_MS}; `undefined` if the header is missing, invalid or asks for no wait.
 */
export function retryAfterMs(
  header: string | undefined,
  nowMs: number,
  sentAt?: string,
): number | undefined {
  if (header === undefined) return undefined
  const delayMs = /^\d+(\.\d+)?$/.test(header)
    ? Number(header) * 1_000
    : parseHttpDate(header) - (parseHttpDate(sentAt ?? '') || nowMs)
  return delayMs > 0 ? Math.min(delayMs, MAX_RETRY_AFTER_MS) : undefined
}

/**
 * `Date.parse` reads the three formats, but it also accepts many strings that are not dates, and it reads the format
 * without a time zone as local time.
 */
function parseHttpDate(text: string): number {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return NaN
  return Date.parse(text.endsWith(' GMT') ? text : `${text} GMT`)
}
