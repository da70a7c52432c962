/**
 * The parts of the index by user that one call searches. Both databases cut this index into parts of 4,096 deliveries
 * each.
 */
const CUTS = 64

/** The most deliveries that one call deletes, so that other work waits only for a short time. */
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
 * The parts that a call searches.
 *
 * @param from - 0 in the first call, then the number of a part plus 1.
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
