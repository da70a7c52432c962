/** The waits after the first attempts, in ms; after each later one it is {@link LONG_DELAY_MS}. Source: contract "Attempts". */
export const DELAYS_MS: readonly number[] = [
  2_000, 5_000, 15_000, 45_000, 120_000, 300_000, 600_000,
]

/** The wait once {@link DELAYS_MS} are used up, in ms. */
export const LONG_DELAY_MS = 900_000

/** Up to this share is added to each wait, so that messages that failed together do not come back together. */
const JITTER = 0.2

/** How long a message is tried, from its first attempt, in ms. Source: spec "Limits", retry window. */
export const WINDOW_MS = 4 * 3_600_000

/** Attempts that a message gets even if its window went by while it waited behind others. */
export const MIN_ATTEMPTS = 3

/** What is nearer to the end of the window than this, in ms, is at the end: a timer may be a little early. */
const EDGE_MS = 1_000

/** Where a message stands after an attempt that is to be tried again. */
export interface Standing {
  /** Attempts made in this window, from 1. */
  attempt: number
  /** Time since the first of them, in ms. */
  sinceFirstMs: number
  /** The least wait that the endpoint asked for, in ms. It can delay an attempt, never beyond the window's end. */
  retryAfterMs: number
}

/**
 * The wait until the next attempt, in ms; `undefined` if there is none.
 *
 * The last attempt is at the end of the window. One that comes later, since the message waited behind others, is
 * followed by more only up to {@link MIN_ATTEMPTS}.
 *
 * @param random - Gives a number from 0 up to 1.
 */
export function nextDelay(standing: Standing, random: () => number): number | undefined {
  const { attempt, sinceFirstMs, retryAfterMs } = standing
  const delayMs = (DELAYS_MS[attempt - 1] ?? LONG_DELAY_MS) * (1 + JITTER * random())
  const leftMs = WINDOW_MS - sinceFirstMs
  if (leftMs > EDGE_MS) return Math.min(Math.max(delayMs, retryAfterMs), leftMs)
  return attempt < MIN_ATTEMPTS ? delayMs : undefined
}

/** When an attempt is made, in ms since the first, if each is answered at once. */
export interface PlannedAttempt {
  attempt: number
  earliestMs: number
  latestMs: number
}

/** The attempts of a message that never arrives: without jitter there are more of them than with all of it. */
export function plannedAttempts(): PlannedAttempt[] {
  const earliest = plan(() => 0)
  const latest = plan(() => 1)
  return earliest.map((earliestMs, i) => ({
    attempt: i + 1,
    earliestMs,
    latestMs: latest[i] ?? WINDOW_MS,
  }))
}

function plan(random: () => number): number[] {
  const times = [0]
  for (let sinceFirstMs = 0; ;) {
    const delayMs = nextDelay({ attempt: times.length, sinceFirstMs, retryAfterMs: 0 }, random)
    if (delayMs === undefined) return times
    sinceFirstMs += delayMs
    times.push(sinceFirstMs)
  }
}
