/**
 * The two clocks of a process. Both are in ms since the epoch.
 *
 * The system's clock may jump: somebody sets it, or the machine learns the time after it has started. A jump must not
 * pause retries, end a window early or hide an age. So all waiting is measured on a clock that never jumps.
 */
export interface Clock {
  /** Only goes forward, at an even pace. It is the system's clock as it was at the start, plus the time since then. */
  now: () => number
  /** The system's clock. People and endpoints are told these times. */
  wall: () => number
}

/** A time of {@link Clock.now}, in the past or in the future, as people are shown it. */
export function shownTime({ now, wall }: Clock, time: number): number {
  return time - aheadOf(wall(), now())
}

/** The clocks of this process. */
export function systemClock(): Clock {
  const startedAt = Date.now() - performance.now()
  return { now: () => startedAt + performance.now(), wall: Date.now }
}

/** In ms: by less than this, a time is shown as it was measured. Two readings of one time are then equal. */
const STEP_MS = 1_000

/**
 * How far a clock is ahead of the system's, in ms: what to subtract from its times before people see them.
 *
 * @param time - The time on that clock.
 * @param wall - The system's clock at that time.
 */
export function aheadOf(wall: number, time: number): number {
  return Math.round((time - wall) / STEP_MS) * STEP_MS
}
