import type { Place } from './row.js'

/** A line whose call has no outcome yet. */
export interface Entry {
  readonly line: number
  /** The place before the line. */
  readonly before: Place
}

/** A line that was refused or whose call was lost, and the reason. */
export interface RefusedLine {
  line: number
  problem: string
}

/**
 * Keeps the place from which the next import continues. Calls end in any order, so the place is before the first line
 * whose call has no outcome. A call that was lost never gets one, so that the next import sends it again.
 */
export class Ledger {
  /** A set keeps the order in which entries were added, so the first one is the first line. */
  readonly #open = new Set<Entry>()
  #last: Place
  #refused: RefusedLine[] = []

  constructor(from: Place) {
    this.#last = from
  }

  /** The place before which all lines have ended. */
  get place(): Place {
    const [first] = this.#open
    return first?.before ?? this.#last
  }

  /** The number of lines whose calls have no outcome. */
  get open(): number {
    return this.#open.size
  }

  /** @param after - The place after the line. */
  add(line: number, after: Place): Entry {
    const entry = { line, before: this.#last }
    this.#open.add(entry)
    this.#last = after
    return entry
  }

  /** @param problem - Why the line was refused, if it was. */
  end(entry: Entry, problem?: string): void {
    this.#open.delete(entry)
    if (problem !== undefined) this.#refused.push({ line: entry.line, problem })
  }

  /** The call of a line was lost: the place stays before the line. */
  lose({ line }: Entry, problem: string): void {
    this.#refused.push({ line, problem })
  }

  /** Takes the refused lines before the place, in the order of the file. Each line is taken once. */
  takeRefused(): RefusedLine[] {
    const { line } = this.place
    const taken = this.#refused.filter((refused) => refused.line <= line)
    if (taken.length > 0) this.#refused = this.#refused.filter((refused) => refused.line > line)
    return taken.sort(byLine)
  }

  /** Takes the refused lines and the lost lines that are left, in the order of the file. */
  takeRest(): RefusedLine[] {
    const rest = this.#refused
    this.#refused = []
    return rest.sort(byLine)
  }
}

function byLine(a: RefusedLine, b: RefusedLine): number {
  return a.line - b.line
}
