// @module-tag long
// What the deliver stage promises of healthy messages and endpoints, on a virtual clock and at random.
// fast-check prints the seed and the path of a failure: give them to `fc.assert` to see it again.
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { OutcomeCode } from '../../src/model/outcome.js'
import { createWorld, type Answer, type Behaviour } from './world.js'

beforeEach(() => {
  vi.useFakeTimers({
    toFake: [
      'setTimeout',
      'clearTimeout',
      'setInterval',
      'clearInterval',
      'setImmediate',
      'performance',
    ],
  })
})
afterEach(() => {
  vi.useRealTimers()
})

const endpointOf = (concurrency: number, n = 0) => ({
  url: `https://${n}.example.com/`,
  headers: {},
  concurrency,
})

/** A number from 0 up to 1 that depends on a seed alone. */
function randomFrom(seed: number) {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** How late a healthy message may be where some arrive in each second. */
const LATE_MS = 120_000

/** How late it may be where hardly anything else is sent: a few rounds of four probes, 36 s apart at most. */
const LATEST_MS = 480_000

/** The same rounds each time, so that only a change turns them red. `RUNS=1000` searches among new ones. */
const { RUNS } = process.env
const ROUNDS = RUNS === undefined ? { numRuns: 6, seed: 1 } : { numRuns: Number(RUNS) }

const isPoison = (message: string) => message.startsWith('poison')

describe('messages that always fail', () => {
  /** Endpoints that take everything but messages that always fail. */
  const taking =
    (afterMs: number, failure: Answer): Behaviour =>
    (message) =>
      isPoison(message) ? failure : { code: 'delivered', afterMs }

  async function play(given: {
    poison: number
    share: number
    perSecond: number
    concurrency: number
    latencyMs: number
    failure: Answer
    seed: number
  }) {
    const { poison, share, perSecond, concurrency, latencyMs, failure, seed } = given
    const random = randomFrom(seed)
    const lateMs = perSecond < 5 ? LATEST_MS : LATE_MS
    const behave = taking(latencyMs, failure)
    const world = createWorld([{ settings: endpointOf(concurrency), behave }], random)
    await world.pass(250)
    for (let i = 0; i < poison; i++) world.arrive(`poison ${i}`)
    for (let i = 0; i < 120 * perSecond; i++) {
      world.arrive(random() < share ? `poison late ${i}` : `good ${i}`)
      await world.pass(1_000 / perSecond)
    }
    await world.pass(LATEST_MS)
    const good = world.rows.filter(({ message }) => !isPoison(message))
    const late = good.filter(({ doneAt, arrivedAt }) => (doneAt ?? Infinity) - arrivedAt > lateMs)
    await world.close()
    return { good: good.length, late: late.length }
  }

  test('in front of others do not hold them up', async () => {
    const { good, late } = await play({
      poison: 200,
      share: 0,
      perSecond: 5,
      concurrency: 128,
      latencyMs: 20,
      failure: { code: 'server_error', afterMs: 20 },
      seed: 1,
    })
    expect({ good, late }).toEqual({ good: 600, late: 0 })
  })

  test('at random do not hold others up', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          poison: fc.integer({ min: 0, max: 400 }),
          share: fc.constantFrom(0, 0, 0.02, 0.1),
          perSecond: fc.constantFrom(0.1, 1, 5, 20),
          concurrency: fc.constantFrom(2, 8, 32, 128),
          latencyMs: fc.integer({ min: 1, max: 100 }),
          failure: fc.constantFrom<Answer>(
            { code: 'server_error', afterMs: 1 },
            { code: 'connection_reset', afterMs: 50 },
          ),
          seed: fc.integer({ min: 0 }),
        }),
        async (given) => {
          const { late } = await play(given)
          expect(late).toBe(0)
        },
      ),
      ROUNDS,
    )
  })
})

