/** Version, trace id, parent id and flags. A later version may have more fields. An id must not be all zeros. */
const TRACE_PARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/**
 * Reads a `traceparent` header of version 00 of W3C Trace Context or a later version, and formats it as version 00.
 * Source: https://www.w3.org/TR/trace-context/#traceparent-header
 *
 * @returns `undefined` if the header is not valid. The specification requires that such a header is ignored.
 */
export function parseTraceParent(header: string | undefined): string | undefined {
  const parts = header === undefined ? null : TRACE_PARENT.exec(header)
  if (!parts) return undefined
  const [, version, trace, parent, flags, more] = parts
  if (version === '00' && more !== undefined) return undefined
  return `00-${trace}-${parent}-${flags}`
}
