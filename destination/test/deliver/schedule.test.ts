import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  DELAYS_MS,
  LONG_DELAY_MS,
  MIN_ATTEMPTS,
  WINDOW_MS,
  nextDelay,
  plannedAttempts,
} from '../../src/deliver/schedule.js'
import { MAX_RETRY_AFTER_MS } from '../../src/post/retry-after.js'
import { MOST_AHEAD_MS } from '../../src/store/postgres/states.js'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The times of all attempts, in ms since the first, on a simulated clock. Each attempt takes `attemptMs`. */
function timesOfAttempts(random: () => number, attemptMs = 0, retryAfterMs = 0): number[] {
  const times = [0]
  let now = 0
  for (;;) {
    now += attemptMs
    const delay = nextDelay({ attempt: times.length, sinceFirstMs: now, retryAfterMs }, random)
    if (delay === undefined) return times
    now += delay
    times.push(now)
  }
}

describe('the attempts of a message that never arrives', () => {
  test('without jitter they are at the times of the contract, the last at the end of the 4 hours', () => {
    const early = [0, 2, 7, 22, 67].map((seconds) => seconds * SECOND)
    const after = 67 * SECOND
    const minutes = [2, 7, 17].map((minute) => after + minute * MINUTE)
    const quarters = Array.from({ length: 14 }, (_, i) => after + (17 + 15 * (i + 1)) * MINUTE)
    expect(timesOfAttempts(() => 0)).toEqual([...early, ...minutes, ...quarters, 4 * HOUR])
  })

  test('with all of the jitter each wait is a fifth longer, and the last is still at the end', () => {
    const times = timesOfAttempts(() => 1)
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0))
    const planned = waits.slice(0, -1).map((_, i) => (DELAYS_MS[i] ?? LONG_DELAY_MS) * 1.2)
    expect(waits.slice(0, -1)).toEqual(planned)
    expect(times.at(-1)).toBe(WINDOW_MS)
    // PostgreSQL takes a later time for one of a clock that was ahead.
    expect(Math.max(...waits, MAX_RETRY_AFTER_MS)).toBeLessThan(MOST_AHEAD_MS)
  })

  test('attempts that take 5 s each move the later ones, and the last is at the end', () => {
    const times = timesOfAttempts(() => 0, 5 * SECOND)
    expect(times.slice(0, 4)).toEqual([0, 7, 17, 37].map((seconds) => seconds * SECOND))
    expect(times.at(-1)).toBe(WINDOW_MS)
  })

  test('none is earlier than the delay or than Retry-After, none is after the end', () => {
    const standings = fc.record({
      attempt: fc.integer({ min: 1, max: 30 }),
      sinceFirstMs: fc.integer({ min: 0, max: WINDOW_MS + HOUR }),
      retryAfterMs: fc.integer({ min: 0, max: 24 * HOUR }),
    })
    fc.assert(
      fc.property(standings, fc.double({ min: 0, max: 1, noNaN: true }), (standing, random) => {
        const delay = nextDelay(standing, () => random)
        if (delay === undefined) return
        const least = Math.max(
          DELAYS_MS[standing.attempt - 1] ?? LONG_DELAY_MS,
          standing.retryAfterMs,
        )
        const left = WINDOW_MS - standing.sinceFirstMs
        if (left > SECOND) expect(delay).toBeGreaterThanOrEqual(Math.min(least, left))
        if (left > SECOND) expect(delay).toBeLessThanOrEqual(left)
      }),
    )
  })

  test.each([
    { what: 'shorter than the delay changes nothing', retryAfterMs: 1_000, delay: 2_000 },
    { what: 'longer is kept', retryAfterMs: 90_000, delay: 90_000 },
    { what: 'beyond the end is cut to it', retryAfterMs: 5 * HOUR, delay: WINDOW_MS },
  ])('a Retry-After that is $what', ({ retryAfterMs, delay }) => {
    expect(nextDelay({ attempt: 1, sinceFirstMs: 0, retryAfterMs }, () => 0)).toBe(delay)
  })
})

describe('a message that waited behind others until the 4 hours were over', () => {
  test.each([1, 2])('is tried again after attempt %i', (attempt) => {
    const standing = { attempt, sinceFirstMs: 6 * HOUR, retryAfterMs: 0 }
    expect(nextDelay(standing, () => 0)).toBe(DELAYS_MS[attempt - 1])
  })

  test('is given up after the attempts that every message gets', () => {
    const standing = { attempt: MIN_ATTEMPTS, sinceFirstMs: 6 * HOUR, retryAfterMs: 0 }
    expect(nextDelay(standing, () => 0)).toBeUndefined()
  })
})

test('an attempt that comes a little before the end, as timers do, is the last one', () => {
  const standing = { attempt: 22, sinceFirstMs: WINDOW_MS - 3, retryAfterMs: 0 }
  expect(nextDelay(standing, () => 0)).toBeUndefined()
})

test('the plan has the earliest and the latest time of each attempt', () => {
  const plan = plannedAttempts()
  expect(plan).toHaveLength(23)
  expect(plan[0]).toEqual({ attempt: 1, earliestMs: 0, latestMs: 0 })
  expect(plan[1]).toEqual({ attempt: 2, earliestMs: 2_000, latestMs: 2_400 })
  expect(plan.at(-1)).toEqual({ attempt: 23, earliestMs: WINDOW_MS, latestMs: WINDOW_MS })
  for (const { earliestMs, latestMs } of plan) expect(latestMs).toBeGreaterThanOrEqual(earliestMs)
})
