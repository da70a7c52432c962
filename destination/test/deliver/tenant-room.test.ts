// The destinations of tenants with a limit of requests, on a virtual clock: the real dispatcher, queues and breakers.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Room } from '../../src/deliver/destination-queue.js'
import { destinationQueues, unusedEndpoints } from '../../src/deliver/destination-queues.js'
import { Dispatcher } from '../../src/deliver/dispatcher.js'
import { Settler } from '../../src/deliver/settler.js'
import { TenantRoom } from '../../src/deliver/tenant-room.js'
import { createEnqueue } from '../../src/enqueue/enqueue.js'
import type { Outcome } from '../../src/model/outcome.js'
import { tellAll } from '../../src/observe/events.js'
import type { Destination } from '../../src/settings/settings.js'
import { destination } from '../run.js'
import { dice } from '../simulation/chance.js'
import { MemoryTables, openMemory } from '../simulation/memory-store.js'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const DELIVERED: Outcome = {
  ...{ code: 'delivered', verdict: 'delivered', status: 204, ms: 1, retryAfterMs: undefined },
  ...{ response: '', error: undefined },
}

/** A destination, and how long its endpoints take. */
interface Receiver {
  name: string
  tenant?: string
  width?: number
  concurrency?: number
  ms: number
}

/** A dispatcher with these destinations. `limits` are those of the tenants. */
function createWorld(receivers: readonly Receiver[], limits: Record<string, number>) {
  const now = () => performance.now()
  const tables = new MemoryTables(now)
  const store = openMemory(tables)
  const events = tellAll([])
  const settler = new Settler(store, events, now)
  const dispatcher = new Dispatcher({ store, settler, events, now, random: Math.random })
  const enqueue = createEnqueue({ store, dispatcher, events, now })
  const rooms = new Map(
    Object.entries(limits).map(([tenant, limit]) => [
      tenant,
      Object.assign<Room, object>(new TenantRoom(), { limit }),
    ]),
  )
  /** The requests under way, by tenant and then by message. */
  const underWay = new Map<string, Map<string, number>>()
  const requestsOf = (tenant: string) =>
    [...(underWay.get(tenant) ?? new Map<string, number>()).values()].reduce((a, b) => a + b, 0)
  /** Called when a request starts. */
  const started: ((tenant: string, requests: number, messages: number) => void)[] = []
  const done = new Map<string, number>()
  const find = (name: string) => receivers.find((one) => one.name === name)
  const settingsOf = ({ name, tenant, width = 1, concurrency = 128 }: Receiver): Destination => {
    const { webhooks, ...rest } = destination(
      Array.from({ length: width }, (_, i) => ({ url: `http://${name}.example.com/${i}` })),
      { name, tenant },
    )
    return { ...rest, webhooks: webhooks.map((endpoint) => ({ ...endpoint, concurrency })) }
  }
  const connect = ({ url }: { url: string }) => ({
    post: (message: string, _headers: unknown, end: (outcome: Outcome) => void) => {
      const receiver = find(new URL(url).hostname.split('.')[0] ?? '')
      if (!receiver) throw new Error(`no receiver for ${url}`)
      const { name, tenant = '', ms } = receiver
      const messages = underWay.get(tenant) ?? new Map<string, number>()
      underWay.set(tenant, messages.set(message, (messages.get(message) ?? 0) + 1))
      for (const note of started) note(tenant, requestsOf(tenant), messages.size)
      setTimeout(() => {
        const left = (messages.get(message) ?? 0) - 1
        if (left > 0) messages.set(message, left)
        else messages.delete(message)
        done.set(name, (done.get(name) ?? 0) + 1 / (receiver.width ?? 1))
        end(DELIVERED)
      }, ms)
    },
    close: () => Promise.resolve(),
  })
  const parts = { connect, roomOf: (tenant: string) => rooms.get(tenant) ?? new TenantRoom(), now }
  let queues = [...destinationQueues(receivers.map(settingsOf), [], true, parts)]
  dispatcher.use(queues, [])
  let id = 0
  return {
    started,
    done,
    /** Changes the secret of each destination in the list, so that it gets a new queue. */
    change: (names: readonly string[]) => {
      const next = receivers.map((one) => {
        const isChanged = names.includes(one.name)
        return { ...settingsOf(one), ...(isChanged && { sharedSecret: String(++id) }) }
      })
      const former = queues
      queues = [...destinationQueues(next, former, true, parts)]
      dispatcher.use(queues, [...unusedEndpoints(former, queues)])
    },
    limit: (tenant: string, limit: number) => {
      Object.assign(rooms.get(tenant) ?? {}, { limit })
      dispatcher.use(queues, [])
    },
    arrive: (name: string, count: number, isBulk = false) =>
      enqueue(
        Array.from({ length: count }, () => {
          const messageId = String(++id)
          return {
            ...{ messageId, source: 'web', destination: name, type: 'track' as const },
            ...{ user: 'u', body: `${name} ${messageId}`, isBulk },
          }
        }),
      ),
    left: () =>
      tables.stats().reduce((sum, one) => sum + one.fresh + one.backlog + one.bulk + one.leased, 0),
    close: async () => {
      const closing = dispatcher.close()
      await vi.advanceTimersByTimeAsync(10_000)
      await closing
    },
  }
}

