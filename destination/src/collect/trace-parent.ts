/** Version, trace id, parent id, flags; a later version may have more after them. None is of zeros alone. */
const TRACE_PARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Reads a `traceparent`, of this version of W3C Trace Context or a later one, and gives it as this version has it.
 * Source: https://www.w3.org/TR/trace-context/#traceparent-header
 *
 * @returns `undefined` for one that is none: it is to be ignored.
 */
export function parseTraceParent(header: string | undefined): string | undefined {
  const parts = header === undefined ? null : TRACE_PARENT.exec(header)
  if (!parts) return undefined
  const [, version, trace, parent, flags, more] = parts
  if (version === '00' && more !== undefined) return undefined
  return `00-${trace}-${parent}-${flags}`
}
