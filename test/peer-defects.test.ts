// Each of these was measured in a client that people use. The names say what broke there.
import { describe, expect, test, vi } from 'vitest'
import { createTestAnalytics } from '../src/testing.js'
import {
  countEvents,
  createClient,
  events,
  held,
  IN_TIME,
  listen,
  names,
  pass,
  passUntil,
  runScript,
  scriptedFetch,
  sized,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
} from './collector.js'

test('sizes measured wrongly: an event of 40,008 bytes that counted as 7', () => {
  const analytics = createClient(scriptedFetch())
  for (const fill of ['x', 'i', '\0', '"', 'é', '𝄞']) {
    expect(() => {
      analytics.track(sized(40_008, fill))
    }).toThrow(/40008 bytes/)
  }
  expect(analytics.stats().accepted).toBe(0)
})

test('sizes measured wrongly: 100 events of 30 KB in one body of 3 MB', async () => {
  const collector = await startCollector()
  const analytics = createClient(collector, { flushAt: 100 })
  for (let i = 0; i < 100; i++) analytics.track(sized(30_720, 'x', `e${i}`))
  await analytics.flush()
  expect(events(...collector.arrivals)).toEqual(names(0, 100))
  for (const { bytes } of collector.arrivals) expect(bytes.length).toBeLessThanOrEqual(500_000)
})

describe('a flush that returns before its messages are out', () => {
  test('20 of 500', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector)
    trackMany(analytics, 500)
    await analytics.flush()
    expect(collector.accepted).toHaveLength(500)
  })

  test('3 of 6 when flushes overlap', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector)
    trackMany(analytics, 3)
    void analytics.flush()
    await collector.arrived(1)
    trackMany(analytics, 3, 3)
    await analytics.flush()
    expect(collector.accepted).toHaveLength(6)
  })

  test('one recorded during the flush before it', async () => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const analytics = createClient(collector)
    trackMany(analytics, 1)
    const first = analytics.flush()
    await collector.arrived(1)
    trackMany(analytics, 1, 1)
    const second = analytics.flush()
    gate.release()
    await first
    expect(await second).toEqual({ delivered: 2, failed: 0 })
    expect(collector.accepted).toHaveLength(2)
  })
})

describe('a callback that says success for a message that was lost', () => {
  test('because it could not be encoded', () => {
    const callback = vi.fn()
    const analytics = createClient(scriptedFetch())
    const properties: Record<string, unknown> = {}
    properties['self'] = properties
    expect(() => {
      analytics.track({ userId: 'u', event: 'e', properties }, callback)
    }).toThrow(/properties\.self/)
    expect(callback).not.toHaveBeenCalled()
  })

  test.each([302, 401, 404, 410])('because the endpoint answered %i', async (status) => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(status))
    trackMany(analytics, 2, 0, heard.as)
    await analytics.flush()
    expect(heard.codes).toEqual(['e0: rejected', 'e1: rejected'])
  })
})

describe('a callback that is never called', () => {
  test('because the queue was full, or the client closed', async () => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(), { maxQueueBytes: 300 })
    trackMany(analytics, 2, 0, heard.as)
    await analytics.close()
    trackMany(analytics, 1, 2, heard.as)
    await turns()
    expect(heard.codes.sort()).toEqual(['e0: ok', 'e1: queue_full', 'e2: closed'])
  })

  test('because another one threw', async () => {
    const heard = listen()
    const analytics = createClient(scriptedFetch())
    analytics.track({ userId: 'u', event: 'e' }, () => {
      throw new Error('from the callback')
    })
    trackMany(analytics, 2, 0, heard.as)
    await analytics.flush()
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
  })
})

