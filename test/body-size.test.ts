import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BodySize } from '../src/body-size.js'
import type { Batch } from '../src/entry.js'
import {
  countEvents,
  createClient,
  events,
  names,
  pass,
  scriptedFetch,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
  type FetchReply,
} from './collector.js'

/** A collector that needs so much time for each request and for each message. */
function slow(fixedMs: number, messageMs: number) {
  const net = scriptedFetch()
  let isDown = false
  net.otherwise(async ({ messages }): Promise<FetchReply> => {
    if (isDown) return Object.assign(new Error('reset'), { code: 'ECONNRESET' })
    await new Promise((resolve) => setTimeout(resolve, fixedMs + messages.length * messageMs))
    return 200
  })
  return { ...net, setDown: (value: boolean) => (isDown = value) }
}

describe('the size of a body', () => {
  test('stays where a slow collector answers in time, through an outage', async () => {
    useFakeClock()
    const net = slow(0, 5)
    const analytics = createClient(net, { onFailed: () => undefined })
    let made = 0
    const record = async (seconds: number) => {
      for (let i = 0; i < seconds; i++) {
        trackMany(analytics, 100, made)
        made += 100
        await pass(1_000)
      }
    }
    await record(5)
    net.setDown(true)
    await record(40)
    net.setDown(false)
    const from = net.arrivals.length
    await record(200)
    const after = net.arrivals.slice(from)
    // Nobody waits for an answer that does not come: each message is stored once.
    expect(new Set(events(...after)).size).toBe(events(...after).length)
    expect(analytics.stats().pending).toBeLessThan(1_200)
    expect(Math.max(...countEvents(after))).toBeLessThanOrEqual(1_000)
  })

  test('grows to 2,500 messages although each request takes 6 s of 10', async () => {
    useFakeClock()
    const net = slow(6_000, 0)
    const analytics = createClient(net)
    trackMany(analytics, 20_000)
    await pass(120_000)
    expect(Math.max(...countEvents(net.arrivals))).toBe(2_500)
    expect(analytics.stats()).toMatchObject({ delivered: 20_000 })
  })

  test('halves after a timeout, and grows again', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { timeout: 1_000 })
    net.script('hang', 'hang')
    trackMany(analytics, 400)
    await pass(60_000)
    expect(countEvents(net.arrivals).slice(0, 3)).toEqual([100, 50, 1])
    expect(analytics.stats()).toMatchObject({ delivered: 400 })
    expect(events(...net.arrivals.slice(2))).toEqual(names(0, 400))
  })
})

describe('maxBatchBytes', () => {
  test('bounds each body, envelope included', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { maxBatchBytes: 40_000, flushAt: 100_000 })
    const fill = 'x'.repeat(5_000)
    for (let i = 0; i < 50; i++) {
      analytics.track({ userId: 'u', event: `e${i}`, properties: { fill } })
    }
    analytics.track({ userId: 'u', event: 'e50', properties: { fill: 'x'.repeat(32_000) } })
    expect(await analytics.flush()).toEqual({ delivered: 51, failed: 0 })
    expect(Math.max(...net.arrivals.map(({ bytes }) => bytes.length))).toBeLessThanOrEqual(40_000)
    expect(events(...net.arrivals)).toEqual(names(0, 51))
  })

  test.each([39_999, 500_001, NaN])('refuses %d', (maxBatchBytes) => {
    expect(() => createClient(scriptedFetch(), { maxBatchBytes })).toThrow(
      'maxBatchBytes must be a whole number from 40000 to 500000',
    )
  })
})

describe('a server that answers 413 to large bodies', () => {
  test('teaches its limit: later bodies keep to it', async () => {
    const collector = await startCollector()
    const limit = 20_000
    collector.otherwise(({ bytes }) => (bytes.length > limit ? 413 : 200))
    const analytics = createClient(collector)
    const lengths: number[] = []
    for (let round = 0; round < 20; round++) {
      const from = collector.arrivals.length
      trackMany(analytics, 500, round * 500)
      await analytics.flush()
      lengths.push(
        collector.arrivals.slice(from).filter(({ bytes }) => bytes.length > limit).length,
      )
    }
    expect(analytics.stats()).toMatchObject({ delivered: 10_000, rejected: 0 })
    expect(lengths.slice(-10)).toEqual(Array(10).fill(0))
  })

  test('for one message teaches nothing: later bodies are as large as before', async () => {
    const net = scriptedFetch()
    net.otherwise(({ messages }) => (messages.some(({ event }) => event === 'e7') ? 413 : 200))
    const analytics = createClient(net, { onFailed: () => undefined })
    trackMany(analytics, 100)
    await analytics.flush()
    const from = net.arrivals.length
    trackMany(analytics, 100, 100)
    await analytics.flush()
    expect(countEvents(net.arrivals.slice(from))).toEqual([100])
  })
})

