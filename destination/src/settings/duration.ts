const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Reads "90m", "12h" or "7d".
 *
 * @returns The duration in ms; `undefined` if the value is not a duration.
 */
export function parseDuration(given: unknown): number | undefined {
  const match = typeof given === 'string' ? /^(\d{1,6})(m|h|d)$/.exec(given) : null
  if (!match) return undefined
  return Number(match[1]) * UNITS_MS[match[2] as keyof typeof UNITS_MS]
}

/** Formats a duration of whole minutes so that {@link parseDuration} can read it. */
export function formatDuration(ms: number): string {
  if (ms % UNITS_MS.d === 0) return `${ms / UNITS_MS.d}d`
  return ms % UNITS_MS.h === 0 ? `${ms / UNITS_MS.h}h` : `${ms / UNITS_MS.m}m`
}
