import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { Breaker } from '../../src/deliver/breaker.js'
import { DestinationQueue } from '../../src/deliver/destination-queue.js'
import { unusedEndpoints } from '../../src/deliver/destination-queues.js'
import { Dispatcher } from '../../src/deliver/dispatcher.js'
import { EndpointQueue } from '../../src/deliver/endpoint-queue.js'
import { Pace } from '../../src/deliver/pace.js'
import { MAX_UNDER_WAY } from '../../src/deliver/process-room.js'
import { Settler } from '../../src/deliver/settler.js'
import type { Claim, Delivery, DeliveryId, Settlement } from '../../src/model/delivery.js'
import type { Outcome } from '../../src/model/outcome.js'
import { tellAll } from '../../src/observe/events.js'
import type { HeaderList } from '../../src/post/headers.js'
import { destination } from '../run.js'

const DELIVERED: Outcome = {
  code: 'delivered',
  verdict: 'delivered',
  status: 204,
  ms: 1,
  retryAfterMs: undefined,
  response: '',
  error: undefined,
}

const now = () => performance.now()

const UNAUTHORIZED: Outcome = {
  ...DELIVERED,
  code: 'client_error',
  verdict: 'refused',
  status: 401,
}

/** A dispatcher with several destinations, of each of which `waiting` messages wait. Endpoints answer when told to. */
function setUp(
  names: string[],
  waiting: number,
  maxUnderWay: number,
  width = 1,
  secrets = {},
  bodyOf: (id: DeliveryId, name: string) => string = () => '{}',
) {
  const left = new Map(names.map((name) => [name, waiting]))
  const done: Settlement[] = []
  const held: {
    name: string
    bytes: number
    headers: HeaderList
    end: (outcome?: Outcome) => void
  }[] = []
  const gone: DeliveryId[] = []
  let id = 0
  const claimOne = ({ destination: name, lane, limit }: Claim): Delivery[] => {
    const count = lane === 'backlog' ? Math.min(limit, left.get(name) ?? 0) : 0
    left.set(name, (left.get(name) ?? 0) - count)
    return Array.from({ length: count }, () => ({
      id: ++id,
      body: bodyOf(id, name),
      attempt: 1,
      attemptsBefore: 0,
      messageId: String(id),
      source: 'web',
      destination: name,
      type: 'track',
      sinceFirstMs: 0,
      lane,
      refusedBy: [],
    }))
  }
  const store = {
    claim: (claims: Claim[]) => Promise.resolve(claims.flatMap(claimOne)),
    due: () =>
      Promise.resolve(
        names
          .filter((name) => (left.get(name) ?? 0) > 0)
          .map((name) => ({ destination: name, lane: 'backlog' as const })),
      ),
    shared: {
      gone: (ids: readonly DeliveryId[]) =>
        Promise.resolve(ids.filter((one) => gone.includes(one))),
    },
    settle: (settlements: Settlement[]) => {
      done.push(...settlements)
      return Promise.resolve(0)
    },
    onSettled: () => undefined,
  }
  const events = tellAll([])
  const settler = new Settler(store, events, now)
  const dispatcher = new Dispatcher({ store, settler, events, now, random: () => 0, maxUnderWay })
  const queues = names.map((name) => {
    const webhooks = Array.from({ length: width }, (_, i) => ({
      url: `http://${name}.example.com/${i}`,
      headers: {},
      concurrency: 128,
    }))
    const poster = {
      post: (body: string, headers: HeaderList, end: (outcome: Outcome) => void) => {
        held.push({
          name,
          bytes: body.length,
          headers,
          end: (outcome = DELIVERED) => {
            end(outcome)
          },
        })
      },
      close: () => Promise.resolve(),
    }
    const endpoints = webhooks.map(
      (endpoint) => new EndpointQueue(endpoint, new Breaker(128), new Pace(), poster, now),
    )
    return new DestinationQueue(destination(webhooks, { name, ...secrets }), endpoints, now)
  })
  dispatcher.use(queues, [])
  const add = (name: string, count: number) => left.set(name, (left.get(name) ?? 0) + count)
  return { add, dispatcher, queues, held, done, gone }
}

