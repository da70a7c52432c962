// The simulation of docs/proofs.md, for a few seeds. `npm run proof -- --only 6` plays many more.
import { describe, expect, test } from 'vitest'
import { THEMES } from './plan.js'
import { play } from './round.js'
import { thisStage } from './this-stage.js'

const LONG = ['several workers on the engine of SQLite', 'four hours on SQLite']

/** A failure prints the story of the message. */
async function faultsOf(seed: number): Promise<string[]> {
  const { faults, story } = await play(seed, thisStage)
  if (faults.length > 0) console.log(story.join('\n'))
  return faults
}

describe('a simulated service keeps its promises', () => {
  // Short rounds of all themes, but for those with much SQLite: the proof plays those.
  const SHORT: Readonly<Record<string, number>> = {
    'too many requests': 50,
    'bulk work': 88,
    'more messages than an endpoint takes': 49,
    everything: 79,
  }
  const themes = Object.keys(THEMES).map((theme, seed) => [theme, SHORT[theme] ?? seed] as const)
  test.each(themes.filter(([theme]) => !LONG.includes(theme)))(
    '%s',
    { tags: 'long' },
    async (_theme, seed) => {
      expect(await faultsOf(seed)).toEqual([])
    },
  )
})

test('the same seed gives the same round', { tags: 'long' }, async () => {
  const [first, second] = [await play(4, thisStage), await play(4, thisStage)]
  expect(second).toEqual(first)
})
