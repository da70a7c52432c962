/** A part of the run during which no process changes its state. */
export interface Stretch {
  readonly name:
    | 'warming up'
    | 'all is up'
    | 'crm answers 503'
    | "crm's port is closed"
    | 'destination is killed'
  /** Its start, in ms since the epoch. */
  readonly fromMs: number
}

/** The start (ms since the epoch) and the duration of something. */
export interface Timing {
  readonly atMs: number
  readonly tookMs: number
}

/** The durations, grouped by the stretch in which they started. */
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

/** A percentile of the numbers: 0.99 gives the 99th. NaN if there are no numbers. */
export function percentile(numbers: readonly number[], part: number): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] ?? NaN
}
