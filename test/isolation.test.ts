import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createBatch, encodeBody } from '../src/batch.js'
import { Analytics, RetriesExhaustedError } from '../src/index.js'
import { Isolation } from '../src/isolation.js'
import { Queue } from '../src/queue.js'
import {
  AT_ONCE,
  countEvents,
  createClient,
  events,
  listen,
  names,
  pass,
  passUntil,
  scriptedFetch,
  sized,
  TIME,
  trackMany,
  turns,
  until,
  useFakeClock,
  WRITE_KEY,
  type Arrival,
  type FetchReply,
  type ScriptedFetch,
} from './collector.js'
import { temporary } from './spool/directory.js'

/** An endpoint that answers 500 to each body with one of these events, until it is repaired. */
function failsFor(...poison: string[]): ScriptedFetch & { repair: () => void } {
  const net = scriptedFetch()
  let bad = new Set(poison)
  net.otherwise((arrival) => (events(arrival).some((event) => bad.has(String(event))) ? 500 : 200))
  return { ...net, repair: () => (bad = new Set()) }
}

const accepted = (net: ScriptedFetch, poison: readonly string[]) =>
  net.arrivals.filter((arrival) => !events(arrival).some((event) => poison.includes(String(event))))

const alone = (net: ScriptedFetch, event: string): Arrival[] =>
  net.arrivals.filter((arrival) => arrival.messages.length === 1 && events(arrival)[0] === event)

describe('a message that always gets a 500', () => {
  test.each([0, 1, 7, 18, 19])('as number %i of 20 stops nobody else', async (at) => {
    useFakeClock()
    const poison = `e${at}`
    const net = failsFor(poison)
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 20)
    await turns()
    trackMany(analytics, 80, 20)
    await pass(15_000)
    const others = names(0, 100).filter((name) => name !== poison)
    expect(events(...accepted(net, [poison]))).toEqual(others)
    expect(analytics.stats()).toMatchObject({ delivered: 99, pending: 1 })
  })

  test.each(['e0', 'e5', 'e19'])('with flushAt 1, as %s, stops nobody else', async (poison) => {
    useFakeClock()
    const net = failsFor(poison)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 40)
    await pass(15_000)
    trackMany(analytics, 40, 40)
    await pass(1_000)
    expect(analytics.stats()).toMatchObject({ delivered: 79, pending: 1 })
  })

  test('is tried alone, ever more slowly, and given up after ten such attempts, with a report', async () => {
    useFakeClock()
    const heard = listen()
    const net = failsFor('e3')
    const analytics = createClient(net, { ...heard.hooks, flushAt: 20 })
    trackMany(analytics, 20, 0, heard.as)
    await pass(15_000)
    const before = net.arrivals.length
    await pass(300_000)
    expect(events(...net.arrivals.slice(before)).every((event) => event === 'e3')).toBe(true)
    const times = alone(net, 'e3').map(({ body }) => Date.parse(body.sentAt))
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0))
    const lone = waits.slice(-10)
    for (const [i, wait] of lone.entries()) {
      expect(wait).toBeGreaterThanOrEqual(Math.min(15_000, 250 * 2 ** i))
    }
    expect(times).toHaveLength(2 + 10) // the first two find it
    expect(heard.codes.filter((code) => !code.endsWith('ok'))).toEqual(['e3: retries_exhausted'])
    expect(heard.failed).toHaveLength(1)
    expect(heard.failed[0]?.error).toBeInstanceOf(RetriesExhaustedError)
    expect(heard.failed[0]?.error.message).toContain('500')
    expect(heard.failed[0]?.messages[0]?.json).toContain('"event":"e3"')
  })

  test('is delivered once the endpoint is repaired', async () => {
    useFakeClock()
    const heard = listen()
    const net = failsFor('e3')
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 20, 0, heard.as)
    await pass(20_000)
    net.repair()
    await pass(60_000)
    expect(heard.codes).toHaveLength(20)
    expect(heard.codes.at(-1)).toBe('e3: ok')
    expect(analytics.stats()).toMatchObject({ delivered: 20, pending: 0 })
  })

  test('is awaited by flush(), which says that it failed', async () => {
    useFakeClock()
    const net = failsFor('e3')
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 20)
    const flushed = analytics.flush()
    await pass(300_000)
    expect(await flushed).toEqual({ delivered: 19, failed: 1 })
  })

  test('is given up after maxRetries, if these are fewer', async () => {
    useFakeClock()
    const heard = listen()
    const net = failsFor('e0')
    const analytics = createClient(net, { flushAt: 20, maxRetries: 4 })
    trackMany(analytics, 20, 0, heard.as)
    await pass(60_000)
    expect(net.arrivals.filter((arrival) => events(arrival).includes('e0'))).toHaveLength(5)
    expect(heard.codes.filter((code) => !code.endsWith('ok'))).toEqual(['e0: retries_exhausted'])
  })

  test('is left to nobody when the client closes: it is reported', async () => {
    useFakeClock()
    const heard = listen()
    const net = failsFor('e3')
    const analytics = createClient(net, { ...heard.hooks, flushAt: 20 })
    trackMany(analytics, 20, 0, heard.as)
    await pass(15_000)
    const closed = analytics.close({ timeout: 1_000 })
    await pass(1_000)
    expect(await closed).toEqual({ delivered: 19, failed: 1 })
    expect(heard.codes.at(-1)).toBe('e3: close_timeout')
    const count = net.arrivals.length
    await pass(100_000)
    expect(net.arrivals).toHaveLength(count)
  })
})

