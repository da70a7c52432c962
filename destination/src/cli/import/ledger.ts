import type { Place } from './row.js'

/** A line whose call is under way. */
export interface Entry {
  readonly line: number
  readonly end: number
  readonly bytes: number
  isDone: boolean
  /** Why the line was refused. */
  problem?: string
}

/** A line that was refused, and the reason. */
export interface RefusedLine {
  line: number
  problem: string
}

/** The most refused lines that are remembered with their reasons, so that the progress file stays small. */
export const MAX_REMEMBERED = 100

/**
 * Keeps the place from which the next import continues. Calls end in any order, so the place is after the last line
 * before which all lines have ended.
 */
export class Ledger {
  #entries: Entry[] = []
  #head = 0
  #place: Place
  #bytes = 0
  #bad = 0
  readonly #refused: RefusedLine[] = []

  constructor(from: Place) {
    this.#place = from
  }

  /** The place before which all lines have ended. */
  get place(): Place {
    return this.#place
  }

  /** The number of refused lines before the place. */
  get bad(): number {
    return this.#bad
  }

  /** The first refused lines before the place: at most {@link MAX_REMEMBERED}. */
  get refused(): readonly RefusedLine[] {
    return this.#refused
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

  /** @param problem - Why the line was refused, if it was. */
  end(entry: Entry, problem?: string): void {
    entry.isDone = true
    if (problem !== undefined) entry.problem = problem
    this.#bytes -= entry.bytes
    for (let first; (first = this.#entries[this.#head])?.isDone; this.#head++) {
      this.#place = { line: first.line, offset: first.end }
      this.#remember(first)
    }
    if (this.#head < 1_000) return
    this.#entries = this.#entries.slice(this.#head)
    this.#head = 0
  }

  #remember({ line, problem }: Entry): void {
    if (problem === undefined) return
    this.#bad++
    if (this.#refused.length < MAX_REMEMBERED) this.#refused.push({ line, problem })
  }
}
