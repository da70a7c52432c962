import { expect, test } from 'vitest'
import { eachInSlices, sortInSlices } from '../../src/model/slices.js'
import { dice } from '../simulation/chance.js'

test('a long computation lets other work run in between', async () => {
  let others = 0
  const timer = setInterval(() => others++, 1)
  const until = performance.now() + 50
  await eachInSlices(whileBefore(until), () => undefined)
  clearInterval(timer)
  expect(others).toBeGreaterThan(1)
})

function* whileBefore(until: number) {
  while (performance.now() < until) yield
}

test.each(Array.from({ length: 30 }, (_, seed) => seed))(
  'a list is sorted as by Array.sort, with equal elements in their order: seed %i',
  async (seed) => {
    const { between } = dice(seed)
    const elements = Array.from({ length: between(0, 3_000) }, (_, place) => ({
      key: between(0, 40),
      place,
    }))
    const compare = (a: { key: number }, b: { key: number }) => a.key - b.key
    const before = [...elements]
    expect(await sortInSlices(elements, compare)).toEqual(elements.toSorted(compare))
    expect(elements).toEqual(before)
  },
)
