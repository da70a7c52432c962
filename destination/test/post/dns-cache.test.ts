import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { createDnsCache, type CacheOptions } from '../../src/post/dns-cache.js'
import type { Answer } from '../../src/post/name-servers.js'

const MINUTE = 60_000
const STALE_MS = 10 * MINUTE

const failure = (code: string) => Object.assign(new Error(code), { code })
const ipv4 = (...addresses: string[]) => addresses.map((address) => ({ address, family: 4 }))

/** A cache with a clock that stands still. Each question waits until the test answers it. */
function cache(options: Partial<CacheOptions> = {}) {
  const clock = { now: 0 }
  const questions: { hostname: string; answer: (answer: Answer | Error) => void }[] = []
  const lookup = createDnsCache(
    (hostname) =>
      new Promise((resolve, reject) => {
        const answer = (found: Answer | Error) => {
          if (found instanceof Error) reject(found)
          else resolve(found)
        }
        questions.push({ hostname, answer })
      }),
    { now: () => clock.now, lateMs: 60_000, ...options },
  )
  /** Resolves with the addresses, or with the code of the error. */
  const look = (hostname: string) =>
    new Promise<string>((resolve) => {
      lookup(hostname, (error, addresses) => {
        const found = addresses.map(({ address }) => address).join()
        resolve(error === null ? found : String((error as NodeJS.ErrnoException).code))
      })
    })
  /** Looks up a name, and answers the question if there is one. */
  const lookAnd = (hostname: string, answer: Answer | Error) => {
    const before = questions.length
    const found = look(hostname)
    const isAsked = questions.length > before
    if (isAsked) questions.at(-1)?.answer(answer)
    return found.then((result) => ({ result, isAsked }))
  }
  return { clock, questions, lookup, look, lookAnd }
}

