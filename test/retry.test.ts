import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { backoffMs, judge, retryAfterMs, type Verdict } from '../src/retry.js'

describe('judge', () => {
  const verdicts: [status: number, one: Verdict, several: Verdict][] = [
    [0, 'rejected', 'rejected'],
    [101, 'rejected', 'rejected'],
    [199, 'rejected', 'rejected'],
    [200, 'delivered', 'delivered'],
    [201, 'delivered', 'delivered'],
    [202, 'delivered', 'delivered'],
    [204, 'delivered', 'delivered'],
    [207, 'delivered', 'delivered'],
    [299, 'delivered', 'delivered'],
    [300, 'rejected', 'rejected'],
    [301, 'rejected', 'rejected'],
    [302, 'rejected', 'rejected'],
    [303, 'rejected', 'rejected'],
    [304, 'rejected', 'rejected'],
    [307, 'rejected', 'rejected'],
    [308, 'rejected', 'rejected'],
    [400, 'rejected', 'split'],
    [401, 'rejected', 'rejected'],
    [403, 'rejected', 'rejected'],
    [404, 'rejected', 'rejected'],
    [405, 'rejected', 'rejected'],
    [407, 'retry', 'retry'],
    [408, 'retry', 'retry'],
    [409, 'rejected', 'rejected'],
    [410, 'rejected', 'rejected'],
    [413, 'rejected', 'split'],
    [415, 'rejected', 'rejected'],
    [422, 'rejected', 'rejected'],
    [425, 'rejected', 'rejected'],
    [428, 'rejected', 'rejected'],
    [429, 'retry', 'retry'],
    [460, 'rejected', 'rejected'],
    [499, 'rejected', 'rejected'],
    [500, 'retry', 'retry'],
    [501, 'rejected', 'rejected'],
    [502, 'retry', 'retry'],
    [503, 'retry', 'retry'],
    [504, 'retry', 'retry'],
    [505, 'rejected', 'rejected'],
    [507, 'retry', 'retry'],
    [511, 'retry', 'retry'],
    [529, 'retry', 'retry'],
    [599, 'retry', 'retry'],
  ]
  test.each(verdicts)('%i is %s for one message, %s for several', (status, one, several) => {
    expect(judge(status, 1)).toBe(one)
    expect(judge(status, 2)).toBe(several)
    expect(judge(status, 2_500)).toBe(several)
  })
})

describe('backoffMs', () => {
  test.each([
    [1, 250, 500],
    [2, 500, 1_000],
    [3, 1_000, 2_000],
    [4, 2_000, 4_000],
    [5, 4_000, 8_000],
    [6, 8_000, 16_000],
    [7, 15_000, 30_000],
    [8, 15_000, 30_000],
    [100, 15_000, 30_000],
    [5_000, 15_000, 30_000],
  ])('after %i failures waits from %i to %i ms', (failures, least, most) => {
    expect(backoffMs(failures, 0)).toBe(least)
    expect(backoffMs(failures, 0.5)).toBe((least + most) / 2)
    expect(backoffMs(failures, 1)).toBe(most)
  })
})

describe('retryAfterMs', () => {
  const now = Date.parse('2026-01-02T03:04:05Z')
  test.each<[string | null, number]>([
    [null, 0],
    ['', 0],
    ['0', 0],
    ['1', 1_000],
    [' 7 ', 7_000],
    ['1.5', 1_500],
    ['120', 120_000],
    ['300', 300_000],
    ['301', 300_000],
    ['86400', 300_000],
    ['9'.repeat(400), 300_000],
    ['-5', 0],
    ['soon', 0],
    ['Infinity', 0],
    ['NaN', 0],
    ['1, 2', 0],
    ['Fri, 02 Jan 2026 03:04:35 GMT', 30_000],
    ['Friday, 02-Jan-26 03:04:35 GMT', 30_000],
    ['Fri, 02 Jan 2026 03:04:05 GMT', 0],
    ['Fri, 02 Jan 2026 03:04:04 GMT', 0],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['Fri, 02 Jan 2026 03:09:05 GMT', 300_000],
    ['Fri, 02 Jan 2026 03:09:06 GMT', 300_000],
    ['Sat, 02 Jan 2027 03:04:05 GMT', 300_000],
  ])('reads %j as %i ms', (header, delay) => {
    expect(retryAfterMs(header, now)).toBe(delay)
  })

  test.each(['UTC', 'America/New_York', 'Asia/Tokyo'])(
    'reads a date that names no zone as one of GMT in %s',
    (zone) => {
      vi.stubEnv('TZ', zone)
      onTestFinished(() => {
        vi.unstubAllEnvs()
      })
      expect(retryAfterMs('Fri Jan  2 03:04:35 2026', now)).toBe(30_000)
    },
  )
})
