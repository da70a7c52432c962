import { describe, expect, test } from 'vitest'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import type { DestinationQueue } from '../../src/deliver/destination-queue.js'
import type { BreakerState } from '../../src/model/answers.js'
import { DurationBins } from '../../src/observe/durations.js'
import { BUCKET_MS, History, MAX_BUCKETS } from '../../src/observe/history.js'

const URL = 'https://a.example.com/'
const START = 1_700_000_040_000

function make() {
  let now = START
  let wall = START
  const history = new History({ now: () => now, wall: () => wall })
  return {
    history,
    advance: (ms: number) => {
      now += ms
      wall += ms
    },
    setBack: (ms: number) => {
      wall -= ms
    },
    end: (code: OutcomeCode, ms = 10) => {
      const outcome = { code, ms } as Outcome
      history.attempted({ destination: 'crm' }, [{ url: URL, outcome }])
    },
    sample: (state: BreakerState) => {
      const queue = {
        destination: { name: 'crm' },
        endpoints: [{ endpoint: { url: URL }, breaker: { state } }],
      }
      history.sampleBreakers([queue as unknown as DestinationQueue])
    },
    buckets: (minutes = 60) => history.buckets('crm', URL, minutes),
  }
}

describe('the history of an endpoint', () => {
  test('goes on minute by minute when the clock is set back, and shows the times of the new clock', () => {
    const { advance, end, buckets, setBack, history } = make()
    end('delivered')
    setBack(60 * BUCKET_MS)
    advance(BUCKET_MS)
    end('server_error')
    const first = START - 60 * BUCKET_MS - (START % BUCKET_MS)
    expect(buckets()).toMatchObject([
      { at: first, delivered: 1, failed: 0 },
      { at: first + BUCKET_MS, delivered: 0, failed: 1 },
    ])
    expect(history.endpoint('crm', URL).lastFailure?.at).toBe(START - 59 * BUCKET_MS)
  })

  test('has a bucket for each minute since the start, with the one that goes on last', () => {
    const { advance, end, buckets, sample } = make()
    end('delivered', 100)
    end('server_error', 1_000)
    end('endpoint_down', 0)
    sample('open')
    sample('closed')
    advance(3 * BUCKET_MS)
    end('delivered', 20)
    const none = { delivered: 0, failed: 0, busy: 0, p50Ms: null, p99Ms: null, breaker: 'closed' }
    const near = (ms: number) => expect.closeTo(ms, -Math.log10(ms / 5)) as number
    expect(buckets()).toEqual([
      {
        at: START,
        delivered: 1,
        failed: 1,
        busy: 1,
        p50Ms: near(100),
        p99Ms: near(1_000),
        breaker: 'open',
      },
      { at: START + BUCKET_MS, ...none },
      { at: START + 2 * BUCKET_MS, ...none },
      { ...none, at: START + 3 * BUCKET_MS, delivered: 1, p50Ms: near(20), p99Ms: near(20) },
    ])
    expect(buckets(2)).toHaveLength(2)
    expect(buckets(1)).toMatchObject([{ delivered: 1 }])
  })

  test('keeps a day', () => {
    const { advance, end, buckets } = make()
    for (let n = 0; n < MAX_BUCKETS + 10; n++) {
      end('delivered')
      advance(BUCKET_MS)
    }
    const kept = buckets(MAX_BUCKETS)
    expect(kept).toHaveLength(MAX_BUCKETS)
    expect(kept.filter(({ delivered }) => delivered === 1)).toHaveLength(MAX_BUCKETS - 1)
    expect(buckets(2 * MAX_BUCKETS).filter(({ delivered }) => delivered === 1)).toHaveLength(
      MAX_BUCKETS - 1,
    )
  })

  test('sums up since the start, and tells the durations of the last minutes', () => {
    const { history, advance, end } = make()
    end('delivered', 2_000)
    advance(4 * BUCKET_MS)
    expect(history.endpoint('crm', URL).p50Ms).toBeGreaterThan(1_500)
    advance(BUCKET_MS)
    expect(history.endpoint('crm', URL)).toEqual({
      delivered: 1,
      failed: 0,
      p50Ms: null,
      p99Ms: null,
      lastFailure: null,
    })
    end('timeout', 5_000)
    end('delivered')
    end('endpoint_busy')
    expect(history.endpoint('crm', URL)).toMatchObject({
      delivered: 2,
      failed: 1,
      lastFailure: { at: START + 5 * BUCKET_MS, code: 'timeout', status: null },
    })
  })

  test('goes with the endpoint', () => {
    const { history, end } = make()
    end('delivered')
    history.sampleBreakers([])
    expect(history.endpoint('crm', URL)).toMatchObject({ delivered: 0 })
  })

  test('stays in its minute when the clock goes back', () => {
    const { advance, end, buckets } = make()
    advance(BUCKET_MS)
    end('delivered')
    advance(-BUCKET_MS)
    end('delivered')
    expect(buckets().at(-1)).toMatchObject({ delivered: 2 })
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

  test('of nothing tell nothing', () => {
    expect(new DurationBins().quantile(0.5)).toBeNull()
  })
})