describe('a poison message that takes the batch', () => {
  test.each<[string, unknown]>([
    ['a BigInt', { n: 1n }],
    [
      'a toJSON that throws',
      {
        toJSON: () => {
          throw new Error('poison')
        },
      },
    ],
    [
      'a nested getter that throws',
      {
        a: {
          get b() {
            throw new Error('poison')
          },
        },
      },
    ],
  ])('%s', async (_, value) => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 1)
    expect(() => {
      analytics.track({ userId: 'u', event: 'poison', properties: { value } })
    }).toThrow()
    trackMany(analytics, 1, 1)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    // Nor is the client wedged.
    trackMany(analytics, 1, 2)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  })

  test('one that the endpoint refuses with a 400', async () => {
    const collector = await startCollector()
    collector.otherwise(({ messages }) =>
      messages.some(({ event }) => event === 'e7') ? 400 : 200,
    )
    const analytics = createClient(collector)
    trackMany(analytics, 20)
    expect(await analytics.flush()).toEqual({ delivered: 19, failed: 1 })
    expect(collector.accepted.map(({ event }) => event)).toEqual(
      names(0, 20).filter((name) => name !== 'e7'),
    )
  })
})

test('an outage that ends the process through an unhandled rejection', async () => {
  const collector = await startCollector()
  await collector.shut()
  const ended = await runScript(
    `const analytics = new Analytics('k', { flushAt: 2, maxRetries: 1, onFailed() {} })
     for (let i = 0; i < 10; i++) analytics.track({ userId: 'u', event: 'e' })
     console.log(await analytics.flush())`,
    { env: { ANALYTICS_ENDPOINT: collector.url } },
  )
  expect(ended).toEqual({
    code: 0,
    signal: null,
    stdout: '{ delivered: 0, failed: 10 }\n',
    stderr: '',
  })
})

test('a 302 followed as GET and reported delivered', async () => {
  const collector = await startCollector()
  collector.script({ status: 302, headers: { Location: '/moved' } })
  const heard = listen()
  const analytics = createClient(collector, heard.hooks)
  trackMany(analytics, 1, 0, heard.as)
  expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
  expect(collector.arrivals.map(({ method, path }) => `${method} ${path}`)).toEqual([
    'POST /v1/batch',
  ])
  expect(heard.codes).toEqual(['e0: rejected'])
  expect(heard.failed[0]?.error.message).toContain('/moved')
})

test('a 204 reported as a failure', async () => {
  const collector = await startCollector()
  collector.script(204)
  const analytics = createClient(collector)
  trackMany(analytics, 1)
  expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
})

test('mutation after the call', async () => {
  const net = scriptedFetch()
  const analytics = createClient(net)
  const properties = { nested: { value: 'before' } }
  analytics.track({ userId: 'u', event: 'e', properties })
  properties.nested.value = 'after'
  await analytics.flush()
  expect(net.arrivals[0]?.json).toContain('before')
  expect(net.arrivals[0]?.json).not.toContain('after')
})

test('a hung socket that stalls the client for ever', async () => {
  useFakeClock()
  const collector = await startCollector()
  collector.script('silence')
  const analytics = createClient(collector, { flushAt: 2 })
  trackMany(analytics, 2)
  await collector.arrived(1)
  trackMany(analytics, 2, 2)
  const flushed = analytics.flush()
  await pass(10_000)
  await pass(500)
  await collector.arrived(2)
  await passUntil(() => analytics.stats().delivered === 4)
  expect(await flushed).toEqual({ delivered: 4, failed: 0 })
})

describe('50 to 1,000 requests in flight, and a retry storm', () => {
  test('1,000 calls', async () => {
    const collector = await startCollector()
    collector.otherwise(async () => {
      await turns()
      return 200
    })
    const analytics = createClient(collector)
    trackMany(analytics, 1_000)
    await analytics.flush()
    expect(collector.mostInFlight).toBe(1)
    expect(collector.accepted).toHaveLength(1_000)
  })

  test('10,000 calls in an outage: five requests in five seconds, not a thousand', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net)
    for (let i = 0; i < 50; i++) {
      trackMany(analytics, 200, i * 200)
      await pass(100)
    }
    expect(Date.now() - Date.parse('2026-01-02T03:04:05.678Z')).toBe(5_000)
    expect(net.arrivals.length).toBeLessThanOrEqual(5)
    net.otherwise(200)
    await passUntil(() => analytics.stats().pending === 0)
    expect(analytics.stats()).toMatchObject({ accepted: 10_000, delivered: 10_000 })
    // What piled up goes out in bodies that double: nothing is dropped, no flood follows.
    expect(net.arrivals.length).toBeLessThanOrEqual(5 + 25)
  })
})