describe('a fast endpoint beside a slow one', () => {
  /** How many of 1,000 messages that wait it has got after 12 seconds. */
  async function sent(concurrency: number, slow: { rateLimit?: number; latencyMs: number }) {
    const { latencyMs, ...limit } = slow
    const fast = endpointOf(concurrency, 1)
    const world = createWorld(
      [
        {
          settings: { ...endpointOf(concurrency), ...limit },
          behave: () => ({ code: 'delivered', afterMs: latencyMs }),
        },
        { settings: fast, behave: () => ({ code: 'delivered', afterMs: 1 }) },
      ],
      randomFrom(1),
    )
    await world.pass(250)
    for (let i = 0; i < 1_000; i++) world.arrive(`m${i}`)
    await world.pass(12_000)
    const got = new Set(
      world.requests.filter(({ url }) => url === fast.url).map(({ message }) => message),
    )
    await world.close()
    return got.size
  }

  test.each([1, 2, 3, 4, 8, 128])(
    'gets its messages at its own pace, with a concurrency of %i',
    async (concurrency) => {
      expect(await sent(concurrency, { rateLimit: 20, latencyMs: 1 })).toBe(1_000)
      expect(await sent(concurrency, { latencyMs: 1_000 })).toBe(1_000)
    },
  )
})

describe('a slow endpoint that gets more new messages than it takes', () => {
  test('at random gets in time what the fast one beside it fails or refuses', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          concurrency: fc.integer({ min: 2, max: 20 }),
          latencyMs: fc.integer({ min: 500, max: 2_000 }),
          code: fc.constantFrom<OutcomeCode>('server_error', 'client_error'),
          isBulk: fc.boolean(),
          seed: fc.integer({ min: 0 }),
        }),
        async ({ concurrency, latencyMs, code, isBulk, seed }) => {
          const slow: Behaviour = () => ({ code: 'delivered', afterMs: latencyMs })
          const fast: Behaviour = (message) => ({
            code: isPoison(message) ? code : 'delivered',
            afterMs: 5,
          })
          const world = createWorld(
            [
              { settings: endpointOf(concurrency), behave: slow },
              { settings: endpointOf(128, 1), behave: fast },
            ],
            randomFrom(seed),
          )
          const taken = (concurrency * 1_000) / latencyMs
          const everyMs = 1_000 / (3 * taken)
          await world.pass(250)
          // Each 30th is a tenth of what it takes: its share of turns is a fifth of that, or more.
          for (let i = 0; i < 60 * taken; i++) {
            if (i % 30 === 0) world.arrive(`poison ${i}`, isBulk)
            world.arrive(`good ${i}`)
            await world.pass(everyMs)
          }
          for (let i = 0; i < 180 * taken; i++) {
            world.arrive(`good later ${i}`)
            await world.pass(everyMs)
          }
          const waiting = world.rows.filter((row) => isPoison(row.message) && row.state !== 'done')
          await world.close()
          expect(waiting.map(({ message }) => message)).toEqual([])
        },
      ),
      ROUNDS,
    )
  })

  const QUOTA = {
    limit: 64,
    isQuota: true,
    slow: [{ part: 1, latencyMs: 500 }],
    fastMs: 5,
    perSecond: 50,
    isBulk: false,
    seed: 0,
  }

  test('at random does not delay the fast one, however few requests the process or the tenant may make at once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          limit: fc.integer({ min: 64, max: 1_024 }),
          isQuota: fc.boolean(),
          slow: fc.array(
            fc.record({
              /** How many requests it takes at once, for each 1,024 that may be under way. */
              part: fc.integer({ min: 1, max: 64 }),
              latencyMs: fc.integer({ min: 500, max: 8_000 }),
            }),
            { minLength: 1, maxLength: 4 },
          ),
          fastMs: fc.integer({ min: 1, max: 100 }),
          perSecond: fc.integer({ min: 50, max: 200 }),
          isBulk: fc.boolean(),
          seed: fc.integer({ min: 0 }),
        }),
        async ({ limit, isQuota, slow, fastMs, perSecond, isBulk, seed }) => {
          const world = createWorld(
            [
              { settings: endpointOf(128), behave: () => ({ code: 'delivered', afterMs: fastMs }) },
              ...slow.map(({ part, latencyMs }, n) => ({
                settings: endpointOf(Math.ceil((part * limit) / 1_024), n + 1),
                behave: () => ({ code: 'delivered' as const, afterMs: latencyMs }),
              })),
            ],
            randomFrom(seed),
            isQuota ? undefined : limit,
            isQuota ? limit : undefined,
          )
          await world.pass(250)
          for (let i = 0; i < 15 * perSecond; i++) {
            world.arrive(`m${i}`, isBulk)
            await world.pass(1_000 / perSecond)
          }
          await world.pass(1_500)
          const { url } = endpointOf(128)
          const late = world.rows.filter(({ message, arrivedAt }) => {
            const got = world.requests.find((one) => one.url === url && one.message === message)
            return (got?.at ?? Infinity) - arrivedAt > 1_500
          })
          await world.close()
          expect(late.length).toBe(0)
        },
      ),
      { ...ROUNDS, examples: [[QUOTA]] },
    )
  })
})

