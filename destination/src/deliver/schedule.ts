/** The waits after the first attempts, in ms. Later waits are {@link LONG_DELAY_MS}. Source: contract "Attempts". */
export const DELAYS_MS: readonly number[] = [
  2_000, 5_000, 15_000, 45_000, 120_000, 300_000, 600_000,
]

/** The wait once {@link DELAYS_MS} are used up, in ms. */
export const LONG_DELAY_MS = 900_000

/**
 * Up to this share of a wait is added to it at random, so that messages that failed together are not retried together.
 */
const JITTER = 0.2

/** How long a message is retried after its first attempt, in ms. Source: spec "Limits", retry window. */
export const WINDOW_MS = 4 * 3_600_000

/** The attempts that a message gets even if its window ended while it waited behind other messages. */
export const MIN_ATTEMPTS = 3

/** An attempt this close to the end of the window, in ms, is the last one, because a timer may fire a little early. */
const EDGE_MS = 1_000

/** The attempts of a message so far, after a failed attempt that may be retried. */
export interface Standing {
  /** Attempts made in this window, from 1. */
  attempt: number
  /** Time since the first of them, in ms. */
  sinceFirstMs: number
  /** The wait that the endpoint asked for, in ms. It can delay an attempt, but not beyond the end of the window. */
  retryAfterMs: number
}

/**
 * The wait until the next attempt, in ms; `undefined` if there is no further attempt.
 *
 * The last attempt is made at the end of the window. An attempt may be later if the message waited behind others. Then
 * further attempts follow only up to {@link MIN_ATTEMPTS}.
 *
 * @param random - Returns a number from 0 up to 1, like `Math.random`.
 */
export function nextDelay(standing: Standing, random: () => number): number | undefined {
  const { attempt, sinceFirstMs, retryAfterMs } = standing
  const delayMs = (DELAYS_MS[attempt - 1] ?? LONG_DELAY_MS) * (1 + JITTER * random())
  const leftMs = WINDOW_MS - sinceFirstMs
  if (leftMs > EDGE_MS) return Math.min(Math.max(delayMs, retryAfterMs), leftMs)
  return attempt < MIN_ATTEMPTS ? delayMs : undefined
}

/** When an attempt is made, in ms since the first attempt, if the endpoint answers each one immediately. */
export interface PlannedAttempt {
  attempt: number
  earliestMs: number
  latestMs: number
}

/**
 * The attempts of a message that never arrives. The list has the attempts without jitter, which are the most possible.
 */
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