const countOf = (held: readonly { name: string }[], name: string) =>
  held.filter((one) => one.name === name).length

test('who waits for the end of what is under way does not wait for what is sent later', async () => {
  const { add, dispatcher, held, queues } = setUp(['a'], 2, 8)
  await expect.poll(() => held.length).toBe(2)
  let hasEnded = false
  const ended = dispatcher.presentEnded().then(() => (hasEnded = true))
  add('a', 1)
  queues[0]?.noteDue('backlog', 0)
  await expect.poll(() => held.length).toBe(3)
  held[1]?.end()
  await new Promise((resolve) => setTimeout(resolve, 5))
  expect(hasEnded).toBe(false)
  held[0]?.end()
  await ended
  expect(dispatcher.underWay).toBe(1)
  held[2]?.end()
  await dispatcher.presentEnded()
  dispatcher.stop()
})

describe('deliveries of all destinations together', () => {
  const names = ['a', 'b', 'c', 'd']

  test('are no more than the process has room for, and no destination takes more than half of it', async () => {
    const { dispatcher, held } = setUp(names, 100, 8)
    await expect.poll(() => held.length).toBe(8)
    expect(names.map((name) => countOf(held, name))).toEqual([4, 2, 2, 0])
    expect(dispatcher.underWay).toBe(8)
    expect(dispatcher.place('a').state).toBe('fresh')
    dispatcher.stop()
  })

  test.each([30_000, 400_000])(
    'have no more than about 32 MB of bodies, no destination has all of them, and all are sent: bodies of %i bytes',
    { tags: 'long' },
    async (most) => {
      const many = Array.from({ length: 40 }, (_, n) => `d${n}`)
      const bodies = ['x'.repeat(300), 'x'.repeat(most)] as const
      let isLarge = false
      const bodyOf = (id: DeliveryId) => (isLarge && id % 5 > 0 ? bodies[1] : bodies[0])
      const { add, dispatcher, held, done, queues } = setUp(many, 100, MAX_UNDER_WAY, 1, {}, bodyOf)
      const sum = () => held.reduce((bytes, one) => bytes + one.bytes, 0)
      /** Ends them all, and gives the most bytes that were under way at once. */
      const endAll = async (count: number) => {
        let [largest, ended] = [0, 0]
        const until = now() + 60_000
        while (ended < count && now() < until) {
          largest = Math.max(largest, sum())
          for (const { end } of held.splice(0, 20)) {
            end()
            ended++
          }
          await new Promise((resolve) => setTimeout(resolve, held.length === 0 ? 5 : 0))
        }
        expect(ended).toBe(count)
        return largest
      }
      // Small ones first, so that nobody expects large ones. Then large ones are due everywhere at once.
      await endAll(4_000)
      isLarge = true
      for (const queue of queues) {
        add(queue.destination.name, 100)
        queue.noteDue('backlog', 0)
      }
      await expect.poll(sum).toBeGreaterThan(16 * 1_048_576)
      expect(new Set(held.map(({ name }) => name)).size).toBeGreaterThan(1)
      // A round of claims may be larger than expected.
      expect(await endAll(4_000)).toBeLessThan(32 * 1_048_576 + 512 * most)
      await dispatcher.close()
      expect(done).toHaveLength(8_000)
    },
  )

  test('of a destination whose bodies are large hold up no other one, which new messages keep busy', async () => {
    const small = Array.from({ length: 150 }, (_, n) => `s${n}`)
    const bodyOf = (_: DeliveryId, name: string) => (name === 'big' ? 'x'.repeat(400_000) : '{}')
    const { add, dispatcher, held, queues } = setUp(
      ['big', ...small, 'victim'],
      0,
      MAX_UNDER_WAY,
      1,
      {},
      bodyOf,
    )
    const due = (name: string, count: number) => {
      add(name, count)
      queues.find(({ destination }) => destination.name === name)?.noteDue('backlog', 0)
    }
    for (const name of small) due(name, 10)
    await expect.poll(() => held.length).toBe(1_500)
    due('big', 100)
    // As many as half of the room takes.
    await expect.poll(() => countOf(held, 'big')).toBeGreaterThan(5)
    // A new message that is being stored: the destination is never idle.
    expect(dispatcher.place('victim').state).toBe('leased')
    due('victim', 100)
    await expect.poll(() => countOf(held, 'victim')).toBeGreaterThan(5)
    dispatcher.stop()
  })

  test('count one request for each of their endpoints, because each takes a connection', async () => {
    const { dispatcher, held } = setUp(names, 100, 40, 5)
    await expect.poll(() => held.length).toBe(40)
    expect(names.map((name) => countOf(held, name))).toEqual([20, 10, 10, 0])
    expect(dispatcher.place('a').state).toBe('fresh')
    dispatcher.stop()
  })

  test('count no request that was answered, so that others start before the slower endpoints have answered', async () => {
    const { dispatcher, held } = setUp(['a', 'b'], 100, 8, 2)
    await expect.poll(() => held.length).toBe(8)
    for (const { end } of held.slice(0, 4).filter((_, n) => n % 2 === 0)) end()
    await expect.poll(() => held.length).toBe(10)
    expect(dispatcher.underWay).toBe(5)
    dispatcher.stop()
  })

  test('get at least one each, even if its requests are more than the share', async () => {
    const { dispatcher, held } = setUp(names, 100, 8, 5)
    await expect.poll(() => held.length).toBe(10)
    expect(names.map((name) => countOf(held, name))).toEqual([5, 5, 0, 0])
    dispatcher.stop()
  })

  test('have the part of one whose last message was not stored after all', async () => {
    const { add, dispatcher, held, done, queues } = setUp(['a', 'b'], 0, 8)
    const due = (name: string, count: number) => {
      add(name, count)
      queues.find(({ destination }) => destination.name === name)?.noteDue('backlog', 0)
    }
    due('a', 1)
    await expect.poll(() => held.length).toBe(1)
    const placement = dispatcher.place('a')
    expect(placement.state).toBe('leased')
    held.splice(0)[0]?.end()
    await expect.poll(() => done.length).toBe(1)
    dispatcher.notPlaced(placement)
    due('b', 100)
    await expect.poll(() => countOf(held, 'b')).toBe(8)
    dispatcher.stop()
  })

  test('have the part of former settings whose last claim came after them', async () => {
    const { add, dispatcher, held, done, queues } = setUp(['a', 'b'], 1, 8)
    await expect.poll(() => held.length).toBe(2)
    add('a', 1)
    dispatcher.wake('a', 'backlog')
    for (const { end } of held.splice(0)) end()
    const [former, other] = queues
    if (!former || !other) throw new Error('no queue')
    const present = new DestinationQueue({ ...former.destination }, former.endpoints, now)
    dispatcher.use([present, other], [])
    await expect.poll(() => held.length).toBe(1)
    held.splice(0)[0]?.end()
    await expect.poll(() => done.length).toBe(3)
    add('b', 100)
    dispatcher.wake('b', 'backlog')
    await expect.poll(() => countOf(held, 'b')).toBe(8)
    dispatcher.stop()
  })

  test('all go on while one destination never answers', async () => {
    const { dispatcher, held, done } = setUp(names, 100, 8)
    let most = 0
    let mostOfA = 0
    while (done.length < 300) {
      most = Math.max(most, dispatcher.underWay)
      // Near the end, nobody else wants the room.
      if (done.length < 200) mostOfA = Math.max(mostOfA, countOf(held, 'a'))
      const next = held.findIndex(({ name }) => name !== 'a')
      if (next < 0) await new Promise((resolve) => setImmediate(resolve))
      else held.splice(next, 1)[0]?.end()
    }
    expect({ most, mostOfA }).toEqual({ most: 8, mostOfA: 4 })
    dispatcher.stop()
  })

  test('go on at a fast destination where slow ones hold all the other requests', async () => {
    const slow = Array.from({ length: 63 }, (_, n) => `slow${n}`)
    const { add, dispatcher, held, done } = setUp([...slow, 'fast'], 0, 64)
    const due = (name: string, count: number) => {
      add(name, count)
      dispatcher.wake(name, 'backlog')
    }
    for (const name of slow) due(name, 1)
    await expect.poll(() => held.length).toBe(63)
    for (const name of slow) due(name, 100)
    due('fast', 20)
    for (let ended = 0; ended < 20; ended++) {
      await expect.poll(() => countOf(held, 'fast'), { interval: 1 }).toBe(1)
      held.find(({ name }) => name === 'fast')?.end()
      held.splice(63)
    }
    await expect.poll(() => done.length).toBe(20)
    expect(held).toHaveLength(63)
    dispatcher.stop()
  })
})