/** A generator of random numbers (mulberry32), so that a failure can be repeated with its seed. */
function randomOf(seed: number) {
  let state = seed
  return (below: number) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

test('what is answered at random times follows the rules', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const random = randomOf(seed)
  const { clock, lookAnd } = cache()
  /** The rules in short: the answer is fresh, or asked for; a failure shows the last addresses for a while. */
  interface Known {
    result: string
    freshUntil: number
    last: string
    lastUntil: number
  }
  const model = new Map<string, Known>()
  const codes = ['ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'ETIMEOUT', 'ECONNREFUSED']
  for (let step = 0; step < 5_000; step++) {
    clock.now += [0, 1, 500, 1_000, 30_000, 5 * MINUTE, STALE_MS][random(7)] ?? 0
    const hostname = `host${random(4)}.test`
    const code = codes[random(codes.length)] ?? ''
    const ttlMs = [0, 999, 1_001, 20_000, 5 * MINUTE + 1, 86_400_000][random(6)] ?? 0
    const address = `192.0.2.${random(250)}`
    const isFailure = random(3) === 0
    const given = isFailure ? failure(code) : { addresses: ipv4(address), ttlMs }

    const known = model.get(hostname)
    const isFresh = known !== undefined && clock.now < known.freshUntil
    let { last = '', lastUntil = 0 } = known ?? {}
    if (!isFresh && isFailure && ['ENOTFOUND', 'ENODATA'].includes(code)) last = ''
    if (!isFresh && !isFailure) last = address
    const keptMs = isFailure ? 1_000 : Math.min(Math.max(ttlMs, 1_000), 5 * MINUTE)
    const freshUntil = isFresh ? known.freshUntil : clock.now + keptMs
    if (!isFresh && !isFailure) lastUntil = freshUntil + STALE_MS
    const reason = isFresh ? known.result : code
    const expected = last !== '' && clock.now < lastUntil ? last : reason
    model.set(hostname, { result: reason, freshUntil, last, lastUntil })

    const found = await lookAnd(hostname, given)
    expect(found, `SEED=${seed}, step ${step}`).toEqual({ result: expected, isAsked: !isFresh })
  }
})

describe('a question', () => {
  test('is asked once for all who wait for it', async () => {
    const { questions, look } = cache()
    const waiting = Array.from({ length: 20 }, () => look('hook.test'))
    expect(questions).toHaveLength(1)
    questions[0]?.answer({ addresses: ipv4('192.0.2.1'), ttlMs: 0 })
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['192.0.2.1']))
  })

  test('that stays open is told to be late, is not repeated, and counts when it is answered', async () => {
    const { clock, questions, look } = cache({ lateMs: 10 })
    expect(await look('hook.test')).toBe('ETIMEOUT')
    clock.now += 60_000
    expect(await look('hook.test')).toBe('ETIMEOUT')
    expect(questions).toHaveLength(1)
    questions[0]?.answer({ addresses: ipv4('192.0.2.1'), ttlMs: MINUTE })
    await vi.waitUntil(async () => (await look('hook.test')) === '192.0.2.1', 60_000)
    expect(questions).toHaveLength(1)
  })

  test('that stays open leaves the last addresses in use for ten minutes, but no longer', async () => {
    const { clock, questions, look, lookAnd } = cache({ lateMs: 10 })
    await lookAnd('hook.test', { addresses: ipv4('192.0.2.1'), ttlMs: MINUTE })
    clock.now = MINUTE
    expect(await look('hook.test')).toBe('192.0.2.1')
    clock.now = MINUTE + STALE_MS - 1
    expect(await look('hook.test')).toBe('192.0.2.1')
    clock.now += 1
    expect(await look('hook.test')).toBe('ETIMEOUT')
    expect(questions).toHaveLength(2)
  })

  test('that stays open delays the use of the last addresses by 1.8 s', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] })
    onTestFinished(() => void vi.useRealTimers())
    const { clock, look, lookAnd } = cache()
    await lookAnd('hook.test', { addresses: ipv4('192.0.2.1'), ttlMs: MINUTE })
    clock.now = MINUTE
    const answers: string[] = []
    void look('hook.test').then((answer) => answers.push(answer))
    await vi.advanceTimersByTimeAsync(1_799)
    expect(answers).toEqual([])
    await vi.advanceTimersByTimeAsync(2)
    expect(answers).toEqual(['192.0.2.1'])
  })

  test('that is answered while the event loop was blocked is not late', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate'] })
    onTestFinished(() => void vi.useRealTimers())
    const { questions, look } = cache({ lateMs: 1_000 })
    const answer = look('hook.test')
    // The timers run first, then the sockets are read, and then the immediates run.
    setTimeout(() => questions[0]?.answer({ addresses: ipv4('192.0.2.1'), ttlMs: MINUTE }), 1_000)
    await vi.advanceTimersByTimeAsync(1_001)
    expect(await answer).toBe('192.0.2.1')
  })

  test('is never answered before the call returns', async () => {
    const { lookup, lookAnd } = cache()
    await lookAnd('hook.test', { addresses: ipv4('192.0.2.1'), ttlMs: MINUTE })
    const order: string[] = []
    const answered = new Promise<void>((resolve) => {
      lookup('hook.test', () => {
        order.push('answered')
        resolve()
      })
    })
    order.push('returned')
    await answered
    expect(order).toEqual(['returned', 'answered'])
  })
})

describe('kept addresses', () => {
  test('take turns within their family', async () => {
    const { look, lookAnd } = cache()
    const addresses = [
      { address: '2001:db8::1', family: 6 },
      { address: '2001:db8::2', family: 6 },
      ...ipv4('192.0.2.1', '192.0.2.2', '192.0.2.3'),
    ]
    await lookAnd('hook.test', { addresses, ttlMs: MINUTE })
    const first = await look('hook.test')
    const second = await look('hook.test')
    const [v6, v4] = [/2001:db8::\d/g, /192\.0\.2\.\d/g]
    const starts = [first, second].map((found) => [found.match(v6)?.[0], found.match(v4)?.[0]])
    expect(new Set(starts.map(([v6]) => v6)).size).toBe(2)
    expect(new Set(starts.map(([, v4]) => v4)).size).toBe(2)
    const sorted = addresses.map(({ address }) => address).sort()
    for (const found of [first, second]) {
      expect(found.startsWith('2001')).toBe(true)
      expect(found.split(',').sort()).toEqual(sorted)
    }
  })

  test('of the name that was not used for the longest time make room for others', async () => {
    const { lookAnd } = cache({ maxNames: 2 })
    const answer = { addresses: ipv4('192.0.2.1'), ttlMs: MINUTE }
    const isAsked = async (name: string) => (await lookAnd(name, answer)).isAsked
    expect([await isAsked('a'), await isAsked('b'), await isAsked('a')]).toEqual([
      true,
      true,
      false,
    ])
    expect([await isAsked('c'), await isAsked('a'), await isAsked('b')]).toEqual([
      true,
      false,
      true,
    ])
  })
})
