import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { createPoster } from '../../../src/post/poster.js'
import { createNetwork } from '../../../src/post/network.js'
import { startDestination, type RunningDestination } from '../../../src/destination.js'
import { SharedBreakers } from '../../../src/deliver/shared-breakers.js'
import type { DestinationQueue } from '../../../src/deliver/destination-queue.js'
import { destinationQueues } from '../../../src/deliver/destination-queues.js'
import { Dispatcher } from '../../../src/deliver/dispatcher.js'
import type { Breaker, Signal } from '../../../src/deliver/breaker.js'
import { errorMessage } from '../../../src/observe/error-message.js'
import { tellAll } from '../../../src/observe/events.js'
import { logLines } from '../../../src/observe/log-lines.js'
import type { Log } from '../../../src/observe/log.js'
import type { Status } from '../../../src/model/answers.js'
import type { Role } from '../../../src/settings/role.js'
import { Settler } from '../../../src/deliver/settler.js'
import type { Destination, Settings } from '../../../src/settings/settings.js'
import { openStore } from '../../../src/store/open.js'
import { LEASE_MS, type Store } from '../../../src/store/store.js'
import { HEARTBEAT_MS, WORKER_TIMEOUT_MS } from '../../../src/store/workers.js'
import { keepWarnings, repeated, silent } from '../../run.js'
import { parseScrape } from '../../observe/scrape.js'
import { startEndpoint, type Answer, type TestEndpoint } from '../../endpoint.js'
import { newDelivery } from '../contract.js'
import { startServer } from './server.js'

const FAILURE: Signal = { isHealthy: false, retryAfterMs: 0, wasTried: false }
const SUCCESS: Signal = { ...FAILURE, isHealthy: true }

// Collectors and workers that share a server. Each has its own connections, as on separate machines.

const server = await startServer({ fsync: 'off' })
afterAll(() => server.dispose())

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
})

async function endpoint(): Promise<TestEndpoint> {
  const started = await startEndpoint([204])
  cleanUps.push(() => started[Symbol.asyncDispose]())
  return started
}

const crmTo = (url: string, concurrency = 128): Destination => ({
  name: 'crm',
  sources: ['web'],
  enabled: true,
  sharedSecret: undefined,
  webhooks: [{ url, headers: {}, concurrency }],
})

const settingsOf = (store: string, crm: Destination): Settings => ({
  listen: { host: '127.0.0.1', port: 0 },
  sources: [{ name: 'web', writeKey: 'key' }],
  destinations: [crm],
  tenants: [],
  store,
  adminToken: undefined,
  allowNetworks: ['127.0.0.0/8'],
  ca: [],
  retentionMs: 7 * 86_400_000,
})

async function start(
  settings: Settings,
  role: Role,
  log: Log = silent,
): Promise<RunningDestination> {
  const running = await startDestination(settings, log, role)
  cleanUps.push(() => running.close())
  return running
}

