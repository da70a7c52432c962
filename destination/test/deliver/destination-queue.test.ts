import { describe, expect, test } from 'vitest'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import { Gate } from '../../src/deliver/breaker.js'
import { Line } from '../../src/deliver/endpoint-queue.js'
import { Target } from '../../src/deliver/destination-queue.js'

function outcome(code: OutcomeCode): Outcome {
  const verdict = code === 'delivered' ? 'delivered' : 'retry'
  return { code, verdict, status: 200, ms: 1, retryAfterMs: undefined, response: '', error: code }
}

/** A destination whose endpoints answer when they are told to. */
function setUp(...caps: number[]) {
  let now = 0
  const clock = () => now
  const endpoints = caps.map((cap, i) => {
    const held: ((outcome: Outcome) => void)[] = []
    const endpoint = { url: `http://${i}.example.com`, headers: {}, concurrency: cap }
    const poster = {
      post: (_body: string, _headers: readonly string[], done: (outcome: Outcome) => void) =>
        held.push(done),
      close: () => Promise.resolve(),
    }
    const line = new Line(endpoint, new Gate(cap, () => 0), poster, clock)
    return { held, line, answer: (code: OutcomeCode) => held.shift()?.(outcome(code)) }
  })
  const lines = endpoints.map(({ line }) => line)
  const webhooks = lines.map(({ endpoint }) => endpoint)
  const destination = { name: 'crm', sources: [], enabled: true, sharedSecret: undefined, webhooks }
  const target = new Target(destination, lines, clock)
  const post = (i: number, done: (code: OutcomeCode) => void = () => undefined) => {
    lines[i]?.post('{}', [], ({ code }) => {
      done(code)
    })
  }
  const fail = (i: number) => {
    for (let n = 0; n < 5; n++) {
      post(i)
      endpoints[i]?.answer('timeout')
    }
  }
  const wait = (ms: number) => {
    now += ms
  }
  /** What an earlier process left has been looked for, and there was nothing. */
  const lookOnce = () => {
    for (let lane = 0; lane < 2; lane++) {
      for (const claim of target.claims()) target.claimed(claim, 0)
    }
  }
  return { target, endpoints, lines, post, fail, wait, lookOnce }
}

describe('a new message', () => {
  test('waits until it is known that nothing older does', () => {
    const { target, lookOnce } = setUp(4)
    expect(target.place()).toBe('fresh')
    lookOnce()
    expect(target.place()).toBe('leased')
  })

  test('is leased while there is room, and then waits', () => {
    const { target, lookOnce } = setUp(2)
    lookOnce()
    expect([target.place(), target.place(), target.place()]).toEqual(['leased', 'leased', 'fresh'])
    target.arrive()
    expect(target.place()).toBe('leased')
  })

  test('waits behind those that wait', () => {
    const { target, lookOnce } = setUp(4)
    lookOnce()
    target.expect('fresh', 0)
    expect(target.place()).toBe('fresh')
  })

  test('is parked in the backlog while its destination is down, but for a probe', () => {
    const { target, lookOnce, fail, wait } = setUp(4)
    lookOnce()
    fail(0)
    expect(target.place()).toBe('backlog')
    wait(1_000)
    expect([target.place(), target.place()]).toEqual(['leased', 'backlog'])
  })

  test('is leased while one endpoint of several has room', () => {
    const { target, lookOnce, fail, post } = setUp(2, 2)
    lookOnce()
    fail(0)
    post(1)
    expect([target.place(), target.place()]).toEqual(['leased', 'fresh'])
  })

  test('leaves the backlog its share while that waits', () => {
    const { target, lookOnce } = setUp(8)
    lookOnce()
    target.expect('backlog', 0)
    const places = Array.from({ length: 8 }, () => target.place())
    expect(places.filter((state) => state === 'leased')).toHaveLength(6)
  })
})