describe('many deliveries at once', () => {
  const turn = () => new Promise((resolve) => setImmediate(resolve))

  test('are sent in several turns of the event loop, in each of which every destination has its part', async () => {
    const { dispatcher, held } = setUp(['a', 'b'], 90, 1_000)
    const sentIn: string[][] = []
    let before = 0
    while (held.length < 180) {
      await turn()
      sentIn.push(held.slice(before).map(({ name }) => name))
      before = held.length
    }
    expect(Math.max(...sentIn.map((names) => names.length))).toBe(32)
    const shared = sentIn.find((names) => new Set(names).size === 2) ?? []
    expect(shared.filter((name) => name === 'b').length).toBe(16)
    expect(dispatcher.underWay).toBe(180)
    dispatcher.stop()
  })

  test('are not sent after the dispatcher is stopped, and keep their places', async () => {
    const { dispatcher, held, done } = setUp(['a', 'b'], 90, 1_000)
    while (held.length === 0) await turn()
    const sent = held.length
    expect(sent).toBeLessThan(180)
    const closed = dispatcher.close()
    await turn()
    for (const { end } of held.splice(0)) end()
    await closed
    expect(held).toEqual([])
    expect(done).toHaveLength(180)
    expect(done.filter(({ next }) => next.state === 'done')).toHaveLength(sent)
    const given = done.filter(({ isUnsent }) => isUnsent)
    expect(given.every(({ next }) => 'delayMs' in next && next.delayMs === 0)).toBe(true)
    expect(given).toHaveLength(180 - sent)
  })

  test('are not sent to a destination that is disabled meanwhile, and wait for it', async () => {
    const { dispatcher, queues, held, done } = setUp(['a'], 90, 1_000)
    while (held.length === 0) await turn()
    dispatcher.use([], [...unusedEndpoints(queues, [])])
    const sent = held.length
    for (const { end } of held.splice(0)) end()
    await expect.poll(() => done.length).toBe(90)
    expect(held).toHaveLength(0)
    expect(done.filter(({ isUnsent }) => isUnsent)).toHaveLength(90 - sent)
    expect(dispatcher.underWay).toBe(0)
    dispatcher.stop()
  })
})