test.each([2, 5, 30, 200])('%i failing messages in a row stop nobody else', async (count) => {
  useFakeClock()
  const poison = names(0, count)
  const net = failsFor(...poison)
  const analytics = createClient(net, { flushAt: 20, onFailed: () => undefined })
  const made = count + 200
  trackMany(analytics, made)
  await pass(1_200_000)
  const others = events(...accepted(net, poison))
  expect([...others].sort()).toEqual(names(count, made).sort())
  // Only single messages came before their turn: they showed whether the endpoint takes others.
  const early = others.filter((event, i) => event !== names(count, made)[i])
  expect(early.length).toBeLessThan(made)
})

test('messages that the endpoint takes arrive wherever those are that it fails for', async () => {
  const line = fc.array(fc.constantFrom('good', 'bad'), { minLength: 3, maxLength: 40 })
  // The places of the first probes, and the end, may all have messages that fail.
  const examples = [['bad', 'bad', 'good', 'bad']]
  const isFailing = ({ messages }: Arrival) => messages.some(({ event }) => event === 'bad')
  await fc.assert(
    fc.asyncProperty(line, fc.constantFrom(1, 20), async (events, flushAt) => {
      const net = scriptedFetch()
      net.otherwise(async (arrival) => {
        await new Promise((resolve) => setImmediate(resolve))
        return isFailing(arrival) ? 500 : 200
      })
      const analytics = new Analytics(
        WRITE_KEY,
        { fetch: net.fetch, flushAt, onFailed: () => undefined },
        AT_ONCE,
      )
      for (const event of events) analytics.track({ userId: 'u', event })
      const good = events.filter((event) => event === 'good').length
      void analytics.flush()
      // It usually takes some hundred requests, and some thousand if the endpoint fails for nearly all.
      await until(() => analytics.stats().delivered === good || net.arrivals.length > 100_000)
      const { delivered } = analytics.stats()
      await analytics.close({ timeout: 0 })
      expect(delivered).toBe(good)
    }),
    { numRuns: 60, examples: examples.map((events) => [events, 20] as [typeof events, number]) },
  )
})

test('after a long outage the messages still go in batches', async () => {
  const net = scriptedFetch()
  const { fetch, arrivals } = net
  net.otherwise(async () => {
    await new Promise((resolve) => setImmediate(resolve))
    return arrivals.length > 2_000 ? 200 : 503
  })
  const analytics = new Analytics(WRITE_KEY, { fetch, onFailed: () => undefined }, AT_ONCE)
  trackMany(analytics, 2_000)
  await analytics.flush()
  await analytics.close()
  // Of the 400 messages or so that were tried alone, each is a batch of its own if it is another one.
  expect(arrivals.length - 2_000).toBeLessThan(200)
})

test('a stream in which every tenth message fails keeps flowing, and the messages that fail wait beside it', async () => {
  useFakeClock()
  const heard = listen()
  const net = scriptedFetch()
  const isBad = (event = '') => event.endsWith('0')
  net.otherwise(({ messages }) => (messages.some(({ event }) => isBad(event)) ? 500 : 200))
  const analytics = createClient(net, { ...heard.hooks, flushAt: 20 })
  for (let i = 0; i < 2_000; i += 20) {
    trackMany(analytics, 20, i)
    await pass(400)
  }
  await pass(20_000)
  const { delivered, dropped, pending } = analytics.stats()
  expect(delivered).toBe(1_800)
  expect(dropped).toBe(200 - pending)
  const sent = events(...net.arrivals.filter((arrival) => !events(arrival).some(isBad)))
  expect(sent).toEqual(names(0, 2_000).filter((name) => !isBad(name)))
})

test('a message that fails alone keeps its own bytes in memory, and not those of its neighbours', () => {
  const queue = new Queue()
  const json = new TextEncoder().encode('{"event":"e"}')
  for (let i = 0; i < 3; i++) queue.push(json, i, undefined)
  queue.closeBatch()
  const [, second] = queue.take(3, Infinity)
  const isolation = new Isolation(() => 0, Infinity)
  isolation.add(createBatch(second ? [second] : []), 0, 0)
  const { batch } = isolation.take()
  expect(batch.entries[0]).toMatchObject({ sequence: 1, slab: { length: 1 + json.length } })
  const body = new TextDecoder().decode(encodeBody(batch, TIME))
  expect(JSON.parse(body)).toMatchObject({ batch: [{ event: 'e' }] })
})

