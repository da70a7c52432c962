import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  Analytics,
  MessageTooLargeError,
  type AnalyticsOptions,
  type DeliveredReport,
  type FailedReport,
  type HooklineError,
  type Stats,
} from '../src/index.js'
import { readRejections } from '../src/rejections.js'
import { backoffMs, retryAfterMs } from '../src/retry.js'
import { anyCharacter } from './characters.js'
import {
  createClient,
  IN_TIME,
  names,
  pass,
  passUntil,
  scriptedFetch,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
  type Arrival,
  type FetchReply,
  type Reply,
} from './collector.js'

// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.

const MAX_BODY_BYTES = 500_000
const MAX_BODY_MESSAGES = 2_500
const MAX_MESSAGE_BYTES = 32_768

/** Text of one alphabet or of several, short or longer than the largest message. */
const text = fc
  .tuple(
    fc.constantFrom('i', 'é', '€', '𝄞', '"', '\\', '\n', '\u0001', '\u2028', '\uD800', '<mixed>'),
    fc.oneof(
      { weight: 6, arbitrary: fc.nat(300) },
      { weight: 2, arbitrary: fc.integer({ min: 7_500, max: 9_000 }) },
      { weight: 2, arbitrary: fc.integer({ min: 20_000, max: 33_500 }) },
    ),
    fc.string({ unit: anyCharacter, maxLength: 30 }),
  )
  .map(([unit, length, mixed]) => {
    const fill = unit === '<mixed>' ? mixed || 'x' : unit
    const each = Buffer.byteLength(JSON.stringify(fill)) - 2
    return fill.repeat(Math.floor(length / each))
  })

describe('bodies', () => {
  test('carry every message once, in order, byte for byte, within the limits', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(text, { minLength: 1, maxLength: 120 }),
        fc.constantFrom(1, 2, 7, 20, 100, 5_000),
        fc.array(fc.nat(120), { maxLength: 4 }),
        async (texts, flushAt, flushes) => {
          const net = scriptedFetch()
          const analytics = new Analytics('k', { fetch: net.fetch, flushAt })
          const given: { event: string; fill: string }[] = []
          let bytes = 0
          for (const [i, fill] of texts.entries()) {
            const event = `e${i}`
            const before = analytics.stats().pendingBytes
            try {
              analytics.track({ userId: 'u', event, properties: { fill } })
              given.push({ event, fill })
              const own = analytics.stats().pendingBytes - before
              expect(own).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
              bytes += own
            } catch (error) {
              expect(error).toBeInstanceOf(MessageTooLargeError)
              expect((error as MessageTooLargeError).bytes).toBeGreaterThan(MAX_MESSAGE_BYTES)
            }
            if (flushes.includes(i)) void analytics.flush()
          }
          await analytics.close()
          const sent = net.arrivals.flatMap(({ messages }) => messages)
          const inOrder = flushAt === 1 ? sent.sort(byNumber) : sent
          expect(
            inOrder.map(({ event, properties }) => ({ event, fill: properties?.['fill'] })),
          ).toEqual(given)
          for (const { bytes: body, messages } of net.arrivals) {
            expect(body.length).toBeLessThanOrEqual(MAX_BODY_BYTES)
            expect(messages.length).toBeLessThanOrEqual(flushAt === 1 ? 1 : MAX_BODY_MESSAGES)
          }
          // The bytes that were counted are the bytes that were sent.
          const onTheWire = net.arrivals.reduce((sum, arrival) => sum + messageBytes(arrival), 0)
          expect(onTheWire).toBe(bytes)
          expect(analytics.stats()).toMatchObject({ delivered: given.length, pendingBytes: 0 })
        },
      ),
      { numRuns: 60 },
    )
  })

  const byNumber = (a: { event?: string | undefined }, b: { event?: string | undefined }) =>
    Number(a.event?.slice(1)) - Number(b.event?.slice(1))

  const messageBytes = ({ json, body, messages }: Arrival) => {
    const envelope = JSON.stringify({ ...body, batch: [] })
    return Buffer.byteLength(json) - Buffer.byteLength(envelope) - (messages.length - 1)
  }

  test('of many small messages are cut at 2,500', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 8_000 }), async (count) => {
        const net = scriptedFetch()
        const analytics = new Analytics('k', { fetch: net.fetch, flushAt: 1_000_000 })
        for (let i = 0; i < count; i++) analytics.track({ userId: 'u', event: `e${i}` })
        await analytics.close()
        const lengths = net.arrivals.map(({ messages }) => messages.length)
        expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(count)
        expect(Math.max(...lengths)).toBeLessThanOrEqual(MAX_BODY_MESSAGES)
        expect(net.arrivals.flatMap(({ messages }) => messages.map(({ event }) => event))).toEqual(
          Array.from({ length: count }, (_, i) => `e${i}`),
        )
      }),
      { numRuns: 8 },
    )
  })
})