function send({ url }: RunningDestination, count: number, prefix = 'm'): Promise<Response> {
  const batch = Array.from({ length: count }, (_, i) => ({
    type: 'track',
    userId: 'u1',
    event: 'Signed Up',
    messageId: `${prefix}${i}`,
  }))
  return fetch(`${url}/v1/batch`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa('key:')}` },
    body: JSON.stringify({ batch }),
  })
}

const idsOf = ({ received }: TestEndpoint) => received.map(({ headers }) => headers['x-message-id'])

async function unreadiness({ url }: RunningDestination): Promise<[number, string[]]> {
  const response = await fetch(`${url}/readyz`)
  const { reasons = [] } = (await response.json()) as { reasons?: { code: string }[] }
  return [response.status, reasons.map(({ code }) => code)]
}

describe('roles', () => {
  test('a collector delivers nothing; workers share what it took, and each message goes once', async () => {
    const [url, crm] = [await server.database(), await endpoint()]
    const settings = settingsOf(url, crmTo(crm.url))
    const collector = await start(settings, 'collector')
    expect((await send(collector, 200)).status).toBe(200)
    const waits = { destination: 'crm', fresh: 200, backlog: 0, leased: 0, dead: 0 }
    expect(await collector.stats()).toEqual([expect.objectContaining(waits)])
    expect(crm.received).toEqual([])

    const { log, late } = keepWarnings()
    const workers = await Promise.all([
      start(settings, 'worker', log),
      start(settings, 'worker', log),
    ])
    expect((await send(collector, 200, 'n')).status).toBe(200)
    await vi.waitUntil(async () => (await collector.stats()).length === 0, 60_000)
    expect(new Set(idsOf(crm)).size).toBe(400)
    expect(repeated(idsOf(crm), late)).toEqual([])
    for (const worker of workers) {
      expect((await send(worker, 1)).status).toBe(404)
      expect(await unreadiness(worker)).toEqual([200, []])
    }
  })

  test.each([
    { hears: true, title: 'calls back what waits for its turn at an endpoint of a worker' },
    { hears: false, title: 'is noticed by a worker that was not told of it' },
    // What waits is given up after 5 s. On a machine that is too slow for the deletion to come before, it is tried again.
  ])('a deletion by a collector $title', { retry: 3 }, async ({ hears }) => {
    const [url, fast] = [await server.database(), await endpoint()]
    const held: (() => void)[] = []
    const busy = await startEndpoint([(response) => held.push(() => response.writeHead(204).end())])
    cleanUps.push(() => busy[Symbol.asyncDispose]())
    const webhooks = [...crmTo(fast.url).webhooks, ...crmTo(busy.url, 2).webhooks]
    const settings = {
      ...settingsOf(url, { ...crmTo(fast.url), webhooks }),
      adminToken: 'admin-token-0123456789',
    }
    const headers = { Authorization: `Bearer ${settings.adminToken}` }
    const [collector, worker] = [
      await start(settings, 'collector'),
      await start(settings, 'worker'),
    ]
    await send(collector, 10)
    await fast.has(10)
    await busy.has(2)
    const waiting = async () => {
      const status = (await (
        await fetch(`${worker.adminUrl}/v1/admin/status`, { headers })
      ).json()) as Status
      return status.destinations[0]?.endpoints.map((one) => one.breaker?.waiting)
    }
    expect(await waiting()).toEqual([0, 8])
    // As when a connection is cut, and as with PgBouncer in transaction mode.
    const unlisten = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'LISTEN%'`
    if (!hears) await server.query(unlisten, [], url)
    const response = await fetch(`${collector.adminUrl}/v1/deletions`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ userId: 'u1' }),
    })
    expect(await response.json()).toMatchObject({ success: true, purged: 10 })
    // The delete waits in their place. Nothing waits for longer than 5 s, so that this has to come first.
    await expect.poll(waiting, { timeout: 4_500 }).toEqual([0, 1])
    busy.answer(204)
    for (const answer of held) answer()
    await expect.poll(() => collector.stats()).toEqual([])
    const tracks = busy.received.filter(({ event }) => event['type'] === 'track')
    expect(tracks).toHaveLength(2)
  })

  test('a pause holds in every process within a second, and so does its end', async () => {
    const [url, crm] = [await server.database(), await endpoint()]
    const settings = { ...settingsOf(url, crmTo(crm.url)), adminToken: 'admin-token-0123456789' }
    const collector = await start(settings, 'collector')
    const workers = [await start(settings, 'worker'), await start(settings, 'worker')]
    const ask = async (one: RunningDestination, path: string, body?: object) => {
      const response = await fetch(`${one.adminUrl}/v1/admin/${path}`, {
        ...(body && { method: 'POST', body: JSON.stringify(body) }),
        headers: { Authorization: `Bearer ${settings.adminToken}` },
      })
      return (await response.json()) as { destinations: { paused: unknown }[] }
    }
    const all = [collector, ...workers]
    // A second has so many looks. On a busy machine each takes longer, as what it looks for does.
    const LOOKS = 20
    let looks = 0
    const pauses = () => {
      looks++
      return Promise.all(all.map(async (one) => (await ask(one, 'status')).destinations[0]?.paused))
    }
    // By turns through a collector, which sends nothing itself, and through a worker.
    for (const [i, one] of [collector, workers[0] ?? collector].entries()) {
      await ask(one, 'destinations/crm/pause', { reason: 'maintenance' })
      looks = 0
      await expect.poll(pauses, { interval: 50 }).not.toContain(null)
      expect(looks).toBeLessThanOrEqual(LOOKS)
      const before = crm.received.length
      await send(collector, 50, `p${i}-`)
      // Two polls of the workers, which would claim what they may send.
      await new Promise((resolve) => setTimeout(resolve, 2_500))
      expect(crm.received).toHaveLength(before)
      await ask(one, 'destinations/crm/resume', {})
      looks = 0
      await expect.poll(pauses, { interval: 50 }).toEqual([null, null, null])
      expect(looks).toBeLessThanOrEqual(LOOKS)
      await vi.waitUntil(async () => (await collector.stats()).length === 0, 60_000)
      expect(new Set(idsOf(crm)).size).toBe(50 * (i + 1))
    }
  })

  test('several workers tell once that an endpoint fails, and once that it has recovered', async () => {
    const [url, crm, ops] = [await server.database(), await endpoint(), await endpoint()]
    // A message that is refused does not open the breaker, so the next one is sent at once.
    crm.answer(400)
    const settings = settingsOf(url, crmTo(crm.url))
    const to = { ...crmTo(ops.url), name: 'ops', sources: [] }
    const watched: Settings = {
      ...settings,
      destinations: [...settings.destinations, to],
      alerts: { destination: 'ops', afterMs: [1_000, 9_000] },
    }
    const collector = await start(watched, 'collector')
    for (let i = 0; i < 3; i++) await start(watched, 'worker')
    let sent = 0
    const timer = setInterval(() => void send(collector, 5, `flow${sent++}-`), 200)
    cleanUps.push(() => {
      clearInterval(timer)
    })
    const namesAt = () => ops.received.map(({ event }) => [event['type'], event['event']])
    await ops.has(2)
    crm.answer(204)
    await ops.has(3)
    // Each worker has had its ticks, in which it would tell what another one has told.
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    expect(namesAt()).toEqual([
      ['track', 'Endpoint Failing'],
      ['track', 'Endpoint Failing'],
      ['track', 'Endpoint Recovered'],
    ])
  })

  test('what a worker reports too late is counted by nobody, and is no dead letter', async () => {
    const [url, ops] = [await server.database(), await endpoint()]
    const held: (() => void)[] = []
    const refuse: Answer = (response, { headers }) => {
      if (headers['x-attempt'] === '1') held.push(() => response.writeHead(422).end())
      else response.writeHead(204).end()
    }
    const crm = await startEndpoint([refuse])
    cleanUps.push(() => crm[Symbol.asyncDispose]())
    const settings = settingsOf(url, crmTo(crm.url))
    const to = { ...crmTo(ops.url), name: 'ops', sources: [] }
    const watched: Settings = {
      ...settings,
      adminToken: 'admin-token-0123456789',
      destinations: [...settings.destinations, to],
      alerts: {
        destination: 'ops',
        afterMs: [3_600_000],
        deadLetters: { count: 5, withinMs: 3_600_000 },
      },
    }
    const lines: string[] = []
    const note = (_: unknown, message = '') => void lines.push(message)
    const log = { ...silent, warn: note, error: note }
    const workers = [await start(watched, 'all', log), await start(watched, 'worker', log)]
    const [first] = workers as [RunningDestination, RunningDestination]
    await send(first, 10)
    await crm.has(10)
    const passLeases = `UPDATE hookline.waiting
      SET due_at = due_at - ${LEASE_MS}, lease_until = lease_until - ${LEASE_MS} WHERE leased`
    await server.query(passLeases, [], url)
    await crm.has(20)
    await vi.waitUntil(async () => (await first.stats()).length === 0, 60_000)
    for (const answer of held) answer()
    const isTold = () => lines.some((line) => line.startsWith('late outcomes were discarded'))
    await vi.waitUntil(isTold, 60_000)
    // Each worker has had its ticks, in which it would give the alert.
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    const counts = { delivered: 0, dead: 0 }
    for (const { adminUrl } of workers) {
      const headers = { Authorization: `Bearer ${watched.adminToken ?? ''}` }
      const metrics = parseScrape(await (await fetch(`${adminUrl}/metrics`, { headers })).text())
      for (const result of ['delivered', 'dead'] as const) {
        const name = `hookline_messages_total{destination="crm",result="${result}"}`
        counts[result] += metrics.get(name) ?? 0
      }
    }
    expect(counts).toEqual({ delivered: 10, dead: 0 })
    expect(lines).not.toContain('dead letter')
    expect(ops.received).toEqual([])
  })

  test('workers that join or restart send only probes to an endpoint that is down', async () => {
    const [url, crm] = [await server.database(), await endpoint()]
    crm.answer(503)
    const settings = settingsOf(url, crmTo(crm.url))
    const first = await start(settings, 'all')
    await send(first, 500)
    const isDown = () => server.query('SELECT FROM hookline.probes', [], url)
    await vi.waitUntil(async () => (await isDown()).length > 0, 60_000)
    // The requests of the first worker have to end, and its messages have to become due again.
    await vi.waitUntil(async () => (await first.stats())[0]?.leased === 0, 60_000)
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    const before = crm.received.length
    const second = await start(settings, 'worker')
    await start(settings, 'worker')
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    await second.close()
    await start(settings, 'worker')
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    // A single worker sends a probe after 1, 2, 4, 8 and 16 s.
    expect(crm.received.length - before).toBeLessThanOrEqual(5)
  })

  test('only with a store that several processes can have', async () => {
    const settings = settingsOf('sqlite:./never-made.db', crmTo('https://a.example.com'))
    for (const role of ['collector', 'worker'] as const) {
      await expect(startDestination(settings, silent, role)).rejects.toMatchObject({
        code: 'unsupported',
        message: expect.stringContaining(`the role ${role} needs PostgreSQL`) as unknown,
      })
    }
  })
})