describe('the requests of a tenant', () => {
  test(
    'are never more than its limit, all are sent, and no room is left unused for long',
    { tags: 'long' },
    async () => {
      for (let round = 0; round < 12; round++) {
        const seed = (Date.now() + round) % 1_000_000
        const { between, pick, chance } = dice(seed)
        const limits: Record<string, number> = { a: between(1, 20), b: between(1, 40) }
        const receivers = Array.from({ length: between(2, 7) }, (_, i) => ({
          ...{ name: `d${i}`, tenant: pick(['a', 'a', 'b']) },
          ...{ width: chance(0.3) ? between(2, 5) : 1, concurrency: between(1, 30) },
          ms: pick([5, 20, 20, 300, 2_000]),
        }))
        const world = createWorld(receivers, limits)
        const most = { ...limits }
        world.started.push((tenant, requests, messages) => {
          const which = `seed ${seed}, tenant ${tenant}: ${requests} requests of ${messages} messages`
          if (messages > 1) expect(requests, which).toBeLessThanOrEqual(most[tenant] ?? 0)
        })
        const arrived = new Map<string, number>()
        /** How long it takes if the room is always used, but for what is kept free while the widest message waits for its turn. */
        const idealMsOf = (tenant: string) => {
          const own = receivers.filter((one) => one.tenant === tenant)
          const used = (limits[tenant] ?? 0) - Math.max(...own.map(({ width }) => width))
          return own.reduce((sum, { name, ms, width, concurrency }) => {
            const atOnce = Math.max(1, Math.min(concurrency, Math.floor(used / width)))
            return sum + Math.ceil((arrived.get(name) ?? 0) / atOnce) * ms
          }, 0)
        }
        for (let step = 0; step < 15; step++) {
          const { name } = pick(receivers)
          const count = between(1, 25)
          arrived.set(name, (arrived.get(name) ?? 0) + count)
          await world.arrive(name, count, chance(0.2))
          if (chance(0.1)) world.change([pick(receivers).name])
          if (chance(0.1)) {
            const tenant = pick(['a', 'b'])
            limits[tenant] = between(1, 20)
            // Requests of before the change may still start.
            most[tenant] = Math.max(most[tenant] ?? 0, limits[tenant] ?? 0)
            world.limit(tenant, limits[tenant] ?? 0)
          }
          await vi.advanceTimersByTimeAsync(pick([0, 10, 100, 1_000]))
        }
        const idealMs = Math.max(idealMsOf('a'), idealMsOf('b'))
        const from = performance.now()
        while (world.left() > 0) {
          const passed = performance.now() - from
          expect(passed, `seed ${seed}: ${world.left()} messages are left`).toBeLessThan(
            idealMs * 2 + 3_000,
          )
          await vi.advanceTimersByTimeAsync(100)
        }
        await world.close()
      }
    },
  )

  test(
    'are shared in equal parts: slow endpoints do not take all of the room',
    { tags: 'long' },
    async () => {
      const receivers = [
        { name: 'slow', tenant: 'a', ms: 4_000 },
        { name: 'fast', tenant: 'a', ms: 20 },
        { name: 'wide', tenant: 'a', ms: 20, width: 5 },
        { name: 'free', ms: 20 },
      ]
      const world = createWorld(receivers, { a: 12 })
      await world.arrive('slow', 200)
      await vi.advanceTimersByTimeAsync(1_000)
      // The slow endpoints have all of the room, because nobody else wanted it.
      await world.arrive('fast', 1_500)
      await world.arrive('wide', 300)
      await world.arrive('free', 100)
      await vi.advanceTimersByTimeAsync(100)
      expect(world.done.get('free')).toBe(100)
      await vi.advanceTimersByTimeAsync(6_900)
      const before = world.done.get('fast') ?? 0
      await vi.advanceTimersByTimeAsync(4_000)
      // Four requests at once, each in 20 ms, are 800 in 4 s. Some are lost to rounding, and to the one with five endpoints.
      expect((world.done.get('fast') ?? 0) - before).toBeGreaterThan(400)
      expect(world.done.get('wide')).toBeGreaterThan(100)
      expect(world.done.get('slow')).toBeGreaterThanOrEqual(12)
      await world.close()
    },
  )

  test('of a message to more endpoints than the limit are sent alone', async () => {
    const receivers = [
      { name: 'wide', tenant: 'a', ms: 20, width: 5 },
      { name: 'narrow', tenant: 'a', ms: 20 },
    ]
    const world = createWorld(receivers, { a: 3 })
    let most = 0
    world.started.push((_, requests, messages) => {
      if (requests > 3) expect(messages).toBe(1)
      most = Math.max(most, requests)
    })
    await world.arrive('narrow', 50)
    await world.arrive('wide', 50)
    await vi.advanceTimersByTimeAsync(4_000)
    expect([...world.done.values()].map(Math.round)).toEqual([50, 50])
    expect(most).toBe(5)
    await world.close()
  })
})