type Operation =
  | { do: 'track'; count: number; bytes: number }
  | { do: 'flush' | 'flush briefly' | 'invalid' }
  | { do: 'pass'; ms: number }

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('track' as const),
      count: fc.integer({ min: 1, max: 30 }),
      bytes: fc.integer({ min: 0, max: 3_000 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constantFrom('flush', 'flush briefly', 'invalid') }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(0, 1, 3, 100, 600, 5_000, 12_000, 40_000),
    }),
  },
)

type Fault = number | 'throw' | 'hang' | 'reject some' | 'accept, then fail'

const fault: fc.Arbitrary<Fault> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Fault>(200) },
  {
    weight: 4,
    arbitrary: fc.constantFrom<Fault>(204, 302, 400, 401, 408, 413, 429, 500, 501, 503),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Fault>('throw', 'hang', 'reject some', 'accept, then fail'),
  },
)

test('the books balance at every instant, and say what the collector saw', async () => {
  useFakeClock()
  await fc.assert(
    fc.asyncProperty(
      fc.array(operation, { minLength: 1, maxLength: 25 }),
      fc.array(fault, { maxLength: 25 }),
      fc.record({
        flushAt: fc.constantFrom(1, 2, 20),
        maxQueueBytes: fc.constantFrom(2_000, 20_000, 67_108_864),
        overflow: fc.constantFrom('drop-newest' as const, 'drop-oldest' as const),
        maxRetries: fc.constantFrom(0, 2, Infinity),
        dropEvery: fc.constantFrom(0, 7),
      }),
      fc.constantFrom(0, 3_000, 30_000),
      runBooks,
    ),
    { numRuns: 150 },
  )
}, 120_000)

async function runBooks(
  operations: Operation[],
  faults: Fault[],
  { dropEvery, ...options }: AnalyticsOptions & { dropEvery: number },
  closeTimeout: number,
): Promise<void> {
  // What the collector took, by event: its own account, to compare with that of the client.
  const taken = new Set<string>()
  const refused = new Set<string>()
  const queue = [...faults]
  const net = scriptedFetch()
  let inFlight = 0
  let mostInFlight = 0

  const answer = ({ messages }: Arrival): FetchReply => {
    const names = messages.map(({ event }) => event ?? '')
    const next = queue.shift() ?? 200
    if (next === 'throw') return new Error('reset')
    if (next === 'hang') return 'hang'
    if (next === 'accept, then fail') return 503
    if (next === 'reject some') {
      const rejected = names.flatMap((_, index) =>
        index % 3 === 0 ? [{ index, code: 'x', message: 'y' }] : [],
      )
      for (const [index, name] of names.entries()) (index % 3 ? taken : refused).add(name)
      return { status: 200, body: JSON.stringify({ rejected }) }
    }
    if (next >= 200 && next < 300) for (const name of names) taken.add(name)
    return next
  }
  net.otherwise(answer)
  const fetch: typeof net.fetch = async (url, init) => {
    mostInFlight = Math.max(mostInFlight, ++inFlight)
    const done = () => inFlight--
    const signal = init.signal as AbortSignal
    signal.addEventListener('abort', done, { once: true })
    const response = await net.fetch(url, init).finally(() => {
      signal.removeEventListener('abort', done)
      done()
    })
    return response
  }

  const check = (): Stats => {
    const stats = analytics.stats()
    const { accepted, delivered, rejected, dropped, pending, pendingBytes } = stats
    const counts = [delivered, rejected, dropped, pending, pendingBytes]
    const isRight =
      accepted === delivered + rejected + dropped + pending &&
      counts.every((count) => count >= 0) &&
      (pendingBytes === 0) === (pending === 0)
    // This runs a hundred thousand times, and each expect() takes longer than the call of the client that it looks at.
    if (!isRight) expect.fail(`the books do not balance: ${JSON.stringify(stats)}`)
    return stats
  }
  // What is thrown inside a hook is caught by the client: kept here, and thrown at the end.
  const complaints: unknown[] = []
  const look = () => {
    try {
      check()
    } catch (error) {
      complaints.push(error)
    }
  }

  const outcomes = new Map<string, (HooklineError | undefined)[]>()
  let reportedDelivered = 0
  let reportedLost = 0
  let made = 0
  const analytics = new Analytics('k', {
    ...options,
    fetch,
    onInvalid: 'report',
    beforeSend: (message) => {
      look()
      return dropEvery && made % dropEvery === 0 ? null : message
    },
    onDelivered: ({ messages }: DeliveredReport) => {
      look()
      reportedDelivered += messages
    },
    onFailed: ({ messages, error }: FailedReport) => {
      look()
      if (error.code !== 'invalid_message') reportedLost += messages.length
    },
  })
  const track = (bytes: number) => {
    const name = `e${made++}`
    outcomes.set(name, [])
    analytics.track(
      { userId: 'u', event: name, properties: { fill: 'x'.repeat(bytes) } },
      (error) => {
        look()
        outcomes.get(name)?.push(error)
      },
    )
    expect(outcomes.get(name)).toEqual([])
    check()
  }

  const flushes: Promise<void>[] = []
  for (const step of operations) {
    if (step.do === 'track') for (let i = 0; i < step.count; i++) track(step.bytes)
    else if (step.do === 'pass') await pass(step.ms)
    else if (step.do === 'invalid') {
      Reflect.apply(analytics.track.bind(analytics), undefined, [{ event: 'no identity' }])
    } else {
      const timeout = step.do === 'flush' ? Infinity : 50
      const { pending } = check()
      const before = [...outcomes.keys()]
      const flushed = analytics.flush({ timeout }).then(({ delivered, failed }) => {
        expect(delivered + failed).toBeLessThanOrEqual(pending)
        if (timeout !== Infinity) return
        expect(delivered + failed).toBe(pending)
        // One that made room in a call has its outcome before its callback is told.
        if (options.overflow === 'drop-oldest') return
        expect(before.filter((name) => outcomes.get(name)?.length === 0)).toEqual([])
      })
      flushes.push(flushed)
    }
    check()
  }
  const closed = analytics.close({ timeout: closeTimeout })
  track(0)
  await pass(closeTimeout)
  await closed
  await Promise.all(flushes)
  await turns()

  const stats = check()
  expect(complaints).toEqual([])
  expect(stats).toMatchObject({ accepted: made, pending: 0, pendingBytes: 0 })
  const told = [...outcomes].map(([name, errors]) => ({ name, errors }))
  expect(told.filter(({ errors }) => errors.length !== 1)).toEqual([])
  const count = (code: string | undefined) =>
    told.filter(({ errors: [error] }) => error?.code === code).length
  expect(stats.delivered).toBe(count(undefined))
  expect(stats.rejected).toBe(count('rejected'))
  expect(stats.dropped).toBe(made - stats.delivered - stats.rejected)
  expect(reportedDelivered).toBe(stats.delivered)
  expect(reportedLost).toBe(stats.rejected + stats.dropped - count('before_send'))
  // What the client calls delivered is what the collector took, and the other way round.
  const delivered = told.filter(({ errors: [error] }) => !error).map(({ name }) => name)
  expect(delivered).toEqual([...outcomes.keys()].filter((name) => taken.has(name)))
  expect(mostInFlight).toBeLessThanOrEqual(options.flushAt === 1 ? 16 : 1)
}

