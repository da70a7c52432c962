import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { QuotaLines } from '../../src/observe/quota-lines.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('the log says when a quota begins to refuse, and when it has refused nothing for a minute', () => {
  const lines: unknown[] = []
  const note = (fields: object, message: string) => lines.push([message, fields])
  const quotas = new QuotaLines({ warn: note, info: note })
  const begins = 'a quota of this tenant refuses calls'
  const ends = 'the quota of this tenant refuses no more calls'
  for (let second = 0; second < 100; second++) {
    quotas.quotaRefused('acme', 'waiting')
    vi.advanceTimersByTime(1_000)
  }
  quotas.quotaRefused('acme', 'callsPerSecond')
  quotas.quotaRefused('other', 'waiting')
  expect(lines).toEqual([
    [begins, { tenant: 'acme', quota: 'waiting' }],
    [begins, { tenant: 'acme', quota: 'callsPerSecond' }],
    [begins, { tenant: 'other', quota: 'waiting' }],
  ])
  vi.advanceTimersByTime(58_999)
  expect(lines).toHaveLength(3)
  vi.advanceTimersByTime(1_001)
  expect(lines.slice(3)).toEqual([
    [ends, { tenant: 'acme', quota: 'waiting', requests: 100 }],
    [ends, { tenant: 'acme', quota: 'callsPerSecond', requests: 1 }],
    [ends, { tenant: 'other', quota: 'waiting', requests: 1 }],
  ])
  quotas.quotaRefused('acme', 'waiting')
  expect(lines).toHaveLength(7)
})