describe('claims', () => {
  test('fill the room, and both lanes have a share of it', () => {
    const { target } = setUp(8)
    expect(target.claims()).toEqual([
      { destination: 'crm', lane: 'fresh', limit: 6 },
      { destination: 'crm', lane: 'backlog', limit: 2 },
    ])
  })

  test('of the backlog leave a share to what is fresh', () => {
    const { target, lookOnce } = setUp(8)
    lookOnce()
    target.expect('backlog', 0)
    expect(target.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 6 }])
  })

  test('are not made twice for the same room', () => {
    const { target, lookOnce } = setUp(8)
    lookOnce()
    target.expect('backlog', 0)
    target.claims()
    expect(target.claims()).toEqual([])
  })

  test('come at the time that a retry is due', () => {
    const { target, lookOnce, wait } = setUp(8)
    lookOnce()
    target.expect('backlog', 300)
    expect(target.claims()).toEqual([])
    wait(300)
    expect(target.claims()).toMatchObject([{ lane: 'backlog' }])
  })

  test('are made again if something came while one was made', () => {
    const { target, lookOnce } = setUp(8)
    lookOnce()
    target.expect('fresh', 0)
    const [claim] = target.claims()
    target.expect('fresh', 0)
    if (claim) target.claimed(claim, 1)
    expect(target.claims()).toMatchObject([{ lane: 'fresh' }])
  })

  test('look every second for what other processes may have put', () => {
    const { target, lookOnce, wait } = setUp(8)
    lookOnce()
    wait(999)
    expect(target.claims()).toEqual([])
    wait(1)
    expect(target.claims().map(({ lane }) => lane)).toEqual(['fresh'])
  })

  test('of a destination that is down are one, when a probe is due', () => {
    const { target, lookOnce, fail, wait } = setUp(64)
    lookOnce()
    target.expect('backlog', 0)
    fail(0)
    expect(target.claims()).toEqual([])
    wait(1_000)
    expect(target.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 1 }])
  })

  test('wait for an eighth of the room, as one claim of many is cheap', () => {
    const { target, endpoints, post, lookOnce } = setUp(64)
    lookOnce()
    for (let i = 0; i < 64; i++) post(0)
    target.expect('fresh', 0)
    for (let i = 0; i < 7; i++) endpoints[0]?.answer('delivered')
    expect(target.claims()).toEqual([])
    endpoints[0]?.answer('delivered')
    expect(target.claims()).toEqual([{ destination: 'crm', lane: 'fresh', limit: 8 }])
  })

  test('of the backlog go at the pace of the slowest endpoint that is well', () => {
    const { target, post, lookOnce } = setUp(8, 8)
    lookOnce()
    for (let i = 0; i < 7; i++) post(1)
    target.expect('backlog', 0)
    expect(target.claims()).toEqual([])
  })
})

describe('an endpoint beside quicker ones', () => {
  test('keeps requests until it has room', () => {
    const { endpoints, post } = setUp(1)
    const codes: string[] = []
    post(0, (code) => codes.push(code))
    post(0, (code) => codes.push(code))
    expect(endpoints[0]?.held).toHaveLength(1)
    endpoints[0]?.answer('delivered')
    endpoints[0]?.answer('server_error')
    expect(codes).toEqual(['delivered', 'server_error'])
  })

  test('lets go of those that waited for 5 s, in their order', () => {
    const { lines, post, wait } = setUp(1)
    const codes: string[] = []
    for (const name of ['under way', 'a', 'b']) post(0, (code) => codes.push(`${name} ${code}`))
    wait(4_999)
    lines[0]?.sweep()
    expect(codes).toEqual([])
    wait(1)
    post(0, (code) => codes.push(`c ${code}`))
    lines[0]?.sweep()
    expect(codes).toEqual(['a endpoint_busy', 'b endpoint_busy'])
  })

  test('lets go of all when its gate shuts', () => {
    const { lines, endpoints, post } = setUp(5)
    const codes: string[] = []
    for (let i = 0; i < 7; i++) post(0, (code) => codes.push(code))
    for (let i = 0; i < 5; i++) endpoints[0]?.answer('timeout')
    lines[0]?.sweep()
    expect(codes.slice(-2)).toEqual(['timeout', 'timeout'])
  })

  test('lets go of many a few at a time, so that others get their turn', async () => {
    const { lines, post, wait } = setUp(8)
    const codes: string[] = []
    for (let i = 0; i < 8 + 50; i++) post(0, (code) => codes.push(code))
    wait(5_000)
    lines[0]?.sweep()
    expect(codes.length).toBeLessThan(50)
    await expect.poll(() => codes.length).toBe(50)
  })

  test('goes without at once when too many wait, or while it is down', async () => {
    const { lines, post, fail, endpoints } = setUp(1)
    for (let i = 0; i < 9; i++) post(0)
    expect(
      await new Promise((resolve) => {
        post(0, resolve)
      }),
    ).toBe('endpoint_busy')
    while (endpoints[0]?.held.length) endpoints[0].answer('delivered')
    fail(0)
    expect(
      await new Promise((resolve) => {
        post(0, resolve)
      }),
    ).toBe('endpoint_down')
    expect(lines[0]?.room()).toBe(0)
  })
})
