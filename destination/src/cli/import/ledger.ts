import type { Place } from './row.js'

/** A line that is on its way. */
export interface Entry {
  readonly line: number
  readonly end: number
  readonly bytes: number
  isDone: boolean
}

/** Lines end in any order. An import that is cut off goes on after the last one before which all have ended. */
export class Ledger {
  #entries: Entry[] = []
  #head = 0
  #place: Place
  #bytes = 0

  constructor(from: Place) {
    this.#place = from
  }

  /** All lines before it have ended. */
  get place(): Place {
    return this.#place
  }

  /** Bytes of the lines on their way. */
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
