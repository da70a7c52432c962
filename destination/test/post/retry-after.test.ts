import { expect, test } from 'vitest'
import { retryAfterMs } from '../../src/post/retry-after.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')

test.each([
  ['120', 120_000],
  ['1.5', 1_500],
  ['300', 300_000],
  ['301', 300_000],
  ['99999999999999999999999', 300_000],
  ['Sat, 21 Nov 2026 12:00:30 GMT', 30_000],
  ['Saturday, 21-Nov-26 12:00:30 GMT', 30_000],
  ['Sat Nov 21 12:00:30 2026', 30_000],
  ['Sun, 22 Nov 2026 12:00:00 GMT', 300_000],
])('%j asks for a wait of %i ms', (header, ms) => {
  expect(retryAfterMs(header, NOW)).toBe(ms)
})

test.each([
  undefined,
  '',
  '0',
  '-5',
  '+5',
  '1e3',
  '0x10',
  'Infinity',
  'soon',
  '5, 10',
  '2026-11-21T13:00:00Z',
  'Sat, 21 Nov 2026 11:59:59 GMT',
  'Sat, 99 Nov 2026 12:00:00 GMT',
])('%j asks for none', (header) => {
  expect(retryAfterMs(header, NOW)).toBeUndefined()
})

test('a date is compared with the date of the answer, so that the clock of this machine does not matter', () => {
  const inHalfAMinute = 'Sat, 21 Nov 2026 12:00:30 GMT'
  const answeredAt = 'Sat, 21 Nov 2026 12:00:00 GMT'
  for (const offMs of [-3_600_000, 3_600_000]) {
    expect(retryAfterMs(inHalfAMinute, NOW + offMs, answeredAt)).toBe(30_000)
  }
  expect(retryAfterMs(inHalfAMinute, NOW, 'yesterday')).toBe(30_000)
  expect(retryAfterMs('120', NOW + 3_600_000, answeredAt)).toBe(120_000)
})
