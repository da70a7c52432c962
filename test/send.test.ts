import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { RejectedError, RetriesExhaustedError } from '../src/index.js'
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
  scriptedFetch,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
  type Reply,
} from './collector.js'

const RETRIED = [408, 429, 500, 502, 503, 504, 507, 511, 529, 599]
const REFUSED = [
  401, 402, 403, 404, 405, 406, 409, 410, 411, 415, 418, 422, 425, 426, 428, 431, 451,
]
const REDIRECTS = [300, 301, 302, 303, 304, 307, 308]
const NEVER = [501, 505]

describe('in order', () => {
  test('one request is in flight at a time, whatever piles up', async () => {
    const collector = await startCollector()
    collector.otherwise(async () => {
      await turns()
      return 200
    })
    const analytics = createClient(collector, { flushAt: 3 })
    for (let round = 0; round < 20; round++) {
      trackMany(analytics, 10, round * 10)
      await turns()
    }
    await analytics.flush()
    expect(collector.mostInFlight).toBe(1)
    expect(events(...collector.arrivals)).toEqual(names(0, 200))
  })

  test('through failures too', async () => {
    useFakeClock()
    const collector = await startCollector()
    const faults: Reply[] = [500, 'reset', 200, 429, 'reset unread', 200, 503, 408, 'reset', 503]
    collector.script(...faults)
    const heard = listen()
    const analytics = createClient(collector, { ...IN_TIME, flushAt: 5 })
    let isDone = false
    for (let i = 0; i < 50; i += 5) {
      trackMany(analytics, 5, i, heard.as)
      await turns()
    }
    void analytics.flush().then(() => (isDone = true))
    await passUntil(() => isDone)
    expect(events0(collector.accepted)).toEqual(names(0, 50))
    expect(heard.codes).toEqual(names(0, 50).map((name) => `${name}: ok`))
    expect(collector.mostInFlight).toBe(1)
  })
  const events0 = (messages: { event?: string | undefined }[]) => messages.map(({ event }) => event)
})

