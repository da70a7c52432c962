/** One line of a file to import: what it says, or what is wrong with it. */
export interface Row {
  /** Counts from 1. That of the end, for a record of several lines. */
  line: number
  /** Bytes of the file up to its end: where reading goes on after it. */
  end: number
  /** The line as it is there, for its id and for who has to fix it. */
  text: string
  fields?: Readonly<Record<string, unknown>>
  problem?: string
}

/** Where reading goes on. */
export interface Place {
  /** Lines before it. */
  line: number
  /** Bytes before it. */
  offset: number
}

/** A longer line is no call: those have 32 KB at most. In bytes. */
export const MAX_LINE_BYTES = 1024 * 1024
