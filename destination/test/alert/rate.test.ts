import { expect, test } from 'vitest'
import { Rate } from '../../src/alert/rate.js'
import { dice } from '../simulation/chance.js'

test('a rate counts what the window has, exact to a twelfth of it', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const { between, chance } = dice(seed)
  const withinMs = 3_600_000
  const rate = new Rate(withinMs)
  const all: number[] = []
  let now = 1_800_000_000_000
  for (let step = 0; step < 3_000; step++) {
    now += between(0, chance(0.01) ? 2 * withinMs : 20_000)
    if (chance(0.7)) {
      rate.add(now)
      all.push(now)
    }
    const least = all.filter((at) => at > now - withinMs * (11 / 12)).length
    const most = all.filter((at) => at > now - withinMs).length
    const count = rate.count(now)
    expect(count, `seed ${seed}, step ${step}`).toBeGreaterThanOrEqual(least)
    expect(count, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(most)
  }
})