describe('an endpoint of which messages wait', () => {
  const SLOW: Behaviour = () => ({ code: 'delivered', afterMs: 4_500 })
  const FAST: Behaviour = () => ({ code: 'delivered', afterMs: 20 })

  /** How many requests the endpoint with the highest number gets in these seconds, of which the first 10 do not count. */
  async function rateOf(
    endpoints: { concurrency?: number; rateLimit?: number; behave: Behaviour }[],
    seconds: number,
    isBulk: boolean,
  ) {
    const world = createWorld(
      endpoints.map(({ behave, concurrency = 128, ...limit }, n) => ({
        settings: { ...endpointOf(concurrency, n), ...limit },
        behave,
      })),
      randomFrom(1),
    )
    await world.pass(250)
    for (let i = 0; i < 12_000; i++) world.arrive(`m${i}`, isBulk)
    await world.pass(seconds * 1_000)
    const { url } = endpointOf(1, endpoints.length - 1)
    const counted = world.requests.filter((one) => one.url === url && one.at > 10_000)
    await world.close()
    return counted.length / (seconds - 10)
  }

  test.each([
    { concurrency: 2, isBulk: true },
    { concurrency: 10, isBulk: true },
    { concurrency: 10, isBulk: false },
    { rateLimit: 40, isBulk: true },
    { rateLimit: 40, isBulk: false },
  ])('gets most of its rate beside a slow one that takes more at once: %o', async (given) => {
    const { isBulk, ...limit } = given
    const endpoint = { ...limit, behave: FAST }
    const alone = await rateOf([endpoint], 30, isBulk)
    expect(await rateOf([{ behave: SLOW }, endpoint], 30, isBulk)).toBeGreaterThan(0.7 * alone)
  })

  test('gets new messages before what waits, although a faster one takes that', async () => {
    const slow: Behaviour = () => ({ code: 'delivered', afterMs: 1_000 })
    const world = createWorld(
      [
        { settings: endpointOf(100), behave: slow },
        { settings: endpointOf(8, 1), behave: FAST },
      ],
      randomFrom(1),
    )
    await world.pass(250)
    for (let i = 0; i < 12_000; i++) world.arrive(`bulk ${i}`, true)
    const names = Array.from({ length: 400 }, (_, i) => `new ${i}`)
    for (const name of names) {
      world.arrive(name)
      await world.pass(20)
    }
    await world.pass(1_000)
    const { url } = endpointOf(100)
    const got = world.requests.filter((one) => one.url === url && one.message.startsWith('new'))
    expect(got.map(({ message }) => message)).toEqual(names)
    await world.close()
  })

  test.each([1, 3, 5, 7, 10, 20, 100])(
    'gets its rateLimit of %i per second, although its answers take long',
    async (rateLimit) => {
      const endpoint = { concurrency: 1_000, rateLimit, behave: SLOW }
      expect(await rateOf([endpoint], 30, true)).toBeGreaterThan(0.95 * rateLimit)
    },
  )
})