describe('messages that wait in memory', () => {
  /** The endpoint has taken 200 messages in the last second, and 128 are under way: the next ones wait in memory. */
  async function setUpBusy(waiting = 3) {
    const world = setUp(['a'], 200, 1_000)
    const { dispatcher, queues, held, done } = world
    while (done.length < 200) {
      for (const { end } of held.splice(0)) end()
      await turn()
    }
    await expect.poll(() => dispatcher.place('b').state).toBe('fresh')
    await expect.poll(() => queues[0]?.hasWaiting).toBe(false)
    done.length = 0
    let id = 1_000
    const arrive = (count: number) => {
      for (let i = 0; i < count; i++) {
        const placement = dispatcher.place('a')
        expect(placement.state).toBe('leased')
        dispatcher.placed(placement, {
          ...{ id: ++id, attempt: 1, attemptsBefore: 0, messageId: String(id), source: 'web' },
          ...{ destination: 'a', type: 'track', body: '{}', sinceFirstMs: 0, refusedBy: [] },
          lane: 'fresh',
        })
      }
    }
    arrive(128 + waiting)
    await expect.poll(() => held.length).toBe(128)
    return world
  }
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const WAITING = [1_129, 1_130, 1_131]
  /** They have been due since they came. */
  const delayMs = expect.toSatisfy((ms: number) => ms < 0) as unknown
  const GIVEN_BACK = WAITING.map((id) => ({
    ...{ id, attempt: 1, isUnsent: true, log: [], next: { state: 'fresh', delayMs } },
  }))

  test('are sent without another question to the store when others have ended', async () => {
    const { dispatcher, held, done } = await setUpBusy()
    expect(dispatcher.behind()).toBe(3)
    for (const { end } of held.splice(0, 2)) end()
    await expect.poll(() => held.length).toBe(128)
    for (const { end } of held.splice(0)) end()
    await expect.poll(() => held.length).toBe(1)
    held[0]?.end()
    await expect.poll(() => done.length).toBe(131)
    expect(done.slice(-3).map(({ id }) => id)).toEqual(WAITING)
    expect(done.every(({ next }) => next.state === 'done')).toBe(true)
    expect([dispatcher.underWay, dispatcher.behind()]).toEqual([0, 0])
    dispatcher.stop()
  })

  test('go back to the store when the process ends', async () => {
    const { dispatcher, held, done } = await setUpBusy()
    const from = now()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const closed = dispatcher.close()
    const waited = now() - from
    for (const { end } of held.splice(0)) end()
    await closed
    // They have their places before those that were stored meanwhile.
    for (const { next } of done.filter(({ isUnsent }) => isUnsent))
      expect('delayMs' in next && next.delayMs).toBeLessThanOrEqual(-waited)
    expect(done).toHaveLength(131)
    expect(done.filter(({ isUnsent }) => isUnsent)).toMatchObject(GIVEN_BACK)
    expect(held).toHaveLength(0)
  })

  test('go back to the store when their destination changes, and are sent by the new settings', async () => {
    const { dispatcher, queues, held, done } = await setUpBusy()
    const [before] = queues
    if (!before) throw new Error('no queue')
    dispatcher.use([new DestinationQueue({ ...before.destination }, before.endpoints, now)], [])
    await expect.poll(() => done).toMatchObject(GIVEN_BACK)
    for (const { end } of held.splice(0)) end()
    await expect.poll(() => done.length).toBe(131)
    expect(held).toHaveLength(0)
    dispatcher.stop()
  })

  test('wait in the backlog when their destination goes down', async () => {
    const { dispatcher, held, done } = await setUpBusy(20)
    for (const { end } of held.splice(0)) end({ ...DELIVERED, code: 'timeout', verdict: 'retry' })
    // The breaker opens with the fifth failure.
    await expect.poll(() => done.length + held.length).toBe(148)
    expect(held.length).toBeLessThan(5)
    const unsent = done.filter(({ isUnsent }) => isUnsent)
    expect(unsent.length).toBeGreaterThan(15)
    expect(unsent.every(({ next }) => next.state === 'backlog')).toBe(true)
    dispatcher.stop()
  })

  test('are not sent if they are deleted', async () => {
    const { dispatcher, held, done, gone } = await setUpBusy()
    dispatcher.recall(new Set([1_129]))
    gone.push(1_131)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    for (const { end } of held.splice(0)) end()
    await expect.poll(() => held.length).toBe(1)
    held[0]?.end()
    await expect.poll(() => done.length).toBe(129)
    expect(done.at(-1)?.id).toBe(1_130)
    expect(dispatcher.behind()).toBe(0)
    dispatcher.stop()
  })
})

