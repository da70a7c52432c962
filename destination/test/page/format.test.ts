import { describe, expect, test } from 'vitest'
import { clockMinute, counted, percent, seconds, shortUrl, span } from '../../page/format.js'

describe('a length of time', () => {
  test.each([
    [0, '0 ms'],
    [850.4, '850 ms'],
    [1_000, '1 s'],
    [59_999, '59 s'],
    [60_000, '1 min'],
    [754_000, '12 min 34 s'],
    [11_520_000, '3 h 12 min'],
    [7_200_000, '2 h'],
    [90_000_000, '1 d 1 h'],
    [-5, '0 ms'],
  ])('of %d ms reads %j', (ms, words) => {
    expect(span(ms)).toBe(words)
  })

  test('that is counted down has whole seconds', () => {
    expect(seconds(20)).toBe('1 s')
  })
})

test.each([
  [1, '100 %'],
  [0.9997, '99.9 %'],
  [0.99999, '99.9 %'],
  [0.29, '29 %'],
  [0.0002, 'under 0.1 %'],
  [0, '0 %'],
])('a share of %d is neither all nor nothing unless it is: %j', (share, words) => {
  expect(percent(share)).toBe(words)
})

test('a count has its noun in the number that it needs', () => {
  expect([
    counted(1, 'call'),
    counted(1_204, 'call'),
    counted(2, 'delivery', 'deliveries'),
  ]).toEqual(['1 call', '1,204 calls', '2 deliveries'])
})

test('a time of another day has its day', () => {
  const noon = new Date(2026, 10, 21, 12, 3).getTime()
  expect(clockMinute(noon, noon + 60_000)).toBe('12:03')
  expect(clockMinute(noon, noon + 86_400_000)).toBe('21 Nov 12:03')
})

test('a URL goes without https, and keeps http', () => {
  expect(shortUrl('https://crm.example.com/')).toBe('crm.example.com')
  expect(shortUrl('http://crm.example.com/in')).toBe('http://crm.example.com/in')
})