describe('an endpoint that takes a number of requests per second, and answers the others 429', () => {
  /** A token bucket of one second. */
  function limited(
    perSecond: number,
    latencyMs: number,
    retryAfterMs: number | undefined,
  ): Behaviour {
    let tokens = perSecond
    let filledAt = 0
    return (_message, nowMs) => {
      tokens = Math.min(perSecond, tokens + ((nowMs - filledAt) / 1_000) * perSecond)
      filledAt = nowMs
      if (tokens < 1)
        return { code: 'throttled', afterMs: latencyMs, ...(retryAfterMs && { retryAfterMs }) }
      tokens--
      return { code: 'delivered', afterMs: latencyMs }
    }
  }

  async function play(given: {
    takes: number
    load: number
    burst: number
    concurrency: number
    latencyMs: number
    retryAfterMs: number | undefined
    rateLimit?: number
    seed: number
  }) {
    const { takes, load, burst, concurrency, latencyMs, retryAfterMs, rateLimit, seed } = given
    const settings = {
      ...endpointOf(concurrency),
      ...(rateLimit && { rateLimit }),
    }
    const behave = limited(takes, latencyMs, retryAfterMs)
    const world = createWorld([{ settings, behave }], randomFrom(seed))
    await world.pass(250)
    for (let i = 0; i < burst; i++) world.arrive(`burst ${i}`)
    for (let i = 0; i < 240 * takes * load; i++) {
      world.arrive(`steady ${i}`)
      await world.pass(1_000 / (takes * load))
    }
    const waiting = world.rows.filter(({ doneAt }) => doneAt === undefined).length
    const refused = world.requests.filter(({ code }) => code === 'throttled').length
    const { requests, rows } = world
    await world.close()
    return { waiting, refused, requests, rows }
  }

  test('catches up with a burst, and is not asked for much more than it takes', async () => {
    const { waiting, refused, rows } = await play({
      takes: 100,
      load: 0.3,
      burst: 500,
      concurrency: 128,
      latencyMs: 20,
      retryAfterMs: undefined,
      seed: 1,
    })
    expect(waiting).toBeLessThan(30)
    expect(refused).toBeLessThan(rows.length / 5)
  })

  test('gets at least half of what it takes, whatever that is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          takes: fc.constantFrom(2, 10, 50, 200),
          load: fc.constantFrom(0.2, 0.5),
          burst: fc.integer({ min: 0, max: 500 }),
          concurrency: fc.constantFrom(2, 16, 128),
          latencyMs: fc.integer({ min: 1, max: 100 }),
          retryAfterMs: fc.constantFrom(undefined, 1_000, 5_000),
          seed: fc.integer({ min: 0 }),
        }),
        async (given) => {
          const { takes, load, burst, concurrency, latencyMs } = given
          const room = Math.min(takes, (concurrency * 1_000) / latencyMs)
          fc.pre(burst < 240 * (room * 0.6 - takes * load))
          const { waiting } = await play(given)
          expect(waiting).toBeLessThan(Math.max(10, 5 * takes))
        },
      ),
      ROUNDS,
    )
  })

  test.each([
    { takes: 1, retryAfterMs: undefined },
    { takes: 1, retryAfterMs: 1_000 },
    { takes: 10, retryAfterMs: undefined },
    { takes: 10, retryAfterMs: 1_000 },
    { takes: 100, retryAfterMs: undefined },
    { takes: 100, retryAfterMs: 1_000 },
  ])(
    'refuses less than a tenth of the requests, and gets most of what it takes, while more wait: %o',
    async ({ takes, retryAfterMs }) => {
      const behave = limited(takes, 20, retryAfterMs)
      const world = createWorld([{ settings: endpointOf(128), behave }], randomFrom(1))
      await world.pass(250)
      for (let i = 0; i < 100 * takes + 200; i++) world.arrive(`m${i}`)
      await world.pass(70_000)
      const requests = world.requests.filter(({ at }) => at >= 10_000)
      await world.close()
      const refused = requests.filter(({ code }) => code === 'throttled').length
      expect(refused).toBeLessThan(requests.length / 10)
      expect(requests.length - refused).toBeGreaterThan(0.65 * 60 * takes)
    },
  )

  test('is never sent more than its rateLimit', async () => {
    const { requests, refused, waiting } = await play({
      takes: 50,
      load: 0.7,
      burst: 300,
      concurrency: 128,
      latencyMs: 5,
      retryAfterMs: undefined,
      rateLimit: 40,
      seed: 3,
    })
    const inAnySecond = requests.map(
      ({ at }, i) => requests.slice(i).findIndex((other) => other.at >= at + 1_000) || 0,
    )
    expect(Math.max(...inAnySecond)).toBeLessThanOrEqual(40 * 1.3 + 1)
    expect(refused).toBe(0)
    expect(waiting).toBeLessThan(40)
  })
})