describe('a batch is tried again', () => {
  test.each(RETRIED)('after a %i', async (status) => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch(status)
    const analytics = createClient(net, { ...heard.hooks, flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    await pass(500)
    expect(countEvents(net.arrivals)).toEqual([2, 2])
    expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
    expect(heard.failed).toEqual([])
    expect(heard.delivered).toMatchObject([{ messages: 2, attempts: 2 }])
  })

  test.each<Reply>(['reset', 'reset unread', 'reset after reply'])(
    'or not, after the connection is reset: %s',
    async (fault) => {
      useFakeClock()
      const collector = await startCollector()
      collector.script(fault)
      const heard = listen()
      const analytics = createClient(collector, { ...heard.hooks, ...IN_TIME, flushAt: 2 })
      trackMany(analytics, 2, 0, heard.as)
      await passUntil(() => heard.outcomes.length === 2)
      expect(heard.codes).toEqual(['e0: ok', 'e1: ok'])
      expect(heard.delivered[0]?.attempts).toBe(fault === 'reset after reply' ? 1 : 2)
    },
  )

  test('after a connection that is refused, until the port is open again', async () => {
    useFakeClock()
    const collector = await startCollector()
    await collector.shut()
    const heard = listen()
    const analytics = createClient(collector, { ...heard.hooks, ...IN_TIME, flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    const start = Date.now()
    await passUntil(() => Date.now() - start > 60_000)
    expect(analytics.stats()).toMatchObject({ pending: 2, dropped: 0 })
    await collector.open()
    await passUntil(() => heard.outcomes.length === 2)
    expect(events(...collector.arrivals)).toEqual(['e0', 'e1'])
    expect(heard.failed).toEqual([])
  })

  test('with the same ids and times, a sentAt of its own, and X-Retry-Count', async () => {
    useFakeClock('2026-01-02T03:04:05.000Z')
    const net = scriptedFetch(503, new Error('reset'), 429)
    const analytics = createClient(net, { flushAt: 2 })
    trackMany(analytics, 2)
    await pass(60_000)
    expect(net.arrivals).toHaveLength(4)
    expect(net.arrivals.map(({ headers }) => headers['x-retry-count'])).toEqual([
      undefined,
      '1',
      '2',
      '3',
    ])
    const [first, ...others] = net.arrivals.map(({ body }) => body)
    for (const other of others) {
      expect(other.batch).toEqual(first?.batch)
      expect(other.messageId).toBe(first?.messageId)
    }
    const sentAt = net.arrivals.map(({ body }) => Date.parse(body.sentAt))
    expect(sentAt[0]).toBe(Date.parse('2026-01-02T03:04:05.000Z'))
    expect(new Set(sentAt).size).toBe(4)
  })
})

describe('a batch is refused', () => {
  test.each([...REFUSED, ...REDIRECTS, ...NEVER])('by a %i, for good', async (status) => {
    useFakeClock()
    const heard = listen()
    const collector = await startCollector()
    collector.script({ status, body: 'no thanks', headers: { Location: '/elsewhere' } })
    const analytics = createClient(collector, { ...heard.hooks, flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    const flushed = analytics.flush()
    await collector.arrived(1)
    expect(await flushed).toEqual({ delivered: 0, failed: 2 })
    expect(heard.codes).toEqual(['e0: rejected', 'e1: rejected'])
    expect(heard.failed).toHaveLength(1)
    const { error, messages } = heard.failed[0] ?? {}
    expect(error).toBeInstanceOf(RejectedError)
    expect(error).toMatchObject({ status, detail: status === 304 ? '' : 'no thanks' })
    expect(error?.message).toContain(`The endpoint answered ${status}`)
    expect(messages?.map(({ json }) => JSON.parse(json ?? '') as object)).toMatchObject([
      { event: 'e0' },
      { event: 'e1' },
    ])
    expect(analytics.stats()).toMatchObject({ rejected: 2, dropped: 0, delivered: 0 })
    await pass(60_000)
    expect(collector.arrivals).toHaveLength(1)
  })

  test('and those after it are not', async () => {
    const net = scriptedFetch(403)
    const analytics = createClient(net, { flushAt: 2 })
    trackMany(analytics, 2)
    await analytics.flush()
    trackMany(analytics, 2, 2)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(net.arrivals[1]?.headers).not.toHaveProperty('x-retry-count')
  })

  test('with the start of the answer in the error, and no more', async () => {
    const heard = listen()
    const net = scriptedFetch({ status: 403, body: `  ${'y'.repeat(10_000)}` })
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 1)
    await analytics.flush()
    const { error } = heard.failed[0] ?? {}
    expect((error as RejectedError).detail).toHaveLength(500)
    expect(error?.message).toContain(`403: ${'y'.repeat(400)}`)
    expect(error?.message.length).toBeLessThan(700)
  })

  test.each([
    [401, /Check the write key/],
    [403, /Check the write key/],
    [404, /Check the path/],
    [405, /Check the path/],
    [413, /no message of that size/],
    [302, /Redirects are not followed: make https:\/\/new\.example\/in the endpoint/],
    [501, /would not help/],
  ])('by a %i, with advice', async (status, advice) => {
    const heard = listen()
    const headers = { Location: 'https://new.example/in' }
    const analytics = createClient(scriptedFetch({ status, headers }), heard.hooks)
    trackMany(analytics, 1)
    await analytics.flush()
    expect(heard.failed[0]?.error.message).toMatch(advice)
  })

  test.each([undefined, 'opaqueredirect'])(
    'where fetch hides a redirect behind the status 0, with the type %s',
    async (type) => {
      const opaque = { status: 0, type, headers: new Headers(), text: () => Promise.resolve('') }
      const heard = listen()
      const fetch = () => Promise.resolve(opaque)
      const analytics = createClient({ ...scriptedFetch(), fetch }, heard.hooks)
      trackMany(analytics, 1)
      expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
      expect(heard.failed[0]?.error.message).toMatch(/^The endpoint answered 0\. Redirects are not/)
    },
  )
})

test.each(REDIRECTS.filter((status) => status !== 304))('a %i is not followed', async (status) => {
  const collector = await startCollector()
  const other = await startCollector()
  collector.script({ status, headers: { Location: `${other.url}/v1/batch` } })
  const analytics = createClient(collector)
  trackMany(analytics, 1)
  expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
  expect(other.arrivals).toEqual([])
  expect(collector.arrivals).toHaveLength(1)
})

test.each([200, 201, 202, 204])('a %i is a delivery, whatever its body', async (status) => {
  for (const body of ['', '{', 'null', '[]', '"rejected"', '{"rejected":7}', '{"success":false}']) {
    const headers = { 'Content-Length': String(body.length) }
    const net = scriptedFetch({ status, headers, body })
    const analytics = createClient(net)
    trackMany(analytics, 2)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(net.arrivals).toHaveLength(1)
  }
})

describe('back-off', () => {
  test('is exponential, from 250 ms to 30 s', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(200_000)
    const times = net.arrivals.map(({ body }) => Date.parse(body.sentAt))
    const waits = times.slice(1).map((time, i) => time - (times[i] ?? 0))
    const least = [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]
    expect(waits.length).toBeGreaterThanOrEqual(least.length)
    for (const [i, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(least[i] ?? 15_000)
      expect(wait).toBeLessThanOrEqual((least[i] ?? 15_000) * 2 + 1)
    }
  })

  test('starts over after an attempt gets through', async () => {
    useFakeClock()
    const net = scriptedFetch(503, 503, 503, 503, 200, 503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(20_000)
    expect(net.arrivals).toHaveLength(5)
    trackMany(analytics, 1, 1)
    await turns()
    expect(net.arrivals).toHaveLength(6)
    await pass(500)
    expect(net.arrivals).toHaveLength(7)
  })

  test('starts over after a refusal too: the endpoint is there', async () => {
    useFakeClock()
    const net = scriptedFetch(503, 503, 503, 503, 401, 503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(20_000)
    expect(net.arrivals).toHaveLength(5)
    trackMany(analytics, 1, 1)
    await pass(500)
    expect(net.arrivals).toHaveLength(7)
  })

  test('holds for all batches: nothing is sent meanwhile, flush() or not', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise({ status: 503, headers: { 'Retry-After': '60' } })
    const analytics = createClient(net, { flushAt: 2, flushAfter: 100 })
    trackMany(analytics, 2)
    await pass(1)
    for (let i = 0; i < 20; i++) {
      trackMany(analytics, 7, 2 + i * 7)
      void analytics.flush()
      await pass(1_000)
    }
    expect(net.arrivals).toHaveLength(1)
  })

  test('ends with one batch that probes; the rest follows once it gets through', async () => {
    useFakeClock()
    const gate = held()
    const net = scriptedFetch(503)
    const analytics = createClient(net, { flushAt: 2 })
    trackMany(analytics, 2)
    await turns()
    trackMany(analytics, 40, 2)
    net.script(gate.reply as never)
    await pass(500)
    expect(countEvents(net.arrivals)).toEqual([2, 2])
    await pass(5_000)
    expect(net.arrivals).toHaveLength(2)
    gate.release(200)
    await pass(10)
    expect(countEvents(net.arrivals)).toEqual([2, 2, 40])
    expect(events(net.arrivals[1], net.arrivals[2])).toEqual(names(0, 42))
  })

  test('with flushAt 1 too: one probe, and after a failed one no rush', async () => {
    useFakeClock()
    const random = vi.spyOn(Math, 'random').mockReturnValue(1)
    onTestFinished(() => {
      random.mockRestore()
    })
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 40)
    await turns()
    // 16 had started before the first answer.
    expect(net.arrivals).toHaveLength(16)
    await pass(500)
    expect(net.arrivals).toHaveLength(17)
    await pass(1_000)
    expect(net.arrivals).toHaveLength(18)
    await pass(2_000)
    // After four failures, the message behind the first one shows at once whether the endpoint takes others.
    expect(events(...net.arrivals.slice(16))).toEqual(['e0', 'e0', 'e0', 'e1'])
    const gate = held()
    net.script(gate.reply as never)
    net.otherwise('hang')
    // Two failures more make the wait four times as long.
    await pass(7_999)
    expect(net.arrivals).toHaveLength(20)
    await pass(1)
    expect(net.arrivals).toHaveLength(21)
    expect(events(net.arrivals[20])).toEqual(['e0'])
    gate.release(200)
    await turns()
    // It got through: 16 at a time again, the oldest first.
    expect(net.arrivals).toHaveLength(37)
    expect(events(...net.arrivals.slice(21))).toEqual(names(1, 17))
  })

  test('is not ended by the late success of a request from before it', async () => {
    useFakeClock()
    const early = held()
    const net = scriptedFetch(early.reply as never, 503)
    net.otherwise(503)
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 20)
    await turns()
    expect(net.arrivals).toHaveLength(16)
    early.release(200)
    await turns()
    expect(net.arrivals).toHaveLength(16)
    await pass(500)
    expect(net.arrivals).toHaveLength(17)
    await pass(1_000)
    expect(net.arrivals).toHaveLength(18)
  })
})

describe('Retry-After', () => {
  const cases: [what: string, header: string, ms: number][] = [
    ['seconds', '7', 7_000],
    ['an HTTP date', 'Fri, 02 Jan 2026 03:04:35 GMT', 30_000],
    ['seconds over the cap of 5 minutes', '3600', 300_000],
    ['a date over the cap of 5 minutes', 'Fri, 02 Jan 2026 04:04:05 GMT', 300_000],
  ]
  for (const status of [408, 429, 500, 503, 529]) {
    test.each(cases)(`of a ${status} is honoured: %s`, async (_, header, ms) => {
      useFakeClock('2026-01-02T03:04:05.000Z')
      const net = scriptedFetch({ status, headers: { 'Retry-After': header } })
      const analytics = createClient(net, { flushAt: 1 })
      trackMany(analytics, 1)
      await pass(ms - 1)
      expect(net.arrivals).toHaveLength(1)
      await pass(1)
      expect(net.arrivals).toHaveLength(2)
    })
  }

  test('that is shorter than the back-off does not shorten it', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise({ status: 503, headers: { 'retry-after': '1' } })
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await pass(120_000)
    const count = net.arrivals.length
    await pass(14_000)
    expect(net.arrivals.length - count).toBeLessThanOrEqual(1)
  })

  test('of one batch holds for all, with flushAt 1', async () => {
    useFakeClock()
    const net = scriptedFetch({ status: 429, headers: { 'Retry-After': '60' } })
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await turns()
    trackMany(analytics, 30, 1)
    await pass(59_000)
    expect(net.arrivals).toHaveLength(1)
    await pass(1_000)
    expect(new Set(events(...net.arrivals)).size).toBe(31)
  })

  test('is not cut short by close()', async () => {
    useFakeClock()
    const net = scriptedFetch({ status: 429, headers: { 'Retry-After': '20' } })
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await turns()
    const closed = analytics.close()
    await pass(19_999)
    expect(net.arrivals).toHaveLength(1)
    await pass(1)
    expect(await closed).toEqual({ delivered: 1, failed: 0 })
  })

  test('of a refusal means nothing', async () => {
    useFakeClock()
    const net = scriptedFetch({ status: 404, headers: { 'Retry-After': '60' } })
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 1)
    await turns()
    trackMany(analytics, 1, 1)
    await turns()
    expect(net.arrivals).toHaveLength(2)
  })
})

describe('maxRetries', () => {
  const statuses = [
    { status: 503, maxRetries: 0 },
    { status: 503, maxRetries: 1 },
    { status: 429, maxRetries: 3 },
  ]
  test.each(statuses)(
    '$maxRetries: given up after that many retries, and reported',
    async ({ status, maxRetries }) => {
      useFakeClock()
      const heard = listen()
      const net = scriptedFetch()
      net.otherwise({ status, body: 'overloaded' })
      const analytics = createClient(net, { ...heard.hooks, flushAt: 2, maxRetries })
      trackMany(analytics, 2, 0, heard.as)
      await pass(60_000)
      expect(net.arrivals).toHaveLength(maxRetries + 1)
      expect(heard.codes).toEqual(['e0: retries_exhausted', 'e1: retries_exhausted'])
      expect(heard.failed).toHaveLength(1)
      const { error } = heard.failed[0] ?? {}
      expect(error).toBeInstanceOf(RetriesExhaustedError)
      expect(error).toMatchObject({ attempts: maxRetries + 1 })
      expect((error?.cause as Error).message).toContain(`${status}: overloaded`)
      expect(error?.message).toContain(String(status))
      expect(analytics.stats()).toMatchObject({ dropped: 2, rejected: 0, pending: 0 })
    },
  )

  test('of several holds for each message, though a batch that fails alike is tried in pieces', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net, { ...heard.hooks, flushAt: 20, maxRetries: 3 })
    trackMany(analytics, 20, 0, heard.as)
    await pass(60_000)
    expect(countEvents(net.arrivals)).toEqual([20, 20, 1, 1, 19, 10, 9])
    for (const name of names(0, 20)) {
      expect(events(...net.arrivals).filter((event) => event === name)).toHaveLength(4)
    }
    expect(heard.codes).toEqual(names(0, 20).map((name) => `${name}: retries_exhausted`))
  })

  test('counts for each batch, and the next one is tried', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch(500, 500, 500)
    const analytics = createClient(net, { flushAt: 1, maxRetries: 1 })
    trackMany(analytics, 1, 0, heard.as)
    await pass(2_000)
    trackMany(analytics, 1, 1, heard.as)
    await pass(10_000)
    expect(heard.codes).toEqual(['e0: retries_exhausted', 'e1: ok'])
    expect(events(...net.arrivals)).toEqual(['e0', 'e0', 'e1', 'e1'])
  })

  test('does not count the halves of a split', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch(413, 413, 503, 200, 200, 503, 200)
    const analytics = createClient(net, { flushAt: 4, maxRetries: 1 })
    trackMany(analytics, 4, 0, heard.as)
    await pass(60_000)
    expect(heard.codes).toEqual(names(0, 4).map((name) => `${name}: ok`))
  })

  test('Infinity, the default, is an outage without end', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = createClient(net)
    trackMany(analytics, 1)
    await pass(3_600_000)
    expect(net.arrivals.length).toBeGreaterThan(100)
    expect(analytics.stats()).toMatchObject({ pending: 1, dropped: 0 })
  })
})

