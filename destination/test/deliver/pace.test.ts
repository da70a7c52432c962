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
    expect(pace.rate).toBeLessThan(2)
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
