import { describe, expect, test } from 'vitest'
import { LANES } from '../../src/store/states.js'
import type { Claim, Delivery, Lane } from '../../src/model/delivery.js'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import { Breaker } from '../../src/deliver/breaker.js'
import { EndpointQueue } from '../../src/deliver/endpoint-queue.js'
import { DestinationQueue } from '../../src/deliver/destination-queue.js'
import { Pace } from '../../src/deliver/pace.js'

function outcome(code: OutcomeCode, retryAfterMs?: number): Outcome {
  const verdict = code === 'delivered' ? 'delivered' : 'retry'
  return { code, verdict, status: 200, ms: 1, retryAfterMs, response: '', error: code }
}

/** A destination whose endpoints answer when the test tells them to. */
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
    const endpointQueue = new EndpointQueue(
      endpoint,
      new Breaker(cap, () => 0),
      new Pace(),
      poster,
      clock,
    )
    const answer = (code: OutcomeCode, retryAfterMs?: number) =>
      held.shift()?.(outcome(code, retryAfterMs))
    return { held, endpointQueue, answer }
  })
  const queues = endpoints.map(({ endpointQueue }) => endpointQueue)
  const webhooks = queues.map(({ endpoint }) => endpoint)
  const destination = { name: 'crm', sources: [], enabled: true, sharedSecret: undefined, webhooks }
  const queue = new DestinationQueue(destination, queues, clock)
  const post = (
    i: number,
    done: (code: OutcomeCode) => void = () => undefined,
    lane: Lane = 'fresh',
  ) => {
    queues[i]?.post(
      { id: 1, lane, body: Buffer.from('{}'), headers: [], wasTried: false, mostWaiting: Infinity },
      ({ code }) => {
        done(code)
      },
    )
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
  /** Ends the first claims, which look for deliveries of an earlier process, without any deliveries. */
  const lookOnce = () => {
    for (let lane = 0; lane < 3; lane++) {
      for (const claim of queue.claims()) queue.claimed(claim, 0)
    }
  }
  return { queue, endpoints, queues, post, fail, wait, lookOnce }
}

/** Two endpoints, of which the second one was down and has answered its first probe. */
function setUpRecovering() {
  const world = setUp(128, 128)
  world.lookOnce()
  world.fail(1)
  world.wait(1_000)
  world.post(1)
  world.endpoints[1]?.answer('delivered')
  return world
}

/** The lane of a probe, and whether it is for a message that was not tried before. */
const nameOf = ({ lane, isUntried }: Claim) => (isUntried ? `${lane}, untried` : lane)

/** The order of probes, from the first one on. */
const PROBES = [
  'backlog, untried',
  'fresh, untried',
  'backlog, untried',
  'backlog',
  'bulk, untried',
  'bulk',
  'fresh',
]

describe('a new message', () => {
  test('waits until it is known that nothing older does', () => {
    const { queue, lookOnce } = setUp(4)
    expect(queue.place()).toBe('fresh')
    lookOnce()
    expect(queue.place()).toBe('leased')
  })

  test('is leased while there is room, and then waits', () => {
    const { queue, lookOnce } = setUp(2)
    lookOnce()
    expect([queue.place(), queue.place(), queue.place()]).toEqual(['leased', 'leased', 'fresh'])
    queue.releaseRoom('fresh')
    expect(queue.place()).toBe('leased')
  })

  test('waits behind those that wait', () => {
    const { queue, lookOnce } = setUp(4)
    lookOnce()
    queue.noteDue('fresh', 0)
    expect(queue.place()).toBe('fresh')
  })

  test('is parked in the backlog while its destination is down, but for a probe', () => {
    const { queue, lookOnce, fail, wait } = setUp(4)
    lookOnce()
    fail(0)
    expect(queue.place()).toBe('backlog')
    wait(1_000)
    expect([queue.place(), queue.place()]).toEqual(['leased', 'backlog'])
  })

  test('is leased while one endpoint of several has room', () => {
    const { queue, lookOnce, fail, post } = setUp(2, 2)
    lookOnce()
    fail(0)
    post(1)
    expect([queue.place(), queue.place()]).toEqual(['leased', 'fresh'])
  })

  test('leaves the backlog its share while that waits', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('backlog', 0)
    const places = Array.from({ length: 8 }, () => queue.place())
    expect(places.filter((state) => state === 'leased')).toHaveLength(6)
  })
})