// From the fourth failure on, the message behind shows whether the endpoint takes others: an endpoint that recovers
// between these two requests gets that one first. Longer outages, which end in a pause, are in isolation.test.ts.
test('through random faults of a real server, every message is accepted once, in order', async () => {
  useFakeClock()
  const networkFault = fc.constantFrom<Reply>('reset', 'reset unread', 503, 429, 413, 408)
  const step = fc.record({ count: fc.integer({ min: 1, max: 40 }), ms: fc.constantFrom(0, 5, 700) })
  await fc.assert(
    fc.asyncProperty(
      fc.array(networkFault, { maxLength: 3 }),
      fc.array(step, { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      async (faults, steps, gzip) => {
        const collector = await startCollector()
        // A 413 for one message alone would lose it, rightly: here none is alone for long.
        collector.script(...faults.map((reply) => unlessAlone(reply)))
        const analytics = createClient(collector, { ...IN_TIME, gzip, flushAt: 5 })
        let made = 0
        for (const { count, ms } of steps) {
          trackMany(analytics, count, made)
          made += count
          await pass(ms)
        }
        let result: unknown
        void analytics.close({ timeout: Infinity }).then((closed) => (result = closed))
        await passUntil(() => result !== undefined)
        expect(collector.accepted.map(({ event }) => event)).toEqual(names(0, made))
        expect(analytics.stats()).toMatchObject({ accepted: made, delivered: made, pending: 0 })
        expect(collector.mostInFlight).toBe(1)
      },
    ),
    { numRuns: 40 },
  )
})

const unlessAlone =
  (reply: Reply): Reply =>
  ({ messages }) =>
    reply === 413 && messages.length === 1 ? 200 : reply

describe('pure decisions', () => {
  test('a back-off is from 250 ms to 30 s, and never shrinks with more failures', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), random, (failures, chance) => {
        const delay = backoffMs(failures, chance)
        expect(delay).toBeGreaterThanOrEqual(250)
        expect(delay).toBeLessThanOrEqual(30_000)
        expect(backoffMs(failures + 1, chance)).toBeGreaterThanOrEqual(delay)
      }),
    )
  })
  const random = fc.double({ min: 0, max: 1, noNaN: true })

  test('a Retry-After of whatever text is from 0 to 5 minutes', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.nat().map(String)), fc.nat(), (header, now) => {
        const delay = retryAfterMs(header, now)
        expect(delay).toBeGreaterThanOrEqual(0)
        expect(delay).toBeLessThanOrEqual(300_000)
      }),
    )
  })

  test('an answer of whatever JSON names only messages of its batch', () => {
    fc.assert(
      fc.property(fc.json(), fc.array(fc.jsonValue()), fc.nat(20), (any, rejected, length) => {
        for (const body of [any, JSON.stringify({ rejected }), `{"rejected":${any}`]) {
          for (const index of readRejections(body, length).keys()) {
            expect(Number.isInteger(index) && index >= 0 && index < length).toBe(true)
          }
        }
      }),
    )
  })
})