test('with a spool, the messages that fail alone take up no more than maxQueueBytes', async () => {
  useFakeClock()
  const { failed, hooks } = listen()
  const net = scriptedFetch()
  net.otherwise((arrival) => (events(arrival).includes('bad') ? 500 : 200))
  const spool = { directory: temporary() }
  const analytics = createClient(net, { ...hooks, spool, maxQueueBytes: 20_000, flushAt: 2 })
  for (let i = 0; i < 40; i++) {
    analytics.track(sized(3_000, 'x', i % 2 ? 'bad' : 'good'))
    await pass(1_000)
  }
  const { delivered, dropped, pendingBytes } = analytics.stats()
  expect(delivered).toBe(20)
  expect(pendingBytes).toBeLessThanOrEqual(20_000 + 3_000) // and the one that is being tried
  expect(pendingBytes).toBeGreaterThan(10_000)
  expect(dropped).toBeGreaterThan(10)
  expect(failed[0]?.error.message).toContain('too many messages fail')
})

describe('a message that fails', () => {
  const failing: [string, (count: number) => FetchReply][] = [
    ['with a Retry-After', () => ({ status: 503, headers: { 'Retry-After': '1' } })],
    ['in turns with 500 and 502', (count) => (count % 2 ? 500 : 502)],
  ]
  test.each(failing)('%s stops nobody else', async (_, reply) => {
    useFakeClock()
    const net = scriptedFetch()
    let count = 0
    net.otherwise((arrival) => (events(arrival).includes('e0') ? reply(count++) : 200))
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 60)
    await pass(30_000)
    expect(analytics.stats()).toMatchObject({ delivered: 59, pending: 1 })
  })
})

test.each([503, 429])(
  'a message that fails alone with a %i waits as long as the endpoint asks',
  async (status) => {
    useFakeClock()
    const net = scriptedFetch()
    let asks = 0
    net.otherwise((arrival) => {
      if (!events(arrival).includes('e1')) return 200
      return { status: asks++ < 6 ? 503 : status, headers: { 'Retry-After': '60' } }
    })
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 5)
    await pass(1_200_000)
    const times = net.arrivals
      .filter((arrival) => events(arrival).includes('e1'))
      .map(({ body }) => Date.parse(body.sentAt))
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0))
    expect(waits.length).toBeGreaterThan(8)
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(60_000)
    expect(analytics.stats()).toMatchObject({ delivered: 4 })
  },
)

test('close() does not cut short what the endpoint asked for a message that fails alone', async () => {
  useFakeClock()
  const net = scriptedFetch()
  const asking = { status: 503, headers: { 'Retry-After': '60' } }
  net.otherwise((arrival) => (events(arrival).includes('e1') ? asking : 200))
  const analytics = createClient(net, { flushAt: 20 })
  trackMany(analytics, 5)
  await passUntil(() => analytics.stats().delivered === 4)
  await pass(1_000)
  const before = net.arrivals.length
  const closed = analytics.close({ timeout: 30_000 })
  await pass(30_000)
  expect(net.arrivals).toHaveLength(before)
  expect(await closed).toEqual({ delivered: 4, failed: 1 })
})

test('messages that fail for 40 s while others are taken are all delivered afterwards', async () => {
  useFakeClock()
  const net = scriptedFetch()
  let isDown = true
  const isBad = (event = '') => event.endsWith('0')
  net.otherwise(({ messages }) =>
    isDown && messages.some(({ event }) => isBad(event)) ? 503 : 200,
  )
  const analytics = createClient(net, { flushAt: 20 })
  for (let i = 0; i < 3_000; i += 20) {
    trackMany(analytics, 20, i)
    await pass(270)
  }
  isDown = false
  await pass(120_000)
  expect(analytics.stats()).toMatchObject({ delivered: 3_000, dropped: 0 })
})

test('a message that is recorded in a complete outage is kept, though another one is isolated', async () => {
  useFakeClock()
  const net = failsFor('e3')
  const analytics = createClient(net, { flushAt: 20 })
  trackMany(analytics, 20)
  await pass(15_000)
  net.otherwise(500)
  trackMany(analytics, 1, 20)
  void analytics.flush()
  await pass(1_200_000)
  expect(analytics.stats()).toMatchObject({ delivered: 19, dropped: 0, pending: 2 })
})