describe('room that becomes free', () => {
  test('is used at once by another destination of the tenant', async () => {
    const receivers = [
      { name: 'first', tenant: 'a', ms: 310 },
      { name: 'second', tenant: 'a', ms: 310 },
    ]
    const world = createWorld(receivers, { a: 1 })
    await vi.advanceTimersByTimeAsync(1_000)
    await world.arrive('first', 1)
    await world.arrive('second', 1)
    // 620 ms are between two ticks of the dispatcher, which would find the message later.
    await vi.advanceTimersByTimeAsync(621)
    expect(Object.fromEntries(world.done)).toEqual({ first: 1, second: 1 })
    await world.close()
  })

  /** A room, and sharers that take requests of it. */
  function createRoom(limit: number) {
    const room = Object.assign(new TenantRoom(), { limit })
    const sharer = (width = 1) => {
      const one = {
        ...{ width, requests: 0, wantsRoom: true },
        take: (deliveries: number) => {
          one.requests += deliveries * width
          room.take(one, deliveries * width)
        },
      }
      return one
    }
    return { room, sharer }
  }

  test('is given to those in line, the first one first, in equal parts', () => {
    const { room, sharer } = createRoom(12)
    const [a, b, c] = [sharer(), sharer(), sharer()]
    expect(room.roomFor(a)).toBe(12)
    a.take(12)
    for (const one of [b, c, a]) room.wait(one)
    expect(room.next()).toBeUndefined()
    a.take(-6)
    expect(room.next()).toBe(b)
    expect([a, b, c].map((one) => room.roomFor(one))).toEqual([0, 4, 0])
    b.take(4)
    room.leave(b)
    room.wait(b)
    // It has its part, so that it is the turn of the next one.
    expect(room.next()).toBe(c)
    expect([a, b, c].map((one) => room.roomFor(one))).toEqual([0, 0, 2])
    c.take(2)
    expect(room.next()).toBeUndefined()
    a.take(-1)
    expect(room.next()).toBe(c)
    expect(room.roomFor(c)).toBe(1)
  })

  test('is kept for one with several endpoints until it is enough', () => {
    const { room, sharer } = createRoom(6)
    const [narrow, wide] = [sharer(), sharer(5)]
    narrow.take(6)
    room.wait(wide)
    room.wait(narrow)
    for (let ended = 1; ended < 5; ended++) {
      narrow.take(-1)
      expect([room.next(), room.roomFor(narrow), room.roomFor(wide)]).toEqual([undefined, 0, 0])
    }
    narrow.take(-1)
    expect([room.next(), room.roomFor(narrow), room.roomFor(wide)]).toEqual([wide, 0, 1])
  })

  test('is not kept for one that can send nothing, or that is no longer used', () => {
    const { room, sharer } = createRoom(3)
    const [a, down, gone] = [sharer(), sharer(), sharer()]
    room.wait(down)
    room.wait(gone)
    down.wantsRoom = false
    room.leave(gone)
    expect(room.roomFor(a)).toBe(3)
  })

  test('is one message even if it has more endpoints than the limit, if nothing is under way', () => {
    const { room, sharer } = createRoom(3)
    const [wide, other] = [sharer(5), sharer()]
    expect(room.roomFor(wide)).toBe(1)
    other.take(1)
    expect(room.roomFor(wide)).toBe(0)
  })
})