test('while the server is away clients are answered 503, and all goes on by itself once it is back', async () => {
  const own = await startServer()
  cleanUps.push(() => own.dispose())
  const crm = await endpoint()
  const running = await start(settingsOf(await own.database(), crmTo(crm.url)), 'all')
  expect((await send(running, 10, 'before')).status).toBe(200)
  expect(await unreadiness(running)).toEqual([200, []])
  await own.stop('immediate')

  const refused = await send(running, 10, 'during')
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  expect(await refused.json()).toMatchObject({ success: false, code: 'store_unavailable' })
  expect(await unreadiness(running)).toEqual([503, ['store_unavailable']])
  expect((await fetch(`${running.url}/healthz`)).status).toBe(200)

  await own.start()
  await vi.waitUntil(async () => (await send(running, 10, 'during')).status === 200, {
    timeout: 20_000,
    interval: 100,
  })
  // A put or a claim whose answer was lost leaves its rows leased: then they are sent once the lease has ended.
  await vi.waitUntil(() => new Set(idsOf(crm)).size === 20, 2 * LEASE_MS)
})

test('a collector whose server has become a hot standby is not ready', async () => {
  const own = await startServer()
  cleanUps.push(() => own.dispose())
  const settings = settingsOf(await own.database(), crmTo('https://a.example.com'))
  const collector = await start(settings, 'collector')
  expect(await unreadiness(collector)).toEqual([200, []])
  await own.stop('fast')
  const signal = join(own.folder, 'data/standby.signal')
  writeFileSync(signal, '')
  await own.start()
  // It connects again at the first of these checks, so that the second one has no lost connection to report.
  await unreadiness(collector)
  expect(await unreadiness(collector)).toEqual([503, ['store_unavailable']])
  const store = await openStore(settings.store)
  await expect(store.ping()).rejects.toThrow(/takes no writes.*standby.*name the primary/)
  await store.close()
  expect((await send(collector, 1)).status).toBe(503)

  await own.stop('fast')
  rmSync(signal)
  await own.start()
  await vi.waitUntil(async () => (await unreadiness(collector))[0] === 200, 60_000)
})

