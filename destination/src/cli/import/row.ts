/** One line of a file to import: its fields, or its problem. */
export interface Row {
  /** The number of the line, from 1. For a record of several lines it is the last of them: the id of the message depends on it. */
  line: number
  /** The line in which a record of several lines begins. People are told this one. */
  firstLine?: number
  /** The bytes of the file up to the end of the line: reading continues there. */
  end: number
  /** The line as it is in the file. Earlier versions derived the id of the message from it. */
  text: string
  fields?: Readonly<Record<string, unknown>>
  /** The fields with the marks of {@link markChanges}; `undefined` if no number of the line changes. */
  marked?: unknown
  problem?: string
}

/** A place in a file from which reading continues. */
export interface Place {
  /** The number of lines before the place. */
  line: number
  /** The number of bytes before the place. */
  offset: number
}

/** The longest line that is read, in bytes. A call has at most 32 KB, so a longer line is not a call. */
export const MAX_LINE_BYTES = 1024 * 1024

/** The problem of a line whose letters cannot be read. */
export const NOT_UTF8 = 'it is not in UTF-8. Save the file as UTF-8'

/** The problem of a line that is longer than {@link MAX_LINE_BYTES}. */
export function tooLong(what: 'line' | 'record', bytes: number): string {
  return `the ${what} has ${bytes} bytes, but a call has at most ${MAX_LINE_BYTES}`
}