describe('an endpoint that answers 429 a few times, and then takes everything', () => {
  /** How long 500 messages take that come while the endpoint is idle; the first of them are answered 429. */
  async function drainedAfter(refusals: number) {
    let left = refusals
    const behave: Behaviour = () => {
      left--
      return { code: left >= 0 ? 'throttled' : 'delivered', afterMs: 20 }
    }
    const world = createWorld([{ settings: endpointOf(128), behave }], randomFrom(1))
    await world.pass(250)
    world.arrive('first')
    await world.pass(100)
    for (let i = 0; i < 500; i++) world.arrive(`m${i}`)
    await world.pass(60_000)
    const { rows } = world
    await world.close()
    return Math.max(...rows.map(({ doneAt = Infinity }) => doneAt))
  }

  test.each([1, 2, 3])(
    'gets a backlog within seconds, not at the rate of the time before (%i of 429)',
    async (refusals) => {
      expect(await drainedAfter(refusals)).toBeLessThan(20_000)
    },
  )

  test('is asked once in 5 s for as long as it answers 429', async () => {
    const behave: Behaviour = () => ({ code: 'throttled', afterMs: 20 })
    const world = createWorld([{ settings: endpointOf(128), behave }], randomFrom(1))
    await world.pass(250)
    for (let i = 0; i < 500; i++) world.arrive(`m${i}`)
    await world.pass(120_000)
    const late = world.requests.filter(({ at }) => at >= 60_000)
    await world.close()
    expect(late.length).toBeGreaterThan(5)
    expect(late.length).toBeLessThanOrEqual(13)
  })
})

