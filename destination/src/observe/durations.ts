/** Bins for each doubling of a duration. With 4, a reported duration is wrong by a tenth at most. */
const PER_DOUBLING = 4

/** The bins reach 2^16 ms, far beyond the deadline of an attempt. */
const BINS = 16 * PER_DOUBLING

/** Counts durations in bins. The width of a bin grows with the duration, so that a few numbers cover the whole range. */
export class DurationBins {
  readonly #counts = new Uint32Array(BINS)
  /** No duration was longer, as far as it is known: a list has only counts. */
  #maxMs = 0

  add(ms: number): void {
    this.#maxMs = Math.max(this.#maxMs, ms)
    const bin = ms <= 1 ? 0 : Math.min(BINS - 1, Math.floor(Math.log2(ms) * PER_DOUBLING))
    this.#counts[bin] = (this.#counts[bin] ?? 0) + 1
  }

  clear(): void {
    this.#counts.fill(0)
    this.#maxMs = 0
  }

  /** The counts, without those at the end that are 0. */
  toList(): number[] {
    const last = this.#counts.findLastIndex((count) => count > 0)
    return Array.from(this.#counts.subarray(0, last + 1))
  }

  /** Adds the counts of a list that {@link toList} made. */
  addList(list: readonly number[]): void {
    if (list.length > 0) this.#maxMs = Infinity
    for (let bin = 0; bin < Math.min(BINS, list.length); bin++) {
      this.#counts[bin] = (this.#counts[bin] ?? 0) + (list[bin] ?? 0)
    }
  }

  /** Adds the counts of other bins. */
  merge(other: DurationBins): void {
    this.#maxMs = Math.max(this.#maxMs, other.#maxMs)
    for (let bin = 0; bin < BINS; bin++) {
      this.#counts[bin] = (this.#counts[bin] ?? 0) + (other.#counts[bin] ?? 0)
    }
  }

  /**
   * The duration that a share of all durations does not exceed, in ms; `null` if there are no durations.
   *
   * @param share - From 0 to 1.
   */
  quantile(share: number): number | null {
    let left = 0
    for (const count of this.#counts) left += count
    if (left === 0) return null
    left *= share
    const bin = this.#counts.findIndex((count) => (left -= count) <= 0)
    // The middle of a bin may be longer than all that it counts.
    return bin === 0 ? 1 : Math.round(Math.min(this.#maxMs, 2 ** ((bin + 0.5) / PER_DOUBLING)))
  }
}
