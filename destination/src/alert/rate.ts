/** The window is counted in this many steps. */
const STEPS = 12

/** Counts events of a sliding window, such as the dead letters of a destination in the last hour. */
export class Rate {
  readonly #stepMs: number
  readonly #counts = new Map<number, number>()

  /** @param withinMs - The length of the window, in ms. It is exact to a twelfth. */
  constructor(withinMs: number) {
    this.#stepMs = withinMs / STEPS
  }

  add(now: number, count = 1): void {
    this.#forget(now)
    const step = Math.floor(now / this.#stepMs)
    this.#counts.set(step, (this.#counts.get(step) ?? 0) + count)
  }

  /** How many events the window has. */
  count(now: number): number {
    this.#forget(now)
    let sum = 0
    for (const count of this.#counts.values()) sum += count
    return sum
  }

  #forget(now: number): void {
    const oldest = Math.floor(now / this.#stepMs) - STEPS
    for (const step of this.#counts.keys()) if (step <= oldest) this.#counts.delete(step)
  }
}