describe.each([413, 400])('a %i', (status) => {
  test('for several messages splits down to the poison message, its neighbours are delivered', async () => {
    const collector = await startCollector()
    collector.otherwise(({ messages }) =>
      messages.some(({ event }) => event === 'e5') ? { status, body: 'bad e5' } : 200,
    )
    const heard = listen()
    const analytics = createClient(collector, { ...heard.hooks, flushAt: 8 })
    trackMany(analytics, 8, 0, heard.as)
    trackMany(analytics, 8, 8, heard.as)
    expect(await analytics.flush()).toEqual({ delivered: 15, failed: 1 })
    expect(collector.accepted.map(({ event }) => event)).toEqual(
      names(0, 16).filter((name) => name !== 'e5'),
    )
    expect(heard.codes).toEqual(
      names(0, 16).map((name) => `${name}: ${name === 'e5' ? 'rejected' : 'ok'}`),
    )
    expect(heard.failed).toHaveLength(1)
    expect(heard.failed[0]?.error).toMatchObject({ status, detail: 'bad e5' })
    // Both batches had gone out together; halving 16 down to one takes four steps.
    expect(countEvents(collector.arrivals)).toEqual([16, 8, 4, 4, 2, 1, 1, 2, 8])
    expect(collector.mostInFlight).toBe(1)
  })

  test('for one message rejects it at once', async () => {
    const heard = listen()
    const net = scriptedFetch(status)
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
    expect(net.arrivals).toHaveLength(1)
    expect(heard.failed[0]?.error).toMatchObject({ status })
  })

  test('for an odd number loses none', async () => {
    const net = scriptedFetch()
    net.otherwise(({ messages }) => (messages.length > 1 ? status : 200))
    const analytics = createClient(net, { flushAt: 7 })
    trackMany(analytics, 7)
    expect(await analytics.flush()).toEqual({ delivered: 7, failed: 0 })
    const singles = net.arrivals.filter(({ messages }) => messages.length === 1)
    expect(events(...singles)).toEqual(names(0, 7))
  })

  test('gives halves their own envelope ids, and says that these messages were tried', async () => {
    const net = scriptedFetch(status)
    const analytics = createClient(net)
    trackMany(analytics, 4)
    await analytics.flush()
    expect(countEvents(net.arrivals)).toEqual([4, 2, 2])
    expect(new Set(net.arrivals.map(({ body }) => body.messageId)).size).toBe(3)
    expect(net.arrivals.map(({ headers }) => headers['x-retry-count'])).toEqual([
      undefined,
      '1',
      '1',
    ])
  })

  test('halves come before what was recorded later, through an outage between them', async () => {
    useFakeClock()
    const net = scriptedFetch(status, 503, 200, 503)
    const analytics = createClient(net, { flushAt: 4 })
    trackMany(analytics, 4)
    await turns()
    trackMany(analytics, 4, 4)
    await pass(60_000)
    const delivered = net.arrivals.filter((_, i) => i !== 0 && i !== 1 && i !== 3)
    expect(events(...delivered)).toEqual(names(0, 8))
  })
})

