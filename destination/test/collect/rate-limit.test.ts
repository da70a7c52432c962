import { describe, expect, test } from 'vitest'
import { Bucket, bucketsOf } from '../../src/collect/rate-limit.js'
import { AUTHORIZATION, KEY, startCollector } from './start.js'

/** Makes a bucket with a clock that the test advances. */
function make(callsPerSecond: number, burst: number) {
  let now = 0
  const bucket = new Bucket({ callsPerSecond, burst }, () => now)
  const pass = (calls: number) => {
    const waitMs = bucket.waitMs(calls)
    if (waitMs === 0) bucket.take(calls)
    return waitMs
  }
  return {
    pass,
    advance: (ms: number) => {
      now += ms
    },
  }
}

describe('a bucket', () => {
  test('lets its burst pass at once, and then its rate', () => {
    const { pass, advance } = make(10, 20)
    expect(pass(20)).toBe(0)
    expect(pass(1)).toBe(100)
    advance(99)
    expect(pass(1)).toBeCloseTo(1)
    advance(1)
    expect(pass(1)).toBe(0)
  })

  test('never holds more than its burst', () => {
    const { pass, advance } = make(10, 20)
    advance(3_600_000)
    expect(pass(20)).toBe(0)
    expect(pass(1)).toBe(100)
  })

  test('lets more than its burst pass while it is full, and keeps the rate anyway', () => {
    const { pass, advance } = make(10, 20)
    expect(pass(50)).toBe(0)
    expect(pass(1)).toBe(3_100)
    expect(pass(50)).toBe(5_000)
    advance(5_000)
    expect(pass(50)).toBe(0)
  })

  test('lets no more than burst and rate pass, whatever comes', () => {
    const { pass, advance } = make(100, 200)
    let passed = 0
    for (let ms = 0; ms < 10_000; ms += 7) {
      const calls = 1 + (ms % 13)
      if (pass(calls) === 0) passed += calls
      advance(7)
    }
    expect(passed).toBeLessThanOrEqual(200 + 100 * 10)
    expect(passed).toBeGreaterThan(100 * 10)
  })
})

test('buckets stay as full as they are with other settings, unless their limit changed', () => {
  const now = () => 0
  const source = (name: string, callsPerSecond?: number) => ({
    name,
    writeKey: name,
    rateLimit: callsPerSecond === undefined ? undefined : { callsPerSecond, burst: callsPerSecond },
  })
  const before = bucketsOf([source('a', 5), source('b', 5), source('c')], new Map(), now)
  const after = bucketsOf([source('a', 5), source('b', 6), source('d', 5)], before, now)
  expect(after.get('a')).toBe(before.get('a'))
  expect(after.get('b')).not.toBe(before.get('b'))
  expect([...before.keys(), ...after.keys()]).toEqual(['a', 'b', 'a', 'b', 'd'])
})

describe('a source with a limit', () => {
  const start = async () => {
    let now = 0
    const collector = await startCollector({
      sources: [
        { name: 'web', writeKey: KEY, rateLimit: { callsPerSecond: 2, burst: 4 } },
        { name: 'app', writeKey: 'APP_KEY' },
      ],
      now: () => now,
    })
    const post = async (count: number, body: object = {}, authorization = AUTHORIZATION) => {
      const batch = Array.from({ length: count }, () => ({
        type: 'track',
        userId: 'u',
        event: 'E',
      }))
      const response = await fetch(`${collector.url}/v1/batch`, {
        method: 'POST',
        headers: authorization === '' ? {} : { authorization },
        body: JSON.stringify({ batch, ...body }),
      })
      const { status, headers } = response
      return { status, headers, body: (await response.json()) as unknown }
    }
    const advance = (ms: number) => {
      now += ms
    }
    return { ...collector, post, advance }
  }

  test('is told when to come again, and nothing of a request beyond it is taken', async () => {
    const { post, advance, accepted, counted } = await start()
    expect((await post(3)).status).toBe(200)
    const refused = await post(3)
    expect(refused).toMatchObject({
      status: 429,
      body: {
        success: false,
        code: 'rate_limited',
        message:
          'The source web may send 2 calls per second, and 4 at once. No call was accepted. Send the request again in 1 s.',
      },
    })
    expect(refused.headers.get('retry-after')).toBe('1')
    advance(1_000)
    expect((await post(3)).status).toBe(200)
    expect(accepted.map(({ calls }) => calls.length)).toEqual([3, 3])
    expect(counted).toEqual([
      'web accepted 3',
      'web ok',
      'web rate_limited 3',
      'web rate_limited',
      'web accepted 3',
      'web ok',
    ])
  })

  test('is known by the key in the body too', async () => {
    const { post } = await start()
    expect((await post(4, { writeKey: KEY }, '')).status).toBe(200)
    expect((await post(1, { writeKey: KEY }, '')).status).toBe(429)
  })

  test('that is at its limit is refused whatever its body is', async () => {
    const { post, url } = await start()
    await post(4)
    const broken = { method: 'POST', headers: { authorization: AUTHORIZATION }, body: '{' }
    expect((await fetch(`${url}/v1/batch`, broken)).status).toBe(429)
  })

  test('holds back no other', async () => {
    const { post } = await start()
    await post(4)
    expect((await post(1)).status).toBe(429)
    expect((await post(100, { writeKey: 'APP_KEY' }, '')).status).toBe(200)
  })
})