describe('an endpoint that answers 400 to everything', () => {
  const badRequest = { status: 400, body: 'plain HTTP on a TLS port' }

  test('is not asked for each message, and all are reported with its answer', async () => {
    const net = scriptedFetch()
    net.otherwise(badRequest)
    const lost: { status: unknown; count: number }[] = []
    const analytics = createClient(net, {
      onFailed: ({ error, messages }) => {
        lost.push({ status: (error as { status?: number }).status, count: messages.length })
      },
    })
    trackMany(analytics, 1_000)
    expect(await analytics.close()).toEqual({ delivered: 0, failed: 1_000 })
    expect(net.arrivals.length).toBeLessThan(60)
    expect(new Set(lost.map(({ status }) => status))).toEqual(new Set([400]))
    expect(lost.reduce((sum, { count }) => sum + count, 0)).toBe(1_000)
  })

  test.each([
    ['8 single messages and the last one', 9, []],
    ['32 and the last one, if it has accepted a batch', 33, [200]],
  ] as const)('is asked for %s', async (_, most, first) => {
    const net = scriptedFetch(...first)
    net.otherwise(badRequest)
    const analytics = createClient(net, { flushAt: 100, onFailed: () => undefined })
    if (first.length > 0) {
      trackMany(analytics, 100)
      await analytics.flush()
    }
    trackMany(analytics, 100, 100)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 100 })
    expect(countEvents(net.arrivals).filter((events) => events === 1)).toHaveLength(most)
  })

  test('for the first messages only keeps those behind them: the last one shows that it takes some', async () => {
    const net = scriptedFetch()
    net.otherwise(({ messages }) =>
      messages.some(({ event }) => Number(event?.slice(1)) < 30) ? badRequest : 200,
    )
    const analytics = createClient(net, { flushAt: 100 })
    trackMany(analytics, 100)
    expect(await analytics.flush()).toEqual({ delivered: 70, failed: 30 })
  })

  test('having accepted messages before is asked more often, since these may be at fault', async () => {
    const net = scriptedFetch(200)
    net.otherwise(({ messages }) =>
      messages.some(({ event }) => Number(event?.slice(1)) < 120) ? badRequest : 200,
    )
    const analytics = createClient(net, { flushAt: 100, onFailed: () => undefined })
    trackMany(analytics, 100)
    await analytics.flush()
    trackMany(analytics, 100, 100)
    expect(await analytics.flush()).toEqual({ delivered: 80, failed: 20 })
  })
})

test('one message and no body is the least, whatever comes', () => {
  const outcome = fc.constantFrom('accepted', 'timedOut', 'tooLarge', 'forget')
  const step = fc.record({
    outcome,
    ms: fc.nat(20_000),
    messages: fc.integer({ min: 1, max: 2_500 }),
  })
  fc.assert(
    fc.property(fc.array(step), fc.constantFrom(1, 20, 5_000), (steps, flushAt) => {
      const size = new BodySize({ flushAt, maxBatchBytes: 500_000, timeoutMs: 10_000 })
      for (const { outcome: what, ms, messages: drawn } of steps) {
        const messages = Math.min(drawn, size.messages)
        const batch = {
          entries: Array(messages).fill(0),
          bodyBytes: messages * 200,
        } as unknown as Batch
        if (what === 'accepted') size.accepted(batch, ms)
        else if (what === 'timedOut') size.timedOut(batch)
        else if (what === 'tooLarge') size.tooLarge(batch)
        else size.forgetTooLarge()
        expect(size.messages).toBeGreaterThanOrEqual(1)
        expect(size.messages).toBeLessThanOrEqual(flushAt === 1 ? 1 : 2_500)
        expect(size.bytes).toBeLessThanOrEqual(500_000)
      }
    }),
  )
})

test('what was queued before an outage of any length goes out in order', async () => {
  useFakeClock()
  const net = slow(10, 1)
  const analytics = createClient(net)
  net.setDown(true)
  trackMany(analytics, 3_000)
  await turns()
  await pass(1_500)
  net.setDown(false)
  const from = net.arrivals.length
  await pass(100_000)
  expect(analytics.stats()).toMatchObject({ delivered: 3_000 })
  expect(new Set(events(...net.arrivals.slice(from))).size).toBe(3_000)
})