describe('a 2xx that rejects some messages', () => {
  const answer = (...rejected: unknown[]) => ({ body: JSON.stringify({ success: true, rejected }) })

  test('rejects just those', async () => {
    const heard = listen()
    const net = scriptedFetch(
      answer(
        { index: 1, code: 'invalid_event', message: 'no such event' },
        { index: 3, code: 'late', message: 'too old' },
      ),
    )
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 5, 0, heard.as)
    expect(await analytics.flush()).toEqual({ delivered: 3, failed: 2 })
    expect(heard.codes.sort()).toEqual([
      'e0: ok',
      'e1: rejected',
      'e2: ok',
      'e3: rejected',
      'e4: ok',
    ])
    expect(heard.failed.map(({ error, messages }) => [error.message, messages.length])).toEqual([
      ['The endpoint refused this message: no such event (invalid_event).', 1],
      ['The endpoint refused this message: too old (late).', 1],
    ])
    expect(heard.failed[0]?.error).toMatchObject({ status: 200, detail: 'invalid_event' })
    expect(heard.failed[0]?.messages[0]?.json).toContain('"event":"e1"')
    expect(heard.delivered).toMatchObject([{ messages: 3, attempts: 1 }])
    expect(analytics.stats()).toMatchObject({ accepted: 5, delivered: 3, rejected: 2, pending: 0 })
    expect(net.arrivals).toHaveLength(1)
  })

  test('all of them: nothing is reported as delivered', async () => {
    const heard = listen()
    const net = scriptedFetch(answer({ index: 0, code: 'a', message: 'b' }))
    const analytics = createClient(net, heard.hooks)
    trackMany(analytics, 1, 0, heard.as)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
    expect(heard.delivered).toEqual([])
    expect(heard.codes).toEqual(['e0: rejected'])
  })

  const rubbish: [string, unknown[]][] = [
    ['an index beyond the batch', [{ index: 2, code: 'a', message: 'b' }]],
    ['a negative index', [{ index: -1, code: 'a', message: 'b' }]],
    ['an index that is no whole number', [{ index: 0.5 }, { index: '0' }, { index: null }, {}]],
    ['what is no object', [null, 0, 'rejected', [0], true]],
  ]
  test.each(rubbish)('%s means nothing', async (_, rejected) => {
    const net = scriptedFetch(answer(...rejected))
    const analytics = createClient(net)
    trackMany(analytics, 2)
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
  })

  test('the same one twice rejects it once', async () => {
    const heard = listen()
    const entry = { index: 0, code: 'a', message: 'b' }
    const analytics = createClient(scriptedFetch(answer(entry, entry)), heard.hooks)
    trackMany(analytics, 2, 0, heard.as)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 1 })
    expect(heard.outcomes).toHaveLength(2)
  })

  test('without a code or a message rejects it all the same', async () => {
    const heard = listen()
    const analytics = createClient(scriptedFetch(answer({ index: 0 })), heard.hooks)
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
    expect(heard.failed).toHaveLength(1)
  })
})

test('messages that are given up together are reported in the order of their calls', async () => {
  const collector = await startCollector()
  collector.otherwise(400)
  const reports: number[][] = []
  const analytics = createClient(collector, {
    flushAt: 60,
    onFailed: ({ messages }) => {
      const events = messages.map(({ json }) => (JSON.parse(json ?? '') as { event: string }).event)
      reports.push(events.map((event) => Number(event.slice(1))))
    },
  })
  trackMany(analytics, 60)
  await analytics.flush()
  expect(reports.flat().sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, i) => i))
  expect(Math.max(...reports.map(({ length }) => length))).toBeGreaterThan(30)
  for (const report of reports) expect(report).toEqual(report.toSorted((a, b) => a - b))
})
