import { describe, expect, test } from 'vitest'
import { Pace } from '../../src/deliver/pace.js'

describe('a rate that a 429 has lowered', () => {
  /** An endpoint that answered 429 to everything until the time 0, and gets a message a minute since then. */
  function lowered(limit?: number) {
    const pace = new Pace(limit)
    pace.throttle(0, -1_000, 0)
    return pace
  }

  test('is not limited any more after it has worked for five minutes, however few messages came', () => {
    const pace = lowered()
    for (let minute = 1; minute <= 5; minute++) pace.succeed(minute * 60_000)
    expect(pace.rate).toBeLessThan(6)
    pace.succeed(300_001)
    expect(pace.rate).toBe(Infinity)
  })

  test('goes back to the limit of the settings', () => {
    const pace = lowered(50)
    pace.succeed(300_001)
    expect(pace.rate).toBe(50)
  })

  test('stays low while the endpoint answers 429 again and again', () => {
    const pace = lowered()
    for (let at = 10_000; at <= 900_000; at += 10_000) {
      pace.succeed(at)
      pace.throttle(0, at, at + 1)
    }
    expect(pace.rate).toBeLessThan(2)
  })

  test('stays as it is while nothing is sent', () => {
    const pace = lowered()
    expect([pace.room(400_000), pace.rate < 1]).toEqual([1, true])
  })
})

// The row of `rateLimit` in the README says so.
test.each([
  [0.1, 1],
  [3, 1],
  [4, 2],
  [9, 3],
  [12, 4],
  [19, 5],
  [20, 6],
  [100, 30],
])('an idle endpoint with %d requests per second gets %d at once', (limit, atOnce) => {
  expect(new Pace(limit).room(100_000)).toBe(atOnce)
})

describe('a limit that changes', () => {
  /** Starts all requests that may start. */
  function startAll(pace: Pace, now: number): number {
    const count = pace.room(now)
    for (let i = 0; i < count; i++) pace.start(now)
    return count
  }

  test('is no new burst', () => {
    const pace = new Pace(50)
    expect(startAll(pace, 0)).toBe(15)
    let count = 0
    for (let now = 10; now <= 1_000; now += 10) {
      pace.setLimit(now % 20 === 0 ? 50 : 51, now)
      count += startAll(pace, now)
    }
    expect(count).toBe(50)
  })

  test('begins without a burst where there was none', () => {
    const pace = new Pace()
    pace.start(0)
    pace.setLimit(50, 1_000)
    expect([pace.room(1_000), pace.room(1_100), pace.room(5_000)]).toEqual([0, 5, 15])
  })

  test('does not end a pause, and does not raise what a 429 has lowered', () => {
    const pace = new Pace(50)
    for (let i = 0; i < 8; i++) pace.succeed(500)
    pace.throttle(10_000, 500, 1_000)
    pace.setLimit(200, 2_000)
    expect([pace.rate, pace.pauseMs(2_000), pace.room(2_000)]).toEqual([6, 9_000, 0])
    pace.setLimit(4, 3_000)
    expect(pace.rate).toBe(4)
  })

  test('does not end what a 429 has taught, also if it was lower in between', () => {
    const pace = new Pace()
    for (let i = 0; i < 20; i++) pace.succeed(500)
    pace.throttle(0, 500, 1_000)
    expect(pace.rate).toBe(15)
    pace.setLimit(5, 2_000)
    for (let now = 2_000; now <= 60_000; now += 200) pace.succeed(now)
    expect(pace.rate).toBe(5)
    pace.setLimit(Infinity, 60_000)
    expect(pace.rate).toBe(15)
    pace.succeed(301_001)
    expect(pace.rate).toBe(Infinity)
  })

  test('is divided among the workers', () => {
    const pace = new Pace(50)
    pace.shareAmong(2)
    pace.setLimit(80, 0)
    expect(pace.rate).toBe(40)
  })
})