describe('new messages without room', () => {
  const delivery = (id: number): Delivery => ({
    ...{ id, attempt: 1, attemptsBefore: 0, messageId: String(id), source: 'web', lane: 'fresh' },
    ...{ destination: 'crm', type: 'track', body: '{}', sinceFirstMs: 0, refusedBy: [] },
  })
  const idsOf = (deliveries: readonly Delivery[]) => deliveries.map(({ id }) => id)

  /** An endpoint with room for four requests, which has just taken 20 in a second: 10 messages may wait. */
  const setUpQuick = () => {
    const world = setUp(4)
    world.lookOnce()
    for (let i = 0; i < 20; i++) {
      world.post(0)
      world.endpoints[0]?.answer('delivered')
    }
    const places = (count: number) => Array.from({ length: count }, () => world.queue.place())
    /** Messages are stored where the queue places them: in memory. */
    const hold = (...ids: number[]) => {
      expect(places(ids.length)).toEqual(ids.map(() => 'ahead'))
      world.queue.expectAhead(-ids.length)
      for (const id of ids) world.queue.hold(delivery(id))
    }
    return { ...world, places, hold }
  }

  test('wait in the store while nothing is known of their endpoint', () => {
    const { queue, lookOnce } = setUp(4)
    lookOnce()
    const places = Array.from({ length: 6 }, () => queue.place())
    expect(places).toEqual(['leased', 'leased', 'leased', 'leased', 'fresh', 'fresh'])
  })

  test('wait in memory, as many as the endpoint takes in half a second', () => {
    const { queue, places } = setUpQuick()
    expect(places(4)).toEqual(Array(4).fill('leased'))
    expect(places(10)).toEqual(Array(10).fill('ahead'))
    expect(places(2)).toEqual(['fresh', 'fresh'])
    expect(queue.behind).toBe(10)
    expect(queue.underWay).toBe(14)
  })

  test('wait in the store again once their endpoint has been idle for a while', () => {
    const { places, wait } = setUpQuick()
    wait(2_000)
    expect(places(5)[4]).toBe('fresh')
  })

  test('wait in the store behind others that wait there', () => {
    const { queue, places } = setUpQuick()
    places(4)
    queue.noteDue('fresh', 0)
    expect(places(1)).toEqual(['fresh'])
  })

  test('wait in the store while their destination is down, or gets fewer requests', () => {
    const down = setUpQuick()
    down.fail(0)
    expect(down.places(1)).toEqual(['backlog'])
    const throttled = setUpQuick()
    throttled.post(0)
    throttled.endpoints[0]?.answer('throttled')
    throttled.wait(1_000)
    expect(throttled.places(6).at(-1)).toBe('fresh')
  })

  test('are sent in their order as soon as there is room, and newer ones after them', () => {
    const { queue, places, hold, post, endpoints } = setUpQuick()
    places(4)
    hold(1)
    expect(queue.next()).toBeUndefined()
    queue.releaseRoom('fresh')
    hold(2)
    expect(queue.next()?.id).toBe(1)
    post(0)
    expect(queue.next()).toBeUndefined()
    endpoints[0]?.answer('delivered')
    expect(queue.next()?.id).toBe(2)
  })

  test('leave the backlog its share while that waits', () => {
    const { queue, places, hold } = setUpQuick()
    places(4)
    hold(1)
    queue.releaseRoom('fresh')
    queue.noteDue('backlog', 0)
    expect(queue.next()).toBeUndefined()
    expect(queue.claims()).toMatchObject([{ lane: 'backlog', limit: 1 }])
  })

  test('are claimed although there is no room for all of them', () => {
    const { queue } = setUpQuick()
    queue.noteDue('fresh', 0)
    const [claim] = queue.claims()
    expect(claim).toMatchObject({ lane: 'fresh', limit: 14 })
    expect(queue.underWay).toBe(14)
    if (claim) expect(queue.claimed(claim, 9)).toEqual({ hasMore: false, withoutRoom: 5 })
    expect(queue.underWay).toBe(0)
  })

  test('are given up after 5 s', () => {
    const { queue, places, hold, wait } = setUpQuick()
    places(4)
    hold(1, 2)
    wait(500)
    hold(3)
    wait(4_499)
    expect(queue.giveUp()).toEqual([])
    wait(1)
    const given = queue.giveUp()
    expect(idsOf(given)).toEqual([1, 2])
    expect(given).toMatchObject([{ dueForMs: 5_000 }, { dueForMs: 5_000 }])
    expect([...queue.waitingIds]).toEqual([3])
  })

  test('are all given up when their destination goes down', () => {
    const { queue, places, hold, fail } = setUpQuick()
    places(4)
    hold(1, 2)
    fail(0)
    expect(idsOf(queue.giveUp())).toEqual([1, 2])
    expect(queue.hasAhead).toBe(false)
  })
})

