import type { TraceHeaders } from '../enqueue/calls.js'
import { parseTraceParent } from './trace-parent.js'

/** The most entries of a `tracestate` (Trace Context, 3.3.1.1). A header with more is not valid. */
const MAX_ENTRIES = 32

/** The most characters of a `tracestate` that every receiver must keep (Trace Context, 3.3.1.5). */
const MAX_LENGTH = 512

/** Entries that are longer than this are the first to be left out of a header that is too long (Trace Context, 3.3.1.5). */
const LONG_ENTRY = 128

/** A key and a value (Trace Context, 3.3.1.3). The value may contain spaces, but must not end with one. */
const ENTRY =
  /^([a-z\d][a-z\d_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

/**
 * Reads the trace that a request belongs to.
 *
 * @returns the `traceparent`, then a space and the `tracestate` if there is one; `undefined` without a valid `traceparent`.
 */
export function traceContextOf({ traceparent, tracestate = '' }: TraceHeaders): string | undefined {
  const parent = parseTraceParent(traceparent)
  if (parent === undefined) return undefined
  const state = parseTraceState(tracestate)
  return state === '' ? parent : `${parent} ${state}`
}

/**
 * Reads a `tracestate` header. One that is longer than 512 characters loses entries, as the specification says: first the
 * longest, then the last.
 *
 * @returns an empty text if the header is not valid. The specification requires that such a header is ignored.
 */
export function parseTraceState(header: string): string {
  const entries = header
    .split(',')
    .map((entry) => entry.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter(Boolean)
  const keys = new Set(entries.map((entry) => ENTRY.exec(entry)?.[1]))
  const isValid = !keys.has(undefined) && keys.size === entries.length
  if (!isValid || entries.length > MAX_ENTRIES) return ''
  while (entries.join().length > MAX_LENGTH) {
    const long = entries.findLastIndex((entry) => entry.length > LONG_ENTRY)
    entries.splice(long, 1) // without a long entry this is -1, which is the last one
  }
  return entries.join()
}
