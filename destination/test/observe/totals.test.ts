import { describe, expect, test } from 'vitest'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import { DurationBins } from '../../src/observe/durations.js'
import { Totals } from '../../src/observe/totals.js'

const URL = 'https://a.example.com/'
const START = 1_700_000_040_000
const MINUTE_MS = 60_000

function make() {
  let now = START
  let wall = START
  const totals = new Totals({ now: () => now, wall: () => wall })
  return {
    totals,
    advance: (ms: number) => {
      now += ms
      wall += ms
    },
    setBack: (ms: number) => {
      wall -= ms
    },
    end: (code: OutcomeCode, ms = 10) => {
      const outcome = { code, ms } as Outcome
      totals.attempted({ destination: 'crm' }, [{ url: URL, outcome }])
    },
  }
}

describe('what is counted of an endpoint', () => {
  test('goes on when the clock is set back, and shows the times of the new clock', () => {
    const { advance, end, setBack, totals } = make()
    end('delivered')
    setBack(60 * MINUTE_MS)
    advance(MINUTE_MS)
    end('server_error')
    expect(totals.endpoint('crm', URL)).toMatchObject({
      delivered: 1,
      failed: 1,
      lastFailure: { at: START - 59 * MINUTE_MS },
    })
  })

  test('sums up since the start, and tells the durations of the last minutes', () => {
    const { totals, advance, end } = make()
    end('delivered', 2_000)
    advance(4 * MINUTE_MS)
    expect(totals.endpoint('crm', URL).p50Ms).toBeGreaterThan(1_500)
    advance(MINUTE_MS)
    expect(totals.endpoint('crm', URL)).toEqual({
      delivered: 1,
      failed: 0,
      p50Ms: null,
      p99Ms: null,
      lastFailure: null,
      failuresInARow: 0,
      deliveredInARow: 1,
    })
    end('timeout', 5_000)
    end('delivered')
    end('endpoint_busy')
    expect(totals.endpoint('crm', URL)).toMatchObject({
      delivered: 2,
      failed: 1,
      lastFailure: { at: START + 5 * MINUTE_MS, code: 'timeout', status: null },
    })
  })

  test('tells how many requests in a row ended like the latest, and nothing before the first one', () => {
    const { totals, end } = make()
    const none = { failuresInARow: null, deliveredInARow: null }
    expect(totals.endpoint('crm', URL)).toMatchObject(none)
    expect(totals.streak('crm', URL)).toMatchObject(none)
    for (const code of ['timeout', 'server_error', 'endpoint_down'] as const) end(code)
    expect(totals.streak('crm', URL)).toMatchObject({ failuresInARow: 2, deliveredInARow: 0 })
    for (let i = 0; i < 3; i++) end('delivered')
    end('endpoint_busy')
    expect(totals.endpoint('crm', URL)).toMatchObject({ failuresInARow: 0, deliveredInARow: 3 })
  })

  test('has times in whole ms, although its clock is finer', () => {
    const { totals, advance, end } = make()
    advance(0.6)
    end('timeout')
    expect(totals.endpoint('crm', URL).lastFailure?.at).toBe(START + 1)
  })

  test('goes with the endpoint and with the source', async () => {
    const { totals, end } = make()
    end('delivered')
    totals.callsCounted('web', 'accepted', 2)
    await totals.keep({ sources: [{ name: 'web', writeKey: 'k' }], destinations: [] })
    expect(totals.source('web')).toMatchObject({ accepted: 2 })
    await totals.keep({ sources: [], destinations: [] })
    expect(totals.source('web')).toMatchObject({ accepted: 0 })
    expect(totals.endpoint('crm', URL)).toMatchObject({ delivered: 0 })
  })

  test('takes only calls for rejected that were rejected for good', () => {
    const { totals } = make()
    totals.callsCounted('web', 'accepted', 5)
    totals.callsCounted('web', 'missing_field', 2)
    const forNow = ['store_unavailable', 'overloaded', 'rate_limited', 'tenant_full']
    for (const code of forNow) totals.callsCounted('web', code, 100)
    expect(totals.source('web')).toEqual({ accepted: 5, rejected: 2 })
  })

  test('keeps the durations of five minutes and no more, however long it runs', () => {
    const { totals, advance, end } = make()
    for (let minute = 0; minute < 3_000; minute++) {
      end('delivered', minute)
      advance(MINUTE_MS)
    }
    // The last four minutes with requests, and the current one without.
    expect(totals.endpoint('crm', URL)).toMatchObject({ delivered: 3_000 })
    expect(totals.endpoint('crm', URL).p50Ms).toBeGreaterThan(2_700)
  })
})

describe('bins of durations', () => {
  test.each([1, 3, 10, 77, 450, 1_234, 5_000])('tell %d ms within a tenth', (ms) => {
    const bins = new DurationBins()
    for (let n = 0; n < 10; n++) bins.add(ms)
    expect(Math.abs((bins.quantile(0.5) ?? NaN) - ms)).toBeLessThanOrEqual(Math.max(1, ms / 10))
  })

  test('tell shares', () => {
    const bins = new DurationBins()
    for (let n = 0; n < 99; n++) bins.add(10)
    bins.add(1_000)
    expect(bins.quantile(0.5)).toBeLessThan(12)
    expect(bins.quantile(0.99)).toBeLessThan(12)
    expect(bins.quantile(1)).toBeGreaterThan(900)
  })

  test('tell no duration that is longer than all, also together', () => {
    const [bins, others] = [new DurationBins(), new DurationBins()]
    bins.add(1_025)
    others.add(513)
    others.merge(bins)
    for (const each of [bins, others]) expect(each.quantile(0.99)).toBe(1_025)
    bins.clear()
    bins.add(513)
    expect(bins.quantile(0.99)).toBe(513)
  })

  test('of nothing tell nothing', () => {
    expect(new DurationBins().quantile(0.5)).toBeNull()
  })
})