test('what another process puts is heard of, and need not be looked for', async () => {
  const [url, crm] = [await server.database(), await endpoint()]
  const settings = settingsOf(url, crmTo(crm.url))
  const [here, elsewhere] = await Promise.all([openStore(url), openStore(url)])
  // The clock stands still, so the dispatcher never polls.
  const now = () => 0
  const events = tellAll([logLines(silent)])
  const settler = new Settler(here, events)
  const dispatcher = new Dispatcher({ store: here, settler, events, now, random: () => 0 })
  const network = createNetwork(settings)
  const connect = (to: Destination['webhooks'][number]) => createPoster(to, network)
  const queues = [...destinationQueues(settings.destinations, [], true, { connect, now })]
  dispatcher.use(queues, [])
  cleanUps.push(async () => {
    await dispatcher.close()
    await Promise.all([here.close(), elsewhere.close()])
    await Promise.all(
      queues.flatMap(({ endpoints }) => endpoints.map(({ poster }) => poster.close())),
    )
  })
  const heard: string[] = []
  here.shared?.onPut((destination, lane) => {
    heard.push(`${destination} ${lane}`)
    dispatcher.wake(destination, lane)
  })
  // Notifications that are sent before the store listens are lost.
  await vi.waitUntil(async () => {
    await elsewhere.put([newDelivery({ destination: 'another' })])
    return heard.length > 0
  }, 120_000)
  expect(crm.received).toEqual([])
  await elsewhere.put([newDelivery({ messageId: 'm1' })])
  await vi.waitUntil(() => crm.received.length > 0, 60_000)
  expect(idsOf(crm)).toEqual(['m1'])
})

