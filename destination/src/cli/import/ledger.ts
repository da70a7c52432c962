import type { Place } from './row.js'

/** A line whose call is under way. */
export interface Entry {
  readonly line: number
  readonly end: number
  readonly bytes: number
  isDone: boolean
}

/**
 * Keeps the place from which the next import continues. Calls end in any order, so the place is after the last line
 * before which all lines have ended.
 */
export class Ledger {
  #entries: Entry[] = []
  #head = 0
  #place: Place
  #bytes = 0

  constructor(from: Place) {
    this.#place = from
  }

  /** The place before which all lines have ended. */
  get place(): Place {
    return this.#place
  }

  /** The bytes of the lines that are under way. */
  get bytes(): number {
    return this.#bytes
  }

  add(line: number, end: number, bytes: number): Entry {
    const entry = { line, end, bytes, isDone: false }
    this.#entries.push(entry)
    this.#bytes += bytes
    return entry
  }

  end(entry: Entry): void {
    entry.isDone = true
    this.#bytes -= entry.bytes
    for (let first; (first = this.#entries[this.#head])?.isDone; this.#head++) {
      this.#place = { line: first.line, offset: first.end }
    }
    if (this.#head < 1_000) return
    this.#entries = this.#entries.slice(this.#head)
    this.#head = 0
  }
}
