import { expect, test } from 'vitest'
import { percentile, splitByStretch, type Stretch } from '../../demo/stretches.js'

test('a timing belongs to the stretch in which it began, though it ended later', () => {
  const stretches: Stretch[] = [
    { name: 'all is up', fromMs: 100 },
    { name: 'destination is killed', fromMs: 200 },
    { name: 'all is up', fromMs: 300 },
  ]
  const timings = [
    { atMs: 99, tookMs: 1 },
    { atMs: 199, tookMs: 500 },
    { atMs: 200, tookMs: 2 },
    { atMs: 900, tookMs: 3 },
  ]
  expect(splitByStretch(stretches, timings)).toEqual([[1, 500], [2], [3]])
})

test.each([
  [[5, 1, 3], 0.5, 3],
  [[4, 1, 3, 2], 0.5, 2],
  [[1, 2, 3], 0.99, 3],
  [[7], 0, 7],
  [[], 0.5, NaN],
])('percentile of %j at %f is %f', (numbers, part, expected) => {
  expect(percentile(numbers, part)).toBe(expected)
})
