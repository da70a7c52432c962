/** A part of the run in which all parts stayed as they were. */
export interface Stretch {
  readonly name:
    | 'warming up'
    | 'all is up'
    | 'crm answers 503'
    | "crm's port is closed"
    | 'destination is killed'
  /** When it began: ms since the epoch. */
  readonly fromMs: number
}

/** Something that began at a time (ms since the epoch) and took a while. */
export interface Timing {
  readonly atMs: number
  readonly tookMs: number
}

/** What took how long, by the stretch in which it began. */
export function splitByStretch(
  stretches: readonly Stretch[],
  timings: readonly Timing[],
): number[][] {
  const split = stretches.map((): number[] => [])
  for (const { atMs, tookMs } of timings) {
    const index = stretches.findLastIndex(({ fromMs }) => fromMs <= atMs)
    split[Math.max(0, index)]?.push(tookMs)
  }
  return split
}

/** The number that the given part of them does not exceed; NaN if there is none. */
export function percentile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? NaN
}
