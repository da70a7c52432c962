import { Registry } from 'prom-client'
import { describe, expect, test } from 'vitest'
import { addMetric, Counts, Durations } from '../../src/observe/series.js'
import { parseScrape } from './scrape.js'

describe('durations', () => {
  test('are in every bucket from their own on, and in sum and count', async () => {
    const registry = new Registry()
    const durations = new Durations([0.01, 0.1, 1])
    const name = 'wait_seconds'
    addMetric(registry, { name, help: 'Waits.', type: 'histogram' }, () =>
      durations.samples(name, { to: 'a' }),
    )
    for (const ms of [1, 10, 11, 1_000, 5_000]) durations.add(ms)
    expect(Object.fromEntries(parseScrape(await registry.metrics()))).toEqual({
      'wait_seconds_bucket{to="a",le="0.01"}': 2,
      'wait_seconds_bucket{to="a",le="0.1"}': 3,
      'wait_seconds_bucket{to="a",le="1"}': 4,
      'wait_seconds_bucket{to="a",le="+Inf"}': 5,
      'wait_seconds_sum{to="a"}': 6.022,
      'wait_seconds_count{to="a"}': 5,
    })
  })
})

test('counts are printed with their type, their help and labels that are escaped', async () => {
  const registry = new Registry()
  const counts = new Counts()
  addMetric(registry, { name: 'things_total', help: 'Things.', type: 'counter' }, () =>
    counts.samples('kind', { place: 'a "b"\n' }),
  )
  counts.add('x')
  counts.add('x', 2)
  counts.add('y')
  expect(await registry.metrics()).toBe(
    '# HELP things_total Things.\n# TYPE things_total counter\n' +
      'things_total{place="a \\"b\\"\\n",kind="x"} 3\n' +
      'things_total{place="a \\"b\\"\\n",kind="y"} 1\n',
  )
})