describe('workers that deliver to the same endpoint', () => {
  let now = 1_700_000_000_000

  /**
   * Starts `count` workers on one server, each with a breaker of its own. They tick only when the test calls `tick`.
   */
  async function startWorkers(count: number, cap: number) {
    const url = await server.database()
    const stores: Store[] = []
    const shared: SharedBreakers[] = []
    const breakers: Breaker[] = []
    const all: DestinationQueue[][] = []
    const join = async () => {
      const store = await openStore(url, { now: () => now })
      const events = {
        workersFailed: (error: unknown) => {
          throw new Error(errorMessage(error))
        },
      }
      const workers = store.shared?.workers
      if (!workers) throw new Error('no workers')
      const sharedBreakers = await SharedBreakers.join({ workers, events, now: () => now })
      stores.push(store)
      shared.push(sharedBreakers)
      use(shared.length - 1)
    }
    /** The worker gets the destination in its settings. It has not sent anything to it before. */
    const use = (n: number) => {
      const connect = () => ({ post: () => undefined, close: () => Promise.resolve() })
      const crm = crmTo('https://a.example.com', cap)
      const queues = [...destinationQueues([crm], [], true, { connect, now: () => now })]
      all[n] = queues
      shared[n]?.use(queues)
      const [breaker] = queues.flatMap(({ endpoints }) => endpoints.map((one) => one.breaker))
      if (breaker) breakers[n] = breaker
    }
    const pause = (n: number) => {
      shared[n]?.use([])
    }
    /** After a short pause, an endpoint has the breaker of before. */
    const resume = (n: number) => {
      shared[n]?.use(all[n] ?? [])
    }
    for (let n = 0; n < count; n++) await join()
    const tick = (which = shared) => Promise.all(which.map((one) => one.tick()))
    const leave = async () => {
      await shared.pop()?.close()
      await stores.pop()?.close()
      breakers.pop()
    }
    cleanUps.push(async () => {
      while (stores.length > 0) await leave()
    })
    return {
      breakers,
      tick,
      join,
      leave,
      use,
      pause,
      resume,
      rooms: () => breakers.map((breaker) => breaker.room(now)),
    }
  }

  test('keep below its cap together once they know of each other, and take only their parts before', async () => {
    const { tick, join, leave, rooms } = await startWorkers(4, 64)
    expect(rooms()).toEqual([64, 32, 21, 16])
    now += HEARTBEAT_MS
    await tick()
    expect(rooms()).toEqual([16, 16, 16, 16])
    await join()
    expect(rooms()).toEqual([16, 16, 16, 16, 12])
    now += HEARTBEAT_MS
    await tick()
    expect(rooms()).toEqual([12, 12, 12, 12, 12])
    await leave()
    await leave()
    now += HEARTBEAT_MS
    await tick()
    expect(rooms()).toEqual([21, 21, 21])
  })

  test('send it one probe at a time, and less and less often, while it is down', async () => {
    const { breakers, tick, rooms } = await startWorkers(10, 64)
    for (const breaker of breakers) {
      for (let n = 0; n < 5; n++) breaker.end(breaker.start(), FAILURE, now)
    }
    const probes: number[] = []
    const from = now
    for (; now < from + 150_000; now += 250) {
      await tick()
      expect(rooms().filter((room) => room > 0).length).toBeLessThanOrEqual(1)
      const prober = breakers.find((breaker) => breaker.room(now) > 0)
      if (!prober) continue
      probes.push(now - from)
      prober.end(prober.start(), FAILURE, now)
    }
    // After 1, 2, 4, 8 and 16 s, then every 30 s: a single worker sends as many probes.
    expect(probes.length).toBeGreaterThanOrEqual(7)
    expect(probes.length).toBeLessThanOrEqual(10)
  })

  test('send it no more than probes while workers join, restart, or get it in their settings', async () => {
    const { breakers, tick, join, leave, use, rooms } = await startWorkers(1, 64)
    for (let n = 0; n < 5; n++) breakers[0]?.end(breakers[0].start(), FAILURE, now)
    await tick()
    const from = now
    let probes = 0
    const pass = async (ms: number) => {
      for (const until = now + ms; now < until; now += 250) {
        await tick()
        expect(rooms().filter((room) => room > 0).length).toBeLessThanOrEqual(1)
        const prober = breakers.find((breaker) => breaker.room(now) > 0)
        if (!prober) continue
        probes++
        prober.end(prober.start(), FAILURE, now)
      }
    }
    for (let n = 0; n < 3; n++) {
      await join()
      expect(rooms().at(-1)).toBe(0)
      await pass(8_000)
    }
    await leave()
    await join()
    await pass(8_000)
    use(0)
    await pass(2 * HEARTBEAT_MS)
    expect(now - from).toBe(42_000)
    // After 1, 2, 4, 8, 16 and 30 s: a single worker sends as many.
    expect(probes).toBeGreaterThanOrEqual(4)
    expect(probes).toBeLessThanOrEqual(6)
  })

  test('take it for healthy once one has found it so, if they know it only from others, and tell nobody else', async () => {
    const { breakers, tick, join, rooms } = await startWorkers(1, 64)
    const [first] = breakers as [Breaker]
    for (let n = 0; n < 5; n++) first.end(first.start(), FAILURE, now)
    await tick()
    await join()
    const pass = async (ms: number, isOver = () => false) => {
      for (const until = now + ms; now < until && !isOver(); now += 250) await tick()
    }
    // The second one gets permissions, too, and has nothing to probe with.
    await pass(20_000)
    await pass(120_000, () => first.room(now) > 0)
    while (first.state !== 'closed') first.end(first.start(), SUCCESS, now)
    // One request is known to have succeeded: the second one goes on step by step, as the first one did.
    await pass(2 * HEARTBEAT_MS, () => !breakers[1]?.isOpen) // it may ask while the first one is still telling
    expect(breakers.map(({ state }) => state)).toEqual(['closed', 'half-open'])
    expect(rooms()).toEqual([32, 2])
    // It has nothing to send, and does not stay so.
    await pass(60_000)
    await join()
    expect(breakers.map(({ state }) => state)).toEqual(['closed', 'closed', 'closed'])
    now += WORKER_TIMEOUT_MS
    await tick()
    expect(Math.min(...rooms())).toBeGreaterThan(1)
  })

  test('take it for healthy once one has found it so, if they have nothing to send since they found it down', async () => {
    const { breakers, tick, join } = await startWorkers(2, 64)
    const [idle, other] = breakers as [Breaker, Breaker]
    for (const breaker of breakers) {
      for (let n = 0; n < 5; n++) breaker.end(breaker.start(), FAILURE, now)
    }
    const pass = async (ms: number, isOver = () => false) => {
      for (const until = now + ms; now < until && !isOver(); now += 250) await tick()
    }
    await pass(120_000, () => other.room(now) > 0)
    while (other.state !== 'closed') other.end(other.start(), SUCCESS, now)
    await pass(60_000, () => !idle.isOpen)
    expect([idle.state, idle.room(now)]).toEqual(['half-open', 2])
    await join()
    expect(breakers[2]?.state).toBe('closed')
    await pass(60_000)
    expect(breakers.map(({ state }) => state)).toEqual(['closed', 'closed', 'closed'])
  })

  test('do not record it as down again after a pause in which another one has found it healthy', async () => {
    const { breakers, tick, join, pause, resume } = await startWorkers(2, 64)
    const [first, second] = breakers as [Breaker, Breaker]
    for (let n = 0; n < 5; n++) first.end(first.start(), FAILURE, now)
    second.end(second.start(), { ...FAILURE, retryAfterMs: 10_000 }, now)
    await tick()
    await join()
    expect(breakers.map(({ state }) => state)).toEqual(['open', 'open', 'open'])
    pause(1)
    pause(2)
    for (const until = now + 60_000; first.room(now) === 0 && now < until; now += 250) await tick()
    while (first.state !== 'closed') first.end(first.start(), SUCCESS, now)
    await tick()
    resume(1)
    resume(2)
    await tick()
    await join()
    expect(breakers[3]?.state).toBe('closed')
  })

  test('keep to what it asked of one of them, also those that join or that were gone', async () => {
    const { breakers, tick, join, rooms } = await startWorkers(2, 64)
    const asked = { ...FAILURE, retryAfterMs: 120_000 }
    breakers[0]?.end(breakers[0].start(), asked, now)
    await tick()
    await join()
    // The second one has its own experience with it.
    expect(rooms()).toEqual([0, 32, 0])
    now += WORKER_TIMEOUT_MS
    await tick()
    expect(rooms()).toEqual([0, 0, 0])
    for (const until = now + 120_000 - WORKER_TIMEOUT_MS - 250; now < until; now += 250) {
      await tick()
      expect(rooms()).toEqual([0, 0, 0])
    }
    for (const until = now + 30_000; Math.max(...rooms()) === 0 && now < until; now += 250)
      await tick()
    expect(rooms().filter((room) => room > 0)).toEqual([1])
  })

  test('let a worker probe it that has something to probe it with', async () => {
    const { breakers, tick } = await startWorkers(2, 64)
    for (const breaker of breakers) {
      for (let n = 0; n < 5; n++) breaker.end(breaker.start(), FAILURE, now)
    }
    // The first worker is always asked first, and has no messages.
    const last = breakers[1]
    const from = now
    while (last?.room(now) === 0 && now < from + 120_000) {
      now += 250
      await tick()
    }
    expect(last?.room(now)).toBe(1)
    expect(now - from).toBeLessThanOrEqual(40_000)
  })

  test('all come back soon after one of them has found it healthy', async () => {
    const { breakers, tick } = await startWorkers(5, 64)
    for (const breaker of breakers) {
      for (let n = 0; n < 5; n++) breaker.end(breaker.start(), FAILURE, now)
    }
    const from = now
    while (breakers.some((breaker) => breaker.isOpen) && now < from + 60_000) {
      now += 250
      await tick()
      const prober = breakers.find((breaker) => breaker.isOpen && breaker.room(now) > 0)
      prober?.end(prober.start(), SUCCESS, now)
    }
    expect(now - from).toBeLessThanOrEqual(8_000)
  })
})