test('an outage of 1.5 to 9 seconds that loses everything', async () => {
  useFakeClock()
  const collector = await startCollector()
  await collector.shut()
  const analytics = createClient(collector, IN_TIME)
  trackMany(analytics, 100)
  const start = Date.now()
  await passUntil(() => Date.now() - start > 120_000)
  await collector.open()
  await passUntil(() => analytics.stats().pending === 0)
  expect(events(...collector.arrivals)).toEqual(names(0, 100))
})

test('16 KB of heap an event in an outage: ours are bytes outside of the heap', async () => {
  const ended = await runScript(
    `const analytics = new Analytics('k', { fetch: () => new Promise(() => {}) })
     const heap = () => { gc(); gc(); return process.memoryUsage().heapUsed }
     const track = (count) => {
       for (let i = 0; i < count; i++) {
         analytics.track({ userId: 'u', event: 'e', properties: { fill: 'x'.repeat(300) } })
       }
     }
     track(1_000)
     const before = heap()
     track(20_000)
     console.log(analytics.stats().pending, Math.round((heap() - before) / 20_000))
     process.exit()`,
    { flags: ['--expose-gc'] },
  )
  const [pending, heapBytes] = ended.stdout.split(' ').map(Number)
  expect(pending).toBe(21_000)
  expect(heapBytes).toBeLessThan(400)
})

test('queue work that is quadratic: each message is read once, however many wait', async () => {
  useFakeClock()
  const net = scriptedFetch()
  net.otherwise('hang')
  const analytics = createClient(net)
  const counted = { reads: 0 }
  const properties = {
    get value() {
      counted.reads++
      return 1
    },
  }
  for (let i = 0; i < 4_000; i++) analytics.track({ userId: 'u', event: 'e', properties })
  await pass(60_000)
  expect(counted.reads).toBe(4_000)
  expect(analytics.stats().pending).toBe(4_000)
})

test.each([408, 429, 500, 503])('Retry-After ignored: after a %i', async (status) => {
  useFakeClock()
  const net = scriptedFetch({ status, headers: { 'Retry-After': '6' } })
  const analytics = createClient(net, { flushAt: 1 })
  trackMany(analytics, 1)
  await pass(5_999)
  expect(net.arrivals).toHaveLength(1)
  await pass(1)
  expect(net.arrivals).toHaveLength(2)
})

test('a process held 10 s, or one that exits before sending', async () => {
  const collector = await startCollector()
  const ended = await runScript(
    `new Analytics('k', { flushAfter: 2_000_000_000 }).track({ userId: 'u', event: 'e' })`,
    { env: { ANALYTICS_ENDPOINT: collector.url } },
  )
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  expect(collector.accepted).toHaveLength(1)
})

test('a first message that is sent alone, at once', async () => {
  useFakeClock()
  const net = scriptedFetch()
  const analytics = createClient(net)
  trackMany(analytics, 1)
  await pass(1_000)
  expect(net.arrivals).toEqual([])
  trackMany(analytics, 19, 1)
  await turns()
  expect(countEvents(net.arrivals)).toEqual([20])
})

test('a success whose body stalls is not sent again', async () => {
  useFakeClock()
  const stalled = {
    status: 200,
    headers: new Headers(),
    text: () => new Promise<never>(() => undefined),
  }
  const fetch = vi.fn(() => Promise.resolve(stalled))
  const analytics = createClient({ ...scriptedFetch(), fetch }, { flushAt: 1 })
  trackMany(analytics, 1)
  await pass(60_000)
  expect(fetch).toHaveBeenCalledTimes(1)
  expect(analytics.stats()).toMatchObject({ delivered: 1, pending: 0 })
})

test('message ids of which neighbours share 14 of 16 bytes', async () => {
  const { analytics, messages } = createTestAnalytics()
  for (let i = 0; i < 200; i++) analytics.track({ userId: 'u', event: 'e' })
  await analytics.flush()
  const ids = messages.all.map(({ messageId }) => messageId.replaceAll('-', ''))
  // Of a UUID of version 7, the last 6 bytes are random: no run of 5 of them comes twice.
  const runs = ids.flatMap((id) => [20, 22].map((from) => id.slice(from, from + 10)))
  expect(new Set(runs).size).toBe(400)
})
