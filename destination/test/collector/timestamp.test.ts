import { describe, expect, test } from 'vitest'
import { isForwardable, parseTime, skewMsOf, toForwardable } from '../../src/collector/timestamp.js'

const iso = (given: unknown) => {
  const ms = parseTime(given)
  return ms === undefined ? undefined : new Date(ms).toISOString()
}

test.each([
  ['2026-01-02T03:04:05.678Z', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02t03:04:05.678z', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
  ['2026-01-02T03:04Z', '2026-01-02T03:04:00.000Z'],
  ['2026-01-02T03:04:05.6Z', '2026-01-02T03:04:05.600Z'],
  ['2026-01-02T03:04:05,678Z', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02T03:04:05.678999Z', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02T03:04:05.678999123+00:00', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02T03:04:05+05:30', '2026-01-01T21:34:05.000Z'],
  ['2026-01-02T03:04:05-0800', '2026-01-02T11:04:05.000Z'],
  ['2026-01-02T03:04:05+01', '2026-01-02T02:04:05.000Z'],
  ['2026-01-02 03:04:05', '2026-01-02T03:04:05.000Z'],
  ['2026-01-02 03:04:05 +0100', '2026-01-02T02:04:05.000Z'],
  ['2026-01-02T03:04:05.678', '2026-01-02T03:04:05.678Z'],
  ['2026-01-02', '2026-01-02T00:00:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  [1_767_323_045_678, '2026-01-02T03:04:05.678Z'],
  [1_767_323_045_678.9, '2026-01-02T03:04:05.678Z'],
])('%j is %s', (given, expected) => {
  expect(iso(given)).toBe(expected)
})

test.each([
  '2026-02-29',
  '2026-02-30T03:04:05.678Z',
  '2026-13-01',
  '2026-00-01',
  '2026-01-00',
  '2026-01-02T25:00:00Z',
  '2026-01-02T03:60:00Z',
  '2026-01-02T03:04:61Z',
  '2026-01-02T03:04:05+24:00',
  '2026-01-02T03',
  '2026-1-2',
  '+012026-01-02T03:04:05Z',
  '0000-01-01T00:00:00+01:00',
  '9999-12-31T23:59:59-01:00',
  'Fri, 02 Jan 2026 03:04:05 GMT',
  'yesterday',
  '1767323045678',
  '',
  1_767_323_045, // seconds
  0,
  -1,
  1e18,
  NaN,
  Infinity,
  true,
  {},
  [],
])('%j is no time', (given) => {
  expect(parseTime(given)).toBeUndefined()
})

test.each(['2026-01-02T03:04:05.678Z', '0000-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z'])(
  '%s is forwarded as it is',
  (given) => {
    expect(isForwardable(given)).toBe(true)
  },
)

test.each([
  '2026-01-02T03:04:05Z',
  '2026-02-30T03:04:05.678Z',
  '2026-01-02t03:04:05.678z',
  'x'.repeat(24),
  5,
])('%j is not forwarded as it is', (given) => {
  expect(isForwardable(given)).toBe(false)
})

describe('the clock of a client', () => {
  const receivedAt = Date.parse('2026-01-02T12:00:00.000Z')

  test.each<[unknown, number]>([
    ['2026-01-02T12:00:00.000Z', 0],
    ['2026-01-02T11:59:00.000Z', 0],
    ['2026-01-02T12:01:00.000Z', 0],
    ['2026-01-02T11:58:59.999Z', 60_001],
    ['2026-01-02T12:01:00.001Z', -60_001],
    ['2026-01-02T14:00:00+01:00', -3_600_000],
    [receivedAt - 3_600_000, 3_600_000],
    ['soon', 0],
    [undefined, 0],
    [null, 0],
  ])('that says %j at noon is behind by %j ms', (sentAt, expected) => {
    expect(skewMsOf(sentAt, receivedAt)).toBe(expected)
  })

  test('never moves a call out of the years that can be told', () => {
    expect(toForwardable(Date.parse('9999-12-31T23:59:59.999Z'), 3_600_000)).toBe(
      '9999-12-31T23:59:59.999Z',
    )
    expect(toForwardable(Date.parse('0000-01-01T00:00:00.000Z'), -1)).toBe(
      '0000-01-01T00:00:00.000Z',
    )
  })
})