describe('bulk work', () => {
  const isBulk = (message: string) => message.startsWith('bulk')

  /** How long after its time a message may be sent, whatever the amount of bulk work, apart from requests under way. */
  const LATE_BY_MS = 1_000

  /** An endpoint that takes each message, some of them only at the second attempt. */
  function failingOnce(latencyMs: number, isToFail: (message: string) => boolean): Behaviour {
    const failed = new Set<string>()
    return (message) => {
      const fails = isToFail(message) && !failed.has(message)
      failed.add(message)
      return { code: fails ? 'server_error' : 'delivered', afterMs: latencyMs }
    }
  }

  test('does not delay a retry', async () => {
    const behave = failingOnce(100, (message) => message === 'message')
    const world = createWorld([{ settings: endpointOf(8), behave }], randomFrom(1))
    for (let i = 0; i < 3_000; i++) world.arrive(`bulk ${i}`, true)
    await world.pass(1_000)
    world.arrive('message')
    await world.pass(10_000)
    await world.close()
    const [first = 0, second = Infinity] = world.sentAt('message')
    expect(first).toBeLessThan(1_000 + LATE_BY_MS)
    expect(second - first).toBeLessThan(100 + 2_400 + LATE_BY_MS)
  })

  /** A destination that gets bulk work, and messages of which some fail once, at a share of what the endpoint can take. */
  async function play(given: {
    bulk: number
    load: number
    failing: number
    concurrency: number
    latencyMs: number
    seed: number
  }) {
    const { bulk, load, failing, concurrency, latencyMs, seed } = given
    const random = randomFrom(seed)
    const fails = new Map<string, boolean>()
    const isToFail = (message: string) => {
      if (!fails.has(message)) fails.set(message, random() < failing)
      return fails.get(message) ?? false
    }
    const behave = failingOnce(latencyMs, isToFail)
    const world = createWorld([{ settings: endpointOf(concurrency), behave }], random)
    await world.pass(250)
    for (let i = 0; i < bulk; i++) world.arrive(`bulk ${i}`, true)
    const everyMs = latencyMs / concurrency / load
    for (let at = 0, n = 0; at < 20_000; at += 50) {
      for (; n * everyMs < at; n++) world.arrive(`message ${n}`)
      await world.pass(50)
    }
    const bulkSent = world.requests.filter(({ message }) => isBulk(message)).length
    await world.pass(10_000)
    await world.close()
    const late = world.rows
      .filter(({ message }) => !isBulk(message))
      .filter(({ message, arrivedAt }) => {
        const [first = Infinity, second = Infinity] = world.sentAt(message)
        const retryMs = isToFail(message) ? second - first - latencyMs - 2_400 : 0
        return Math.max(first - arrivedAt, retryMs) > LATE_BY_MS + 3 * latencyMs
      })
    return { late: late.length, bulkSent }
  }

  const givens = {
    bulk: fc.constantFrom(0, 500, 1_500),
    concurrency: fc.constantFrom(1, 2, 3, 4, 6, 12, 32),
    latencyMs: fc.integer({ min: 50, max: 500 }),
    seed: fc.integer({ min: 0 }),
  }

  test('at random delays no other message beyond a bound that does not depend on its amount', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          ...givens,
          load: fc.constantFrom(0.05, 0.2, 0.4),
          failing: fc.constantFrom(0, 0.05),
        }),
        async (given) => {
          const { late } = await play(given)
          expect(late).toBe(0)
        },
      ),
      ROUNDS,
    )
  })

  test('at random gets its share while more messages arrive than an endpoint takes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({ ...givens, bulk: fc.constant(1_500), load: fc.constantFrom(1.2, 2) }),
        async (given) => {
          const { concurrency, latencyMs } = given
          const { bulkSent } = await play({ ...given, failing: 0 })
          const capacity = (20_000 / latencyMs) * concurrency
          expect(bulkSent).toBeGreaterThanOrEqual(Math.min(1_500, Math.floor(capacity / 32)))
        },
      ),
      ROUNDS,
    )
  })

  test('and retries get their turns where a rate limits what more messages want', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          rate: fc.constantFrom(4, 14, 20, 50, 100),
          load: fc.constantFrom(1.1, 1.5, 5),
          concurrency: fc.constantFrom(4, 16, 128),
          latencyMs: fc.constantFrom(1, 5, 50),
          seed: fc.integer({ min: 0 }),
        }),
        async ({ rate, load, concurrency, latencyMs, seed }) => {
          const isLate = (message: string) => message.startsWith('late')
          const settings = { ...endpointOf(concurrency), rateLimit: rate }
          const behave = failingOnce(latencyMs, isLate)
          const world = createWorld([{ settings, behave }], randomFrom(seed))
          await world.pass(250)
          for (let i = 0; i < 1_000; i++) world.arrive(`bulk ${i}`, true)
          for (let i = 0; i < 3; i++) world.arrive(`late ${i}`)
          const everyMs = 1_000 / rate / load
          for (let at = 0, n = 0; at < 30_000; at += 10) {
            for (; n * everyMs < at; n++) world.arrive(`message ${n}`)
            await world.pass(10)
          }
          await world.close()
          const sent = world.requests.filter(({ message }) => isBulk(message)).length
          expect(sent).toBeGreaterThanOrEqual(Math.min(1_000, Math.floor((30 * rate) / 8)))
          for (const late of world.rows.filter(({ message }) => isLate(message))) {
            const [first = 0, second = Infinity] = world.sentAt(late.message)
            // Three retries share two of five turns.
            expect(second - first).toBeLessThan(2_400 + latencyMs + LATE_BY_MS + 10_000 / rate)
          }
        },
      ),
      ROUNDS,
    )
  })
})