test('new messages of former settings do not count as waiting for this process', () => {
  const { dispatcher, queues } = setUp(['a'], 0, 8)
  const placement = dispatcher.place('a')
  expect(placement.state).toBe('fresh')
  dispatcher.placed(placement, {
    ...{ id: 1_000, attempt: 1, attemptsBefore: 0, messageId: '1', source: 'web', lane: 'fresh' },
    ...{ destination: 'a', type: 'track', body: '{}', sinceFirstMs: 0, refusedBy: [] },
  })
  dispatcher.use([], [...unusedEndpoints(queues, [])])
  expect(dispatcher.behind()).toBe(0)
  dispatcher.stop()
})

describe('a destination whose settings change during a rotation', () => {
  const secrets = { sharedSecret: 'old', otherSecret: 'new' }

  test('is sent nothing with the other secret if it is disabled', async () => {
    const { dispatcher, queues, held, done } = setUp(['a'], 1, 8, 1, secrets)
    await expect.poll(() => held.length).toBe(1)
    dispatcher.use([], [...unusedEndpoints(queues, [])])
    held[0]?.end(UNAUTHORIZED)
    await expect.poll(() => done).toMatchObject([{ next: { state: 'backlog' } }])
    expect(held).toHaveLength(1)
    dispatcher.stop()
  })

  test('is sent nothing with a secret that was removed after the first was refused', async () => {
    const { dispatcher, queues, held, done } = setUp(['a'], 1, 8, 1, secrets)
    await expect.poll(() => held.length).toBe(1)
    dispatcher.use(
      queues.map(({ destination, endpoints }) => {
        const changed = { ...destination, sharedSecret: 'newest', otherSecret: undefined }
        return new DestinationQueue(changed, endpoints, now)
      }),
      [],
    )
    held[0]?.end(UNAUTHORIZED)
    await expect.poll(() => held.length).toBe(2)
    const signature = createHmac('sha1', 'newest').update('{}').digest('hex')
    expect(held[1]?.headers).toContain(signature)
    held[1]?.end(UNAUTHORIZED)
    // Its secrets may have changed for the receiver, too, so that the refusal is not final.
    await expect.poll(() => done).toMatchObject([{ next: { state: 'backlog' } }])
    expect(held).toHaveLength(2)
    dispatcher.stop()
  })

  test('is sent the message with the other secret if nothing changes', async () => {
    const { dispatcher, held, done } = setUp(['a'], 1, 8, 1, secrets)
    await expect.poll(() => held.length).toBe(1)
    held[0]?.end(UNAUTHORIZED)
    await expect.poll(() => held.length).toBe(2)
    held[1]?.end()
    await expect.poll(() => done).toMatchObject([{ next: { state: 'done' } }])
    dispatcher.stop()
  })
})

