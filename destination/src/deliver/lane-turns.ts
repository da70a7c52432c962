import type { Lane } from '../model/delivery.js'

/** Which lane gets the next request, in turn. */
const TURNS: readonly Lane[] = ['fresh', 'backlog', 'fresh', 'backlog', 'bulk']

/** The turns of the lanes where they keep no shares of the room. */
export class LaneTurns {
  #next = 0

  /** The lane whose turn it is, of those that have something: at least one must. */
  next(has: (lane: Lane) => boolean): Lane {
    for (;;) {
      const lane = TURNS[this.#next] ?? 'fresh'
      this.#next = (this.#next + 1) % TURNS.length
      if (has(lane)) return lane
    }
  }
}
