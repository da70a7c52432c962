import { describe, expect, test } from 'vitest'
import { Bucket, Buckets } from '../../src/collect/rate-limit.js'
import { Quotas, type QuotaSettings } from '../../src/collect/quotas.js'
import { StoreError } from '../../src/store/store-error.js'
import { dice } from '../simulation/chance.js'
import { AUTHORIZATION, KEY, startCollector } from './start.js'

/** Makes a bucket with a clock that the test advances. */
function make(callsPerSecond: number, burst: number) {
  let now = 0
  const owner = { kind: 'source', name: 'web' } as const
  const bucket = new Bucket(owner, { callsPerSecond, burst }, () => now)
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
    at: (ms: number) => {
      now = ms
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

  test('lets calls pass after the wait that it told, however often it was asked meanwhile', () => {
    const { pass, at } = make(1, 3)
    pass(3)
    expect(pass(1)).toBe(1_000)
    for (let part = 1; part < 13; part++) {
      at((1_000 * part) / 13)
      expect(pass(1)).toBeGreaterThan(0)
    }
    at(1_000)
    expect(pass(1)).toBe(0)
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

const source = (name: string, callsPerSecond?: number, burst = callsPerSecond) => ({
  name,
  writeKey: name,
  rateLimit:
    callsPerSecond === undefined || burst === undefined ? undefined : { callsPerSecond, burst },
})

describe('buckets', () => {
  test('stay as full as they are with other settings, unless their limit changed', () => {
    const tenant = (name: string, callsPerSecond: number, concurrency = 1) => ({
      ...{ name, portal: { editUrls: false } },
      quotas: { callsPerSecond, burst: callsPerSecond, concurrency },
    })
    const owned = (name: string) => ({ ...source(name), tenant: name })
    const names = ['a', 'b', 'c', 'd', 't', 'u']
    const buckets = new Buckets(() => 0)
    const had = () => names.map((name) => buckets.of(name)[0])
    const sources = [source('a', 5), source('b', 5), source('c'), owned('t'), owned('u')]
    buckets.use({ sources, tenants: [tenant('t', 5), tenant('u', 5)] })
    const before = had()
    expect(before.map((one) => one !== undefined)).toEqual([true, true, false, false, true, true])
    buckets.use({
      sources: [source('a', 5), source('b', 6), source('d', 5), owned('t'), owned('u')],
      tenants: [tenant('t', 5, 2), tenant('u', 6)],
    })
    const after = had()
    expect(after.map((one) => one !== undefined)).toEqual([true, true, false, true, true, true])
    expect(after.map((one, i) => one !== undefined && one === before[i])).toEqual([
      ...[true, false, false],
      ...[false, true, false],
    ])
  })

  test('are not filled by a limit that changes, and owe nothing because of it', () => {
    let now = 0
    const buckets = new Buckets(() => now)
    buckets.use({ sources: [source('web', 10, 500)] })
    buckets.of('web')[0]?.take(500)
    buckets.use({ sources: [source('web', 10, 10)] })
    now = 500
    expect(buckets.of('web')[0]?.tokens()).toBe(5)
    buckets.use({ sources: [source('web', 100, 1_000)] })
    expect(buckets.of('web')[0]?.tokens()).toBe(5)
    now = 1_500
    expect(buckets.of('web')[0]?.tokens()).toBe(105)
    buckets.use({ sources: [source('web', 100, 50)] })
    expect(buckets.of('web')[0]?.tokens()).toBe(50)
    // A batch of 250 is more than the bucket can hold: the next call waits for 2 s, also if the limit is much lower then.
    buckets.of('web')[0]?.take(250)
    buckets.use({ sources: [source('web', 1, 50)] })
    expect(buckets.of('web')[0]?.waitMs(1)).toBe(3_000)
  })

  test('are not filled for a source or a tenant that was taken out and put back', () => {
    let now = 0
    const buckets = new Buckets(() => now)
    const tenants = [
      { name: 't', quotas: { callsPerSecond: 10, burst: 100 }, portal: { editUrls: false } },
    ]
    const settings = {
      sources: [source('web', 10, 100), { ...source('app'), tenant: 't' }],
      tenants,
    }
    buckets.use(settings)
    for (const name of ['web', 'app']) buckets.of(name)[0]?.take(100)
    buckets.use({ sources: [], tenants })
    buckets.use({ sources: [] })
    now = 1_000
    buckets.use(settings)
    const tokens = () => ['web', 'app'].map((name) => buckets.of(name)[0]?.tokens())
    expect(tokens()).toEqual([10, 10])
    buckets.use({ sources: [] })
    now = 20_000
    buckets.use({ sources: [] })
    buckets.use(settings)
    expect(tokens()).toEqual([100, 100])
  })
})

/** A source with a limit of its own, and a tenant that has a quota and two sources. */
const SETTINGS: QuotaSettings = {
  tenants: [
    { name: 'acme', quotas: { callsPerSecond: 10, burst: 20 }, portal: { editUrls: false } },
  ],
  sources: [
    { name: 'web', writeKey: KEY, rateLimit: { callsPerSecond: 2, burst: 4 } },
    { name: 'app', writeKey: 'APP_KEY' },
    { name: 'one', tenant: 'acme', writeKey: 'ONE_KEY' },
    {
      ...{ name: 'two', tenant: 'acme', writeKey: 'TWO_KEY' },
      rateLimit: { callsPerSecond: 100, burst: 5 },
    },
  ],
}

async function start(settings = SETTINGS) {
  let now = 0
  const collector = await startCollector({ settings, now: () => now })
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
  const single = () =>
    fetch(`${collector.url}/v1/track`, {
      method: 'POST',
      headers: { authorization: AUTHORIZATION },
      body: JSON.stringify({ userId: 'u', event: 'E' }),
    })
  const advance = (ms: number) => {
    now += ms
  }
  /** Lets the store refuse all calls, or take them again. */
  const refuse = (error: StoreError | undefined) => {
    collector.accept = () => (error ? Promise.reject(error) : Promise.resolve())
  }
  return { ...collector, post, single, advance, refuse }
}

describe('a source with a limit', () => {
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

  test('may send again at once what the store has refused', async () => {
    const started = await start()
    const { post } = started
    started.refuse(new StoreError('full', 'the disk is full'))
    for (let i = 0; i < 3; i++) expect((await post(4)).status).toBe(503)
    started.refuse(undefined)
    expect((await post(4)).status).toBe(200)
    expect((await post(1)).status).toBe(429)
  })

  test('is known by the key in the body too', async () => {
    const { post } = await start()
    expect((await post(4, { writeKey: KEY }, '')).status).toBe(200)
    expect((await post(1, { writeKey: KEY }, '')).status).toBe(429)
  })

  test('that is at its limit has each of its refused calls counted', async () => {
    const { post, counted } = await start()
    await post(4)
    counted.length = 0
    for (let i = 0; i < 10; i++) expect((await post(7)).status).toBe(429)
    expect(counted.filter((one) => one === 'web rate_limited 7')).toHaveLength(10)
    expect(counted.filter((one) => one === 'web rate_limited')).toHaveLength(10)
    expect(counted).toHaveLength(20)
  })

  test('that floods is refused unread, its requests count as a call, and are told the wait of the largest', async () => {
    const { post, advance, url, counted } = await start()
    await post(4)
    for (let i = 0; i < 10; i++) expect((await post(1)).headers.get('retry-after')).toBe('1')
    counted.length = 0
    const headers = { authorization: AUTHORIZATION }
    const broken = await fetch(`${url}/v1/batch`, { method: 'POST', headers, body: '{' })
    expect(broken.status).toBe(429)
    expect(broken.headers.get('retry-after')).toBe('2')
    expect(counted).toEqual(['web rate_limited 1', 'web rate_limited'])
    advance(499)
    expect((await post(3)).headers.get('retry-after')).toBe('2')
    advance(1)
    expect((await post(3)).headers.get('retry-after')).toBe('1')
  })

  test('that floods with the key in the body has its calls left unread too', async () => {
    const { post, counted } = await start()
    const flood = (calls: number) => post(calls, { writeKey: KEY }, '')
    await flood(4)
    for (let i = 0; i < 10; i++) expect((await flood(2)).headers.get('retry-after')).toBe('1')
    counted.length = 0
    expect((await flood(2)).headers.get('retry-after')).toBe('2')
    expect(counted).toEqual(['web rate_limited 1', 'web rate_limited'])
  })

  test('is told the exact wait of a single call, also in a flood', async () => {
    const { post, single, counted } = await start()
    await post(4)
    counted.length = 0
    for (let i = 0; i < 15; i++) expect((await single()).headers.get('retry-after')).toBe('1')
    expect(counted.filter((one) => one === 'web rate_limited 1')).toHaveLength(15)
  })

  test('holds back no other', async () => {
    const { post } = await start()
    await post(4)
    expect((await post(1)).status).toBe(429)
    expect((await post(100, { writeKey: 'APP_KEY' }, '')).status).toBe(200)
  })
})

describe('the sources of a tenant with a quota', () => {
  const of = (key: string) => `Basic ${btoa(`${key}:`)}`

  test('share it, and each keeps to its own limit as well', async () => {
    const { post, advance } = await start()
    expect((await post(5, {}, of('TWO_KEY'))).status).toBe(200)
    expect((await post(1, {}, of('TWO_KEY'))).body).toMatchObject({
      message: expect.stringContaining('The source two may send 100 calls per second') as string,
    })
    expect((await post(15, {}, of('ONE_KEY'))).status).toBe(200)
    advance(100)
    const refused = await post(2, {}, of('TWO_KEY'))
    expect(refused).toMatchObject({
      status: 429,
      body: {
        code: 'rate_limited',
        message:
          'All sources of the tenant acme together may send 10 calls per second, and 20 at once. No call was accepted. Send the request again in 1 s.',
      },
    })
    expect(refused.headers.get('retry-after')).toBe('1')
    // The request that the tenant may not send takes nothing of the source's own limit.
    advance(900)
    expect((await post(5, {}, of('TWO_KEY'))).status).toBe(200)
    expect((await post(4)).status).toBe(200)
  })

  test('together send no more than burst and rate, whatever comes', () => {
    let now = 0
    const owned = ['a', 'b', 'c'].map((name) => ({ name, writeKey: name, tenant: 'acme' }))
    const limits = { callsPerSecond: 50, burst: 30 }
    const tenants = [{ name: 'acme', quotas: limits, portal: { editUrls: false } }]
    const refused: string[] = []
    const quotas = new Quotas(
      { sources: owned, tenants },
      {
        waiting: { overLimit: () => undefined },
        refused: (tenant, quota) => refused.push(`${tenant} ${quota}`),
        now: () => now,
      },
    )
    const seed = Date.now() % 1_000_000
    const { between, pick } = dice(seed)
    let passed = 0
    for (let i = 0; i < 3_000; i++) {
      now += between(0, 19)
      const source = pick(['a', 'b', 'c'])
      const calls = between(1, 10)
      try {
        quotas.check(source, calls)
      } catch {
        continue
      }
      quotas.take(source, calls)
      passed += calls
    }
    const most = limits.burst + (limits.callsPerSecond * now) / 1_000
    expect(passed, `seed ${seed}`).toBeLessThanOrEqual(most)
    expect(passed, `seed ${seed}`).toBeGreaterThan(most * 0.9)
    expect(new Set(refused)).toEqual(new Set(['acme callsPerSecond']))
  })
})

test(
  'a client that waits as long as it is told is not refused twice for a batch, whatever its size is',
  { tags: 'long' },
  async () => {
    const seed = Date.now() % 1_000_000
    const { between, chance, pick } = dice(seed)
    let refused = 0
    for (let round = 0; round < 10; round++) {
      const { post, single, advance } = await limitedAtRandom(pick, between)
      for (let i = 0; i < 20; i++) {
        advance(between(0, 2_500) + pick([0, 0.25, 1 / 3]))
        // Others use up what is read although it is refused.
        if (chance(0.2)) for (let n = 0; n < 12; n++) await post(pick([1, 40]))
        const calls = chance(0.2) ? undefined : between(1, pick([5, 40, 90]))
        const send = () => (calls === undefined ? single() : post(calls))
        const first = await send()
        if (first.status === 200) continue
        refused++
        advance(Number(first.headers.get('retry-after')) * 1_000)
        const where = `seed ${seed}, round ${round}, request ${i} with ${calls ?? 'a single'} call(s)`
        expect((await send()).status, where).toBe(200)
      }
    }
    expect(refused, `seed ${seed}`).toBeGreaterThan(20)
  },
)

/** A collector with limits by chance: of the source, of its tenant, or both. */
async function limitedAtRandom(
  pick: <T>(choices: readonly T[]) => T,
  between: (least: number, most: number) => number,
) {
  const limit = () => ({ callsPerSecond: pick([0.3, 1, 3, 7, 10]), burst: between(1, 60) })
  const isTenantLimited = pick([true, false])
  const rateLimit = !isTenantLimited || pick([true, false]) ? limit() : undefined
  const tenants = [
    { name: 't', quotas: isTenantLimited ? limit() : {}, portal: { editUrls: false } },
  ]
  return start({ tenants, sources: [{ name: 'web', tenant: 't', writeKey: KEY, rateLimit }] })
}