describe('a delivery that is deleted', () => {
  const secrets = { sharedSecret: 'old', otherSecret: 'new' }

  test('while a request of it is under way is not sent with the other secret', async () => {
    const { dispatcher, held, done } = setUp(['a'], 1, 8, 1, secrets)
    await expect.poll(() => held.length).toBe(1)
    dispatcher.recall(new Set([1]))
    held[0]?.end(UNAUTHORIZED)
    await expect.poll(() => done).toMatchObject([{ id: 1, next: { state: 'backlog' } }])
    expect(held).toHaveLength(1)
    expect(dispatcher.underWay).toBe(0)
    dispatcher.stop()
  })

  test('while it is on its way from the store is not sent at all', async () => {
    const { dispatcher, held, done } = setUp(['a'], 3, 8)
    dispatcher.recall(new Set([2]))
    await expect.poll(() => held.length).toBe(2)
    for (const { end } of held) end()
    await expect.poll(() => done.map(({ id }) => id)).toEqual([1, 3])
    expect(dispatcher.underWay).toBe(0)
    dispatcher.stop()
  })

  test('without a word to this process is missed soon', async () => {
    const { dispatcher, held, done, gone } = setUp(['a'], 2, 8, 1, secrets)
    await expect.poll(() => held.length).toBe(2)
    gone.push(1)
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    for (const { end } of held.slice()) end(UNAUTHORIZED)
    await expect.poll(() => held.length).toBe(3)
    held[2]?.end()
    await expect
      .poll(() => done.map(({ id, next }) => [id, next.state]))
      .toEqual([
        [1, 'backlog'],
        [2, 'done'],
      ])
    dispatcher.stop()
  })
})