describe('a process that starts while its server is away', () => {
  /** Settings with a free port, so that the test knows where the process listens before it has started. */
  async function settingsWithPort(store: string): Promise<Settings> {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo
    holder.close()
    await once(holder, 'close')
    const settings = settingsOf(store, crmTo('http://127.0.0.1:9/'))
    return { ...settings, listen: { host: '127.0.0.1', port } }
  }

  test('says so, takes no calls, and starts once the server is there', async () => {
    const settings = await settingsWithPort(await server.database())
    const url = `http://127.0.0.1:${settings.listen.port}`
    const lines: [object, string][] = []
    const note = (details: object, message: string) => lines.push([details, message])
    await server.stop('fast')
    const starting = startDestination(settings, { ...silent, info: note, warn: note })
    cleanUps.push(async () => (await starting).close())
    await vi.waitUntil(() => fetch(`${url}/healthz`).catch(() => undefined), 60_000)
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    const readiness = await fetch(`${url}/readyz`)
    expect(readiness.status).toBe(503)
    expect(await readiness.json()).toMatchObject({
      reasons: [
        { code: 'store_unavailable', message: expect.stringMatching(/since the start/) as unknown },
      ],
    })
    const refused = await send({ url } as RunningDestination, 1)
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toMatch(/^\d$/)
    expect(lines).toEqual([
      [
        expect.objectContaining({
          error: expect.stringMatching(/ECONNREFUSED.*start the server/) as unknown,
        }),
        'waiting for the store, which cannot be reached',
      ],
      [
        { error: expect.stringMatching(/has not started: it waits for its store/) as unknown },
        'a request was answered 503; the same answer is logged once a minute',
      ],
    ])
    await server.start()
    const running = await starting
    expect(running.url).toBe(url)
    // A kept connection to the one that answered before may be about to close.
    const ready = await vi.waitUntil(() => fetch(`${url}/readyz`).catch(() => undefined), 60_000)
    expect(ready.status).toBe(200)
    expect((await send(running, 1)).status).toBe(200)
    expect(lines[2]).toEqual([{ waitedMs: expect.any(Number) as unknown }, 'the store can be used'])
  })

  test('waits at its first start while the server ends connections that are idle', async () => {
    const store = await server.database()
    const name = new URL(store).pathname.slice(1)
    await server.query(`ALTER DATABASE ${name} SET idle_session_timeout = 1`)
    const lines: [object, string][] = []
    const warn = (details: object, message: string) => lines.push([details, message])
    const settings = await settingsWithPort(store)
    const starting = startDestination(settings, { ...silent, warn })
    cleanUps.push(async () => (await starting).close())
    const isWaiting = () => lines.length > 0
    await Promise.race([starting, vi.waitUntil(isWaiting, 60_000)])
    // A fast server may make the tables between two timeouts. If the end comes between two statements, the driver only knows of a cut.
    for (const line of lines) {
      const error = expect.stringMatching(
        /raise or remove idle_session_timeout|the connection was cut/,
      ) as unknown
      expect(line).toEqual([
        expect.objectContaining({ error }),
        expect.stringMatching(/^waiting for the store, which cannot be (used now|reached)$/),
      ])
    }
    await server.query(`ALTER DATABASE ${name} RESET idle_session_timeout`)
    expect((await send(await starting, 1)).status).toBe(200)
  })

  test('waits while the server takes no writes', async () => {
    const store = await server.database()
    await (await openStore(store)).close()
    const name = new URL(store).pathname.slice(1)
    await server.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`)
    const settings = await settingsWithPort(store)
    const url = `http://127.0.0.1:${settings.listen.port}`
    const lines: string[] = []
    const warn = (_details: object, message: string) => lines.push(message)
    const starting = startDestination(settings, { ...silent, warn })
    cleanUps.push(async () => (await starting).close())
    await vi.waitUntil(() => fetch(`${url}/healthz`).catch(() => undefined), 60_000)
    expect((await fetch(`${url}/readyz`)).status).toBe(503)
    expect(lines).toEqual(['waiting for the store, which cannot be used now'])
    await server.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`)
    const running = await starting
    // A kept connection to the one that answered before may be about to close.
    await vi.waitUntil(() => fetch(`${url}/readyz`).catch(() => undefined), 60_000)
    expect((await send(running, 1)).status).toBe(200)
  })

  test('ends if it is stopped while it waits', async () => {
    const settings = await settingsWithPort('postgres://u:p@127.0.0.1:1/db')
    const url = `http://127.0.0.1:${settings.listen.port}`
    const stopping = new AbortController()
    const starting = startDestination(settings, silent, 'worker', stopping.signal)
    await vi.waitUntil(() => fetch(`${url}/healthz`).catch(() => undefined), 60_000)
    stopping.abort()
    await expect(starting).rejects.toMatchObject({ name: 'AbortError' })
    await expect(fetch(`${url}/healthz`)).rejects.toThrow()
  })

  test('waits for nothing that can never work', async () => {
    const url = await server.database()
    const wrong = [
      [url.replace(':secret@', ':wrong@'), /check the user and the password/],
      [server.url('missing'), /create the database/],
    ] as const
    for (const [store, message] of wrong) {
      const settings = await settingsWithPort(store)
      await expect(startDestination(settings, silent)).rejects.toThrow(message)
    }
  })
})
