import { syncBuiltinESMExports } from 'node:module'
import type { TimerOptions } from 'node:timers'
import timers from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { nextSlice, startRetention } from '../../src/operate/retention.js'
import type { OnExpired } from '../../src/store/store.js'

const quiet = { sweepFailed: () => undefined, expired: () => undefined }

/** Replaces the waits of the retention for the length of a test. */
function replaceWait(
  act: (ms?: number, value?: unknown, options?: TimerOptions) => Promise<unknown>,
): void {
  const waiting = vi.spyOn(timers, 'setTimeout').mockImplementation(act)
  syncBuiltinESMExports()
  onTestFinished(() => {
    waiting.mockRestore()
    syncBuiltinESMExports()
  })
}

describe('a slice of a sweep', () => {
  /** The limits that follow each other if one delivery takes `msEach`. */
  const limits = (msEach: number, first: number, isAside: boolean): number[] => {
    const all = [first]
    for (let n = 0; n < 20; n++) {
      const limit = all.at(-1) ?? first
      all.push(nextSlice(limit, limit * msEach, 0, isAside).limit)
    }
    return all
  }

  test.each([
    ['on a fast disk', 0.001, false, 1_000],
    ['on a slow disk', 0.04, false, 100],
    ['on a disk that hardly moves', 1, false, 50],
    ['in a store that sweeps aside', 0.05, true, 1_000],
    ['in a slow store that sweeps aside', 1, true, 200],
  ])('becomes as long as it may be %s', (_store, msEach, isAside, most) => {
    for (const first of [50, 1_000]) {
      const last = limits(msEach, first, isAside).at(-1) ?? 0
      expect(last).toBeGreaterThanOrEqual(Math.max(50, most / 2))
      expect(last).toBeLessThanOrEqual(most)
    }
  })

  test('is followed by a pause of eight times its length, and of four times in a long sweep', () => {
    expect(nextSlice(100, 3, 0, false).pauseMs).toBe(24)
    expect(nextSlice(100, 250, 599_999, false).pauseMs).toBe(2_000)
    expect(nextSlice(100, 250, 600_000, false).pauseMs).toBe(1_000)
  })

  test('is followed by a pause of twice its length in a store that sweeps aside, and of its length in a long sweep', () => {
    expect(nextSlice(1_000, 60, 599_999, true).pauseMs).toBe(120)
    expect(nextSlice(1_000, 60, 600_000, true).pauseMs).toBe(60)
  })
})

test.each([
  ['large ones where other calls go on meanwhile', { sweepsAside: true } as const, 1_000],
  ['small ones where other calls wait for each of them', {}, 50],
])('a sweep of slices that take 40 ms makes %s', async (_, given, most) => {
  let nowMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  onTestFinished(() => {
    clock.mockRestore()
  })
  replaceWait((_ms, value) => new Promise((resolve) => setImmediate(resolve, value)))
  const slices: number[] = []
  const store = {
    ...given,
    sweep: (_olderThanMs: number, limit: number) => {
      slices.push(limit)
      nowMs += 40
      return Promise.resolve(limit)
    },
    forgetRecords: () => Promise.resolve(0),
  }
  const retention = startRetention(store, () => 1, quiet)
  await vi.waitUntil(() => slices.length > 10, 60_000)
  await retention.stop()
  expect(Math.max(...slices)).toBe(most)
})

test('a sweep goes on until less is left than it may delete, whatever the slices', async () => {
  let left = 5_000
  let calls = 0
  const forgotten: number[] = []
  const store = {
    sweep: (_olderThanMs: number, limit: number) => {
      const changed = Math.min(left, limit)
      left -= changed
      calls++
      return Promise.resolve(changed)
    },
    forgetRecords: (olderThanMs: number) => {
      forgotten.push(olderThanMs)
      return Promise.resolve(0)
    },
  }
  const retention = startRetention(store, () => 1, quiet)
  await expect.poll(() => left).toBe(0)
  await retention.stop()
  expect(calls).toBeLessThan(100)
  // The audit log is kept for 90 days, whatever the retention is. It is looked at once for each sweep, not for each slice.
  expect(forgotten).toEqual([90 * 86_400_000])
})

test.each([
  ['at once after a pause that was late by a minute', 60_000, 2],
  [
    'a minute after one that was later: what was answered before the process stood still comes first',
    60_001,
    1,
  ],
])('the store is swept %s', async (_, lateMs, sweeps) => {
  const { setTimeout: wait } = timers
  const waits: unknown[] = []
  let nowMs = 0
  const now = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  onTestFinished(() => {
    now.mockRestore()
  })
  replaceWait((ms, value, options) => {
    waits.push(ms)
    if (waits.length > 1) return wait(ms, value, options)
    nowMs += (ms ?? 0) + lateMs
    return Promise.resolve(value)
  })
  const sweep = vi.fn(() => Promise.resolve(0))
  const store = { sweep, forgetRecords: () => Promise.resolve(0) }
  const retention = startRetention(store, () => 1, quiet)
  await vi.waitUntil(() => waits.length === 2, 60_000)
  await retention.stop()
  expect([sweep.mock.calls.length, waits]).toEqual([sweeps, [60_000, 60_000]])
})

test('the store is swept once a minute', async () => {
  const { setTimeout: wait } = timers
  const waits: unknown[] = []
  replaceWait((ms, value, options) => {
    waits.push(ms)
    return waits.length < 3 ? Promise.resolve(value) : wait(ms, value, options)
  })
  const sweep = vi.fn(() => Promise.resolve(0))
  const store = { sweep, forgetRecords: () => Promise.resolve(0) }
  const retention = startRetention(store, () => 1, quiet)
  await vi.waitUntil(() => waits.length === 3, 60_000)
  await retention.stop()
  expect(sweep).toHaveBeenCalledTimes(3)
  expect(waits).toEqual([60_000, 60_000, 60_000])
})

test('what expires in a sweep of several slices is told once, however long the sweep before is ago', async () => {
  let now = performance.now()
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  onTestFinished(() => {
    clock.mockRestore()
  })
  replaceWait((ms, value) => {
    now += ms ?? 0
    return new Promise((resolve) => setImmediate(resolve, value))
  })
  const told: unknown[] = []
  let slice = 0
  const store = {
    sweep: (_olderThanMs: number, limit: number, expired?: OnExpired) => {
      slice++
      if (slice === 2 || slice === 3) expired?.('crm', 50)
      return Promise.resolve(slice === 2 ? limit : 0)
    },
    forgetRecords: () => Promise.resolve(0),
  }
  const retention = startRetention(store, () => 1, {
    ...quiet,
    expired: (...one) => told.push(one),
  })
  await vi.waitUntil(() => slice > 3, 60_000)
  await retention.stop()
  expect(told).toEqual([['crm', 100]])
})

test('what expires is told once for each destination and sweep, also if the sweep fails in the end', async () => {
  const slices: [string, number][] = [
    ['crm', 50],
    ['ads', 50],
    ['crm', 50],
  ]
  const told: unknown[] = []
  const store = {
    sweep: (_olderThanMs: number, limit: number, expired?: OnExpired) => {
      const slice = slices.shift()
      if (!slice) return Promise.reject(new Error('away'))
      expired?.(...slice)
      return Promise.resolve(limit)
    },
    forgetRecords: () => Promise.resolve(0),
  }
  const retention = startRetention(store, () => 1, {
    expired: (...one) => told.push(one),
    sweepFailed: () => told.push('failed'),
  })
  await expect.poll(() => told.length).toBe(3)
  await retention.stop()
  expect(told).toEqual([['crm', 100], ['ads', 50], 'failed'])
})
