/** Both databases cut their index by user into parts of 4,096 deliveries. So many parts are searched at once. */
const CUTS = 64

/** At most so many deliveries are deleted at once. */
export const PURGE_LIMIT = 1_000

/** The first and the last part of the index; `null` if there are no deliveries. */
export interface Bounds {
  first: number | null
  last: number | null
}

/** The parts of the index that one call of a purge searches. */
interface PurgePage {
  start: number
  end: number
  /** `from` of the next call; `undefined` at the end. */
  next: number | undefined
}

/**
 * The parts that a call searches. `from` is 0 at first, then the number of a part plus 1.
 *
 * @returns `undefined` if there are no deliveries.
 */
export function purgePage(from: number, { first, last }: Bounds): PurgePage | undefined {
  if (first === null || last === null) return undefined
  const start = Math.max(first, from - 1)
  const end = Math.min(last, start + CUTS - 1)
  return { start, end, next: end < last ? fromOf(end + 1) : undefined }
}

/** The `from` with which a call starts at a part. */
export function fromOf(cut: number): number {
  return cut + 1
}
