import type { Callback } from './types.js'

/** A message that waits for its outcome. */
export interface Entry {
  /** Counts the messages of its client that waited. */
  readonly sequence: number
  /** Holds the message's JSON from `start` to `end`, and a comma before it. Empty if it can't be read. */
  readonly slab: Uint8Array
  readonly start: number
  readonly end: number
  readonly callback: Callback | undefined
}

/** Messages that travel in one body. */
export interface Batch {
  /** The same in every attempt. */
  readonly id: string
  readonly entries: readonly Entry[]
  /** Size of the body, in bytes of JSON. */
  readonly bodyBytes: number
  /** When the first attempt started, on the clock of `performance.now()`. */
  readonly startedMs: number
  /** Requests made so far. */
  attempts: number
  /** How many of these were made because one had failed. */
  retries: number
}

const decoder = new TextDecoder()

/** Size of an entry's JSON. */
export function entryBytes(entry: Entry): number {
  return entry.end - entry.start
}

/** An entry's JSON as text. */
export function entryJson(entry: Entry): string {
  return decoder.decode(entry.slab.subarray(entry.start, entry.end))
}
