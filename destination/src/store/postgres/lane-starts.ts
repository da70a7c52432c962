/** In ms: how long a start is used. Then the next claim searches the lane from its beginning. */
const KEPT_MS = 1_000

/**
 * In ms: how far a start lies before the oldest row that was found. A message that is stored while others claim has the time
 * at which its statement began, and becomes visible later.
 */
const MARGIN_MS = 1_000

/** Where there is no start: before any time. */
const BEGINNING = Number.MIN_SAFE_INTEGER

interface Start {
  dueAt: number
  /** By the process's own clock, which never goes back. */
  until: number
}

/**
 * Where the claims of a lane begin to search the index. The entries of claimed messages stay in front of a lane until the
 * server vacuums the table, which it does once a minute: each claim would step over all of them. So a lane that gave a claim
 * all that it asked for is searched from there on, for a second. What is due before that, such as a row that another session
 * had locked, is claimed after this second, or as soon as nothing else is found.
 */
export class LaneStarts {
  readonly #starts = new Map<string, Start>()

  /** When the oldest row that a claim of a lane looks at was due, in ms since the epoch. */
  of(lane: string): number {
    const start = this.#starts.get(lane)
    if (start && performance.now() < start.until) return start.dueAt
    this.#starts.delete(lane)
    return BEGINNING
  }

  /** A claim found all that it asked for. */
  noteFull(lane: string, oldestDueAt: number): void {
    const until = this.#starts.get(lane)?.until ?? performance.now() + KEPT_MS
    this.#starts.set(lane, { dueAt: oldestDueAt - MARGIN_MS, until })
  }

  /** A claim found less than it asked for. @returns whether there may be more before its start. */
  noteShort(lane: string): boolean {
    return this.#starts.delete(lane)
  }
}
