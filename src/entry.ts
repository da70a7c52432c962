import { decoder } from './runtime.js'
import type { Callback } from './types.js'

/** A message that has no outcome yet. */
export interface Entry {
  /** Counts the messages that this client has queued. */
  readonly sequence: number
  /** Holds the message's JSON from `start` to `end`, and a comma before it. Empty if the JSON cannot be read. */
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
  /** When the first attempt started, on the clock of `nowMs()`. */
  readonly startedMs: number
  /** Requests made so far. */
  attempts: number
  /** How many of these were made because one had failed. */
  retries: number
  /** How the last attempts failed, if the endpoint itself made them fail: `'500'`, `'timeout'`. */
  failure: string | undefined
  /** How many attempts in a row failed. One that failed in another way than the one before counts half. */
  strikes: number
  /** How many answers broke off before they began a list of refused messages; -Infinity if one to this message alone began one. */
  cuts: number
  /** The search that this batch is a piece of. */
  search: Search
}

/** The search for the message at fault in a batch that the endpoint does not take. Its pieces share the object. */
export interface Search {
  /** How many messages the next piece of the batch may have. */
  pieceMessages: number
  /** The status with which the server refused the batch as a whole, if it did. */
  readonly refusal?: 400 | 413
  /** The last message of the batch, tried alone before the rest of the batch is given up. */
  sample?: Batch
}

/** Size of an entry's JSON in bytes. */
export function entryBytes(entry: Entry): number {
  return entry.end - entry.start
}

/** An entry's JSON as text. */
export function entryJson(entry: Entry): string {
  return decoder.decode(entry.slab.subarray(entry.start, entry.end))
}