describe('claims', () => {
  test('fill the room, and each lane has a share of it', () => {
    const { queue } = setUp(8)
    expect(queue.claims()).toEqual([
      { destination: 'crm', lane: 'fresh', limit: 5 },
      { destination: 'crm', lane: 'backlog', limit: 2 },
      { destination: 'crm', lane: 'bulk', limit: 1 },
    ])
  })

  test('of the backlog leave a share to what is fresh', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('backlog', 0)
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 6 }])
  })

  test('of bulk work leave a share to each other lane, although nothing waits there', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('bulk', 0)
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'bulk', limit: 4 }])
  })

  test('leave a retry its share when it becomes due, although fresh messages fill the room', () => {
    const { queue, lookOnce, wait } = setUp(8)
    lookOnce()
    queue.noteDue('backlog', 300)
    wait(300)
    queue.noteDue('fresh', 0)
    expect(queue.claims()).toEqual([
      { destination: 'crm', lane: 'fresh', limit: 6 },
      { destination: 'crm', lane: 'backlog', limit: 2 },
    ])
  })

  test('are not made twice for the same room', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('backlog', 0)
    queue.claims()
    expect(queue.claims()).toEqual([])
  })

  test('come at the time that a retry is due', () => {
    const { queue, lookOnce, wait } = setUp(8)
    lookOnce()
    queue.noteDue('backlog', 300)
    expect(queue.claims()).toEqual([])
    wait(300)
    expect(queue.claims()).toMatchObject([{ lane: 'backlog' }])
  })

  test('are made again if something came while one was made', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('fresh', 0)
    const [claim] = queue.claims()
    queue.noteDue('fresh', 0)
    if (claim) queue.claimed(claim, 1)
    expect(queue.claims()).toMatchObject([{ lane: 'fresh' }])
  })

  test('are made in the lanes in which the store has something due, and in no other', () => {
    const { queue } = setUp(8)
    queue.noteLanes(new Set(['backlog']))
    expect(queue.place()).toBe('leased')
    queue.releaseRoom('fresh')
    const claims = queue.claims()
    expect(claims).toMatchObject([{ lane: 'backlog' }])
    for (const claim of claims) queue.claimed(claim, 0)
    queue.noteLanes(new Set())
    expect(queue.claims()).toEqual([])
    queue.noteLanes(new Set(['fresh', 'bulk']))
    expect(queue.claims().map(({ lane }) => lane)).toEqual(['fresh', 'bulk'])
  })

  test('are made in a lane that got something while the store was asked', () => {
    const { queue, lookOnce } = setUp(8)
    lookOnce()
    queue.noteDue('fresh', 0)
    queue.noteLanes(new Set())
    expect(queue.claims()).toMatchObject([{ lane: 'fresh' }])
  })

  test('of all lanes together are for no more than there is room for in the process', () => {
    const { queue } = setUp(64)
    for (const most of [1, 5, 20, 64]) {
      for (const lane of LANES) queue.noteDue(lane, 0)
      const claims = queue.claims(most)
      expect(claims.reduce((sum, { limit }) => sum + limit, 0)).toBeLessThanOrEqual(most)
      for (const claim of claims) queue.claimed(claim, 0)
    }
  })

  test('of a destination that is down are one, when a probe is due', () => {
    const { queue, lookOnce, fail, wait } = setUp(64)
    lookOnce()
    queue.noteDue('backlog', 0)
    fail(0)
    expect(queue.claims()).toEqual([])
    wait(1_000)
    expect(queue.claims()).toEqual([
      { destination: 'crm', lane: 'backlog', limit: 1, isUntried: true },
    ])
  })

  test('for probes alternate between messages that were not tried and those that are due longest', () => {
    const { queue, fail, wait } = setUp(64)
    fail(0)
    const probes: string[] = []
    for (let i = 0; i < 9; i++) {
      wait(30_000)
      for (const claim of queue.claims()) {
        probes.push(nameOf(claim))
        queue.claimed(claim, 1)
      }
    }
    expect(probes).toEqual([...PROBES, 'backlog, untried', 'fresh, untried'])
  })

  test('for a probe look for one that was tried before at once, if there is no other', () => {
    const { queue, fail, wait } = setUp(64)
    fail(0)
    wait(1_000)
    const claimed: string[] = []
    for (let [claim] = queue.claims(); claim; [claim] = queue.claims()) {
      claimed.push(nameOf(claim))
      queue.claimed(claim, 0)
    }
    expect(claimed).toEqual(PROBES)
  })

  test('for a probe find one that was claimed and given back, whichever lane it waits in', () => {
    for (const lane of LANES) {
      const { queue, lookOnce, fail, wait } = setUp(64)
      lookOnce()
      fail(0)
      queue.noteDue(lane, 0)
      wait(1_000)
      const probes = PROBES.flatMap(() => {
        const claims = queue.claims()
        for (const claim of claims) queue.claimed(claim, 0)
        return claims.map(nameOf)
      })
      expect(probes).toContain(lane)
    }
  })

  test('take turns between the lanes while there is room for a few only', () => {
    const { queue, lookOnce } = setUp(1)
    lookOnce()
    const lanes: unknown[] = []
    for (let i = 0; i < 6; i++) {
      for (const lane of LANES) queue.noteDue(lane, 0)
      for (const claim of queue.claims()) {
        lanes.push(claim.lane)
        queue.claimed(claim, claim.limit)
      }
    }
    expect(lanes).toEqual(['fresh', 'backlog', 'fresh', 'backlog', 'bulk', 'fresh'])
  })

  test('wait for an eighth of the room, as one claim of many is cheap', () => {
    const { queue, endpoints, post, lookOnce } = setUp(64)
    lookOnce()
    for (let i = 0; i < 64; i++) post(0)
    queue.noteDue('backlog', 0)
    for (let i = 0; i < 7; i++) endpoints[0]?.answer('delivered')
    expect(queue.claims()).toEqual([])
    endpoints[0]?.answer('delivered')
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 8 }])
  })

  test.each([
    { caps: [128, 40], busy: 0 },
    { caps: [128, 1], busy: 0 },
    { caps: [8, 8], busy: 7 },
    { caps: [8, 8], busy: 20 },
  ])('of the backlog are made whatever the other endpoint takes: %o', ({ caps, busy }) => {
    const { queue, post, lookOnce } = setUp(...caps)
    lookOnce()
    for (let i = 0; i < busy; i++) post(1)
    queue.noteDue('backlog', 0)
    expect(queue.claims()).toMatchObject([{ lane: 'backlog', limit: (caps[0] ?? 0) * 0.75 }])
  })

  test.each([
    { of: 'has its own share of bulk work under way', busy: 64 },
    { of: 'has more than it takes', busy: 200 },
  ])('of bulk work are made for an endpoint that takes few beside one that $of', ({ busy }) => {
    const { queue, post, lookOnce } = setUp(128, 10)
    lookOnce()
    for (let i = 0; i < busy; i++) post(0, undefined, 'bulk')
    queue.noteDue('bulk', 0)
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'bulk', limit: 6 }])
  })

  test.each([64, 200])(
    'of bulk work are made for an endpoint that recovers beside one that has %i requests',
    (busy) => {
      const { queue, post } = setUpRecovering()
      for (let i = 0; i < busy; i++) post(0, undefined, 'bulk')
      queue.noteDue('bulk', 0)
      expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'bulk', limit: 2 }])
    },
  )

  test('leave each lane its share of an endpoint, whatever another one has of that lane', () => {
    const { queue, post, endpoints, lookOnce } = setUp(128, 8)
    lookOnce()
    for (let i = 0; i < 200; i++) post(0, undefined, 'backlog')
    queue.noteDue('backlog', 0)
    const places = Array.from({ length: 8 }, () => queue.place())
    expect(places.filter((state) => state === 'leased')).toHaveLength(6)
    expect(endpoints[1]?.held).toEqual([])
  })

  test('of the backlog are made while the other endpoint recovers', () => {
    const { queue } = setUpRecovering()
    queue.noteDue('backlog', 0)
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 96 }])
  })

  test('of the backlog are made for an endpoint that takes one at a time while another one is paused', () => {
    const { queue, endpoints, post, lookOnce } = setUp(128, 1)
    lookOnce()
    for (let i = 0; i <= 100; i++) {
      post(0)
      endpoints[0]?.answer(i < 100 ? 'delivered' : 'throttled', 300_000)
    }
    queue.noteDue('backlog', 0)
    expect(queue.claims()).toEqual([{ destination: 'crm', lane: 'backlog', limit: 1 }])
  })

  test('probe an endpoint though another one asked for a long wait', () => {
    const { queue, endpoints, post, fail, wait, lookOnce } = setUp(8, 8)
    lookOnce()
    post(0)
    endpoints[0]?.answer('throttled', 300_000)
    fail(1)
    queue.noteDue('backlog', 0)
    wait(1_000)
    expect(queue.claims()).toMatchObject([{ lane: 'backlog', limit: 1 }])
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
    const { queues, post, wait } = setUp(1)
    const codes: string[] = []
    for (const name of ['under way', 'a', 'b']) post(0, (code) => codes.push(`${name} ${code}`))
    wait(4_999)
    queues[0]?.sweep()
    expect(codes).toEqual([])
    wait(1)
    post(0, (code) => codes.push(`c ${code}`))
    queues[0]?.sweep()
    expect(codes).toEqual(['a endpoint_busy', 'b endpoint_busy'])
  })

  test('lets go of all when its breaker shuts', () => {
    const { queues, endpoints, post } = setUp(5)
    const codes: string[] = []
    for (let i = 0; i < 7; i++) post(0, (code) => codes.push(code))
    for (let i = 0; i < 5; i++) endpoints[0]?.answer('timeout')
    queues[0]?.sweep()
    expect(codes.slice(-2)).toEqual(['timeout', 'timeout'])
  })

  test('lets go of many a few at a time, so that others get their turn', async () => {
    const { queues, post, wait } = setUp(8)
    const codes: string[] = []
    for (let i = 0; i < 8 + 50; i++) post(0, (code) => codes.push(code))
    wait(5_000)
    queues[0]?.sweep()
    expect(codes.length).toBeLessThan(50)
    await expect.poll(() => codes.length).toBe(50)
  })

  test('goes without at once when too many wait, or while it is down', async () => {
    const { queues, post, fail, endpoints } = setUp(1)
    for (let i = 0; i < 1 + 128; i++) post(0)
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
    expect(queues[0]?.room()).toBe(0)
  })
})
