/** The most characters of a prefix that a pattern has: SQLite takes patterns of 50,000 bytes. */
const MOST = 1_000

/**
 * A pattern for `LIKE` that matches at least all texts that {@link startsAlike} accepts. Databases disagree on the case of
 * letters beyond ASCII, so the pattern ends before the first of them, and after {@link MOST} characters.
 */
export function prefixPattern(prefix: string): string {
  const ascii = /^[\x20-\x7e]*/.exec(prefix)?.[0] ?? ''
  return `${ascii
    .slice(0, MOST)
    .toLowerCase()
    .replace(/[\\%_]/g, '\\$&')}%`
}

/** Whether a text starts with a prefix, if upper and lower case count as the same. */
export function startsAlike(text: string, prefix: string): boolean {
  return text.toLowerCase().startsWith(prefix.toLowerCase())
}