describe('an endpoint that fails for everything', () => {
  test.each([
    ['500', 500],
    ['a reset', Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' })],
  ] as const)(
    'sees one request for each back-off, and now and then a probe: %s',
    async (_, fault) => {
      useFakeClock()
      const net = scriptedFetch()
      net.otherwise(fault)
      const analytics = createClient(net, { flushAt: 20 })
      trackMany(analytics, 200)
      await pass(600_000)
      const times = net.arrivals.map(({ body }) => Date.parse(body.sentAt))
      const during = (fromMs: number, toMs: number) =>
        times.filter((time) => time - (times[0] ?? 0) >= fromMs && time - (times[0] ?? 0) < toMs)
          .length
      expect(during(0, 5_000)).toBeLessThanOrEqual(5)
      // One for each wait of 15 s at least, and a probe with every fourth of them.
      expect(during(60_000, 600_000)).toBeLessThanOrEqual((540 / 15) * 1.25 + 1)
      // A probe that fails proves nothing: all are still in line.
      expect(analytics.stats()).toMatchObject({ pending: 200, dropped: 0 })
    },
  )

  test('and recovers gets all messages in order', async () => {
    for (const outageMs of [1_000, 3_000, 8_000, 20_000, 60_000, 200_000]) {
      useFakeClock()
      const net = scriptedFetch()
      net.otherwise(500)
      const analytics = createClient(net, { flushAt: 20 })
      trackMany(analytics, 200)
      await pass(outageMs)
      const from = net.arrivals.length
      net.otherwise(200)
      await pass(120_000)
      expect(events(...net.arrivals.slice(from))).toEqual(names(0, 200))
    }
  })

  test('while a message is isolated is not asked for that one meanwhile', async () => {
    useFakeClock()
    const random = vi.spyOn(Math, 'random').mockReturnValue(0.5) // how often it is asked depends on it
    onTestFinished(() => {
      random.mockRestore()
    })
    const net = failsFor('e3')
    const analytics = createClient(net, { flushAt: 20 })
    trackMany(analytics, 20)
    await pass(15_000)
    net.otherwise(500)
    trackMany(analytics, 20, 20)
    await turns()
    const from = net.arrivals.length
    await pass(120_000)
    expect(events(...net.arrivals.slice(from))).not.toContain('e3')
    expect(net.arrivals.length - from).toBeLessThan(15)
  })
})

test('a 408 and a 429 never make a message suspect', async () => {
  useFakeClock()
  const net = scriptedFetch()
  net.otherwise({ status: 429, headers: { 'Retry-After': '1' } })
  const analytics = createClient(net, { flushAt: 20 })
  trackMany(analytics, 20)
  await pass(30_000)
  net.otherwise(408)
  await pass(60_000)
  expect(new Set(countEvents(net.arrivals))).toEqual(new Set([20]))
})

test('whatever messages fail, all others arrive once and in order', async () => {
  useFakeClock()
  const kind = fc.constantFrom(500, 400, 413, 502, 'reset' as const, 'timeout' as const)
  const poisons = fc.dictionary(
    fc.nat(120).map((i) => `e${i}`),
    kind,
    { maxKeys: 6 },
  )
  const steps = fc.array(
    fc.record({ count: fc.integer({ min: 1, max: 40 }), ms: fc.constantFrom(0, 5, 700, 6_000) }),
    { minLength: 1, maxLength: 6 },
  )
  await fc.assert(
    fc.asyncProperty(poisons, steps, fc.constantFrom(2, 5, 20, 100), async (bad, all, flushAt) => {
      const net = scriptedFetch()
      net.otherwise(({ messages }): FetchReply => {
        const fault = messages.map(({ event }) => bad[event ?? '']).find((each) => each)
        if (fault === 'reset') return Object.assign(new Error('reset'), { code: 'ECONNRESET' })
        return fault === 'timeout' ? 'hang' : (fault ?? 200)
      })
      const analytics = createClient(net, { flushAt, timeout: 1_000, onFailed: () => undefined })
      let made = 0
      for (const { count, ms } of all) {
        trackMany(analytics, count, made)
        made += count
        await pass(ms)
      }
      const closed = analytics.close({ timeout: 2_000_000 })
      await pass(2_000_000)
      const good = names(0, made).filter((name) => !(name in bad))
      const taken = net.arrivals.filter(
        (arrival) => !events(arrival).some((name) => String(name) in bad),
      )
      const arrived = events(...taken)
      expect([...arrived].sort()).toEqual([...good].sort())
      // Only single messages come before their turn, to show whether the endpoint takes others.
      const early = taken.filter((arrival) => arrival.messages.length === 1)
      const rest = arrived.filter((name) => !events(...early).includes(name))
      expect(rest).toEqual(good.filter((name) => rest.includes(name)))
      expect(await closed).toEqual({ delivered: good.length, failed: made - good.length })
    }),
    { numRuns: 40 },
  )
}, 120_000)
