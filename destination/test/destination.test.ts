import { createHmac } from 'node:crypto'
import { Analytics } from 'hookline'
import { afterAll, describe, test } from 'vitest'
import { openStore } from '../src/store/open.js'
import { startDestination, type RunningDestination } from '../src/destination.js'
import type { Status } from '../src/model/answers.js'
import type { Log } from '../src/observe/log.js'
import type { Destination, Settings } from '../src/settings/settings.js'
import { startEndpoint, type Answer, type TestEndpoint } from './endpoint.js'
import { newDelivery } from './store/contract.js'
import {
  ADMIN_TOKEN,
  destination,
  keepWarnings,
  KEY,
  post,
  repeated,
  settingsFor as settingsIn,
  silent,
  track,
} from './run.js'

const SECRET = 's3cret'

// The tests run concurrently, because most of them wait for a retry.
const endpoints: TestEndpoint[] = []
const destinations: RunningDestination[] = []
const cleanUps: (() => unknown)[] = []
afterAll(async () => {
  // The endpoints end first, so that no destination waits for an endpoint that does not answer.
  await Promise.all(endpoints.map((one) => one[Symbol.asyncDispose]()))
  await Promise.all(destinations.map((one) => one.close()))
  for (const cleanUp of cleanUps) await cleanUp()
})

async function endpoint(...script: Answer[]): Promise<TestEndpoint> {
  const started = await startEndpoint(script.length > 0 ? script : [204])
  endpoints.push(started)
  return started
}

const settingsFor = (destinations: Destination[], changes: Partial<Settings> = {}) =>
  settingsIn(destinations, changes, (cleanUp) => cleanUps.push(cleanUp))

async function start(settings: Settings, log: Log = silent): Promise<RunningDestination> {
  const running = await startDestination(settings, log)
  destinations.push(running)
  return running
}

const tracks = (count: number, prefix = 'm') =>
  Array.from({ length: count }, (_, i) => track(`${prefix}${i}`))

const idsOf = ({ received }: TestEndpoint) => received.map(({ headers }) => headers['x-message-id'])

describe.concurrent('a call', () => {
  test('arrives as one signed POST', async ({ expect }) => {
    const crm = await endpoint()
    const hook = { url: `${crm.url}?team=growth`, headers: { 'X-Team': 'growth' }, concurrency: 8 }
    const running = await start(settingsFor([destination([], { webhooks: [hook] })]))
    const response = await post(running, [track('m1', { properties: { plan: 'pro' } })])
    expect([response.status, await response.json()]).toEqual([200, { success: true }])

    await crm.has(1)
    const [request] = crm.received
    const body =
      '{"version":1,"type":"track","userId":"u1","timestamp":"2026-01-02T03:04:05.678Z",' +
      '"event":"Signed Up","properties":{"plan":"pro"}}'
    expect(request).toMatchObject({
      method: 'POST',
      path: '/hook?team=growth',
      body,
      headers: {
        'user-agent': 'Service.io/1.0',
        'content-type': 'application/json',
        'content-length': String(Buffer.byteLength(body)),
        'x-team': 'growth',
        'x-signature': createHmac('sha1', SECRET).update(body).digest('hex'),
        'x-message-id': 'm1',
        'x-attempt': '1',
      },
    })
  })

  test('of the SDK arrives, whatever its type', async ({ expect }) => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    await using analytics = new Analytics(KEY, { endpoint: running.url })
    analytics.identify({ userId: 'u1', traits: { plan: 'pro' } })
    analytics.track({ userId: 'u1', event: 'Signed Up' })
    analytics.page({ userId: 'u1', name: 'Home', properties: { path: '/' } })
    analytics.screen({ userId: 'u1', name: 'Start' })
    analytics.group({ userId: 'u1', groupId: 'g1' })
    analytics.alias({ userId: 'u1', previousId: 'a1' })
    expect(await analytics.flush()).toMatchObject({ delivered: 6, failed: 0 })
    await crm.has(6)
    const types = crm.received.map(({ event }) => event['type'] as string)
    expect(types.sort()).toEqual(['alias', 'group', 'identify', 'page', 'screen', 'track'])
  })

  test('that a source sends twice is forwarded once', async ({ expect }) => {
    const crm = await endpoint()
    const running = await start(settingsFor([destination([crm])]))
    for (const calls of [
      [track('m1'), track('m1')],
      [track('m1'), track('m2')],
    ]) {
      expect((await post(running, calls)).status).toBe(200)
    }
    await crm.has(2)
    await running.close()
    expect(idsOf(crm)).toEqual(['m1', 'm2'])
  })

  test('goes to each destination of its source that its integrations allow', async ({ expect }) => {
    const [one, two, other] = [await endpoint(), await endpoint(), await endpoint()]
    const settings = settingsFor(
      [
        destination([one], { name: 'one' }),
        destination([two], { name: 'two' }),
        destination([other], { name: 'other', sources: ['app'] }),
      ],
      {
        sources: [
          { name: 'web', writeKey: KEY },
          { name: 'app', writeKey: 'app-key' },
        ],
      },
    )
    const running = await start(settings)
    await post(running, [track('off', { integrations: { Webhooks: false } }), track('on')])
    await Promise.all([one.has(1), two.has(1)])
    await running.close()
    expect([idsOf(one), idsOf(two), idsOf(other)]).toEqual([['on'], ['on'], []])

    const store = await openStore(settings.store)
    expect(await store.trace('off')).toMatchObject([{ state: 'skipped', destination: '' }])
    expect(await store.trace('on')).toMatchObject([{ state: 'done' }, { state: 'done' }])
    await store.close()
  })
})

describe.concurrent('several endpoints', () => {
  test('all get a message at once; one success ends it', async ({ expect }) => {
    const [well, ill] = [await endpoint(204), await endpoint(500)]
    const settings = settingsFor([destination([ill, well])])
    const running = await start(settings)
    await post(running, [track('m1')])
    await Promise.all([well.has(1), ill.has(1)])
    await running.close()

    const store = await openStore(settings.store)
    const [trace] = await store.trace('m1')
    expect(trace).toMatchObject({ state: 'done', dueAt: null })
    expect(trace?.attempts).toHaveLength(2)
    await store.close()
  })

  test(
    'those that failed are tried again, those that refused are not',
    { tags: 'long' },
    async ({ expect }) => {
      const [refusing, failing] = [await endpoint(400), await endpoint(503, 204)]
      const running = await start(settingsFor([destination([refusing, failing])]))
      await post(running, [track('m1')])
      await failing.has(2)
      await running.close()
      expect(refusing.received).toHaveLength(1)
      expect(failing.received.map(({ headers }) => headers['x-attempt'])).toEqual(['1', '2'])
      const bodies = new Set(failing.received.map(({ body }) => body))
      expect(bodies.size).toBe(1)
    },
  )
})

test.concurrent(
  'a dead destination leaves the others of its source alone',
  { tags: 'long' },
  async ({ expect }) => {
    const [dead, well] = [await endpoint(() => undefined), await endpoint()]
    const running = await start(
      settingsFor([destination([dead], { name: 'dead' }), destination([well], { name: 'well' })]),
    )
    for (let i = 0; i < 40; i++) await post(running, tracks(20, `${i}-`))
    await well.has(800)
    // The first requests up to the concurrency of 128, and then only probes.
    expect(dead.received.length).toBeLessThanOrEqual(2 * 128)
  },
)

test.concurrent(
  'more than an endpoint takes at once waits in the store, and arrives',
  { tags: 'long' },
  async ({ expect }) => {
    const slow = await endpoint((response) => setTimeout(() => response.writeHead(204).end(), 1))
    const webhooks = [{ url: slow.url, headers: {}, concurrency: 4 }]
    const running = await start(settingsFor([destination([], { webhooks })]))
    for (let i = 0; i < 10; i++) await post(running, tracks(50, `${i}-`))
    await slow.has(500)
    await running.close()
    expect(new Set(idsOf(slow)).size).toBe(500)
    expect(slow.received).toHaveLength(500)
  },
)

test.concurrent(
  'an endpoint that comes back gets what waited for it, and what came meanwhile',
  { tags: 'long' },
  async ({ expect }) => {
    const crm = await endpoint(503)
    const running = await start(settingsFor([destination([crm])]))
    await post(running, tracks(30, 'before-'))
    await expect.poll(() => running.stats()).toMatchObject([{ backlog: 30 }])
    await post(running, tracks(30, 'meanwhile-'))
    crm.answer(204)
    await expect
      .poll(async () =>
        (await running.stats()).filter(
          ({ fresh, backlog, leased }) => fresh + backlog + leased > 0,
        ),
      )
      .toEqual([])
    expect(new Set(idsOf(crm)).size).toBe(60)
  },
)

describe.concurrent('after a restart', () => {
  test('what waited for a retry is tried again', async ({ expect }) => {
    const crm = await endpoint(503, 204)
    const settings = settingsFor([destination([crm])])
    const first = await start(settings)
    await post(first, [track('m1')])
    await crm.has(1)
    await first.close()
    await start(settings)
    await crm.has(2)
    expect(crm.received[1]?.headers).toMatchObject({ 'x-message-id': 'm1', 'x-attempt': '2' })
  })
})

test.concurrent(
  'one that can not listen leaves nothing behind that runs',
  { tags: 'long' },
  async ({ expect }) => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm])])
    const taken = await start(settingsFor([]))
    const store = await openStore(settings.store)
    const about = { messageId: 'm1', source: 'web', destination: 'crm', user: 'u1' }
    await store.put([{ ...about, type: 'track', body: '{}', state: 'fresh' }])
    await store.close()
    const listen = { host: '127.0.0.1', port: Number(new URL(taken.url).port) }
    const errors: string[] = []
    const log = { ...silent, error: (_: object, message: string) => void errors.push(message) }
    await expect(start({ ...settings, listen }, log)).rejects.toThrow(/EADDRINUSE/)

    await start(settings)
    await crm.has(1)
    expect(crm.received.map(({ headers }) => headers['x-attempt'])).toEqual(['1'])
    expect(errors).toEqual([])
  },
)

test.concurrent(
  'what one endpoint refused waits for the other one that is down, without a record of each second',
  { tags: 'long' },
  async ({ expect }) => {
    const [refusing, down] = [await endpoint(422), await endpoint(503)]
    const attempts: { messageId?: string; code?: string }[] = []
    const log = { ...silent, warn: (line: object) => void attempts.push(line) }
    const settings = settingsFor([destination([refusing, down])])
    const running = await start(settings, log)
    await post(running, tracks(20))
    await down.has(23) // the breaker opened after the first of them, and three probes failed
    // On a busy machine an attempt may time out, and be made again.
    const refused = () => attempts.filter(({ code }) => code === 'client_error')
    await expect.poll(() => new Set(refused().map(({ messageId }) => messageId)).size).toBe(20)
    await running.close()
    const store = await openStore(settings.store)
    const ids = new Set(idsOf(refusing))
    const traces = await Promise.all([...ids].map((id) => store.trace(String(id))))
    await store.close()
    const codes = traces.flat().flatMap((trace) => trace.attempts.map(({ code }) => code))
    expect(codes.filter((code) => code === 'client_error')).toHaveLength(20)
    expect(codes.filter((code) => code === 'server_error').length).toBeGreaterThan(5)
    expect(codes.length).toBeLessThanOrEqual(20 + down.received.length + 20)
    expect(attempts.length).toBeLessThanOrEqual(20 + down.received.length + 20)
  },
)

describe.concurrent('a stop that comes while a backlog is claimed', () => {
  test.for(Array.from({ length: 6 }, (_, i) => 6 * i))(
    'begins no other request and loses nothing, %i ms after the start',
    { tags: 'long' },
    async (ms, { expect }) => {
      const [slow, fast] = [await endpoint(() => undefined), await endpoint()]
      const webhooks = [slow, fast].map(({ url }, i) => ({
        url,
        headers: {},
        concurrency: 1 + i * 7,
      }))
      const settings = settingsFor([destination([], { webhooks })])
      const store = await openStore(settings.store)
      await store.put(
        Array.from({ length: 300 }, (_, i) =>
          newDelivery({ messageId: `m${i}`, state: 'backlog' }),
        ),
      )
      await store.close()
      const failures: string[] = []
      const error = (_details: object, message: string) => void failures.push(message)
      const running = await startDestination(settings, { ...silent, error })
      await new Promise((resolve) => setTimeout(resolve, ms))
      const closed = running.close()
      // What was sent before arrives.
      await new Promise((resolve) => setTimeout(resolve, 500))
      const sent = slow.received.length + fast.received.length
      await closed
      expect(slow.received.length + fast.received.length).toBe(sent)
      expect(failures).toEqual([])
      const again = await openStore(settings.store)
      const stats = await again.stats()
      await again.close()
      const waiting = stats.reduce((sum, { backlog, leased }) => sum + backlog + leased, 0)
      expect(waiting + new Set(idsOf(fast)).size).toBe(300)
    },
  )
})

describe.concurrent('other settings', () => {
  test('are used from then on, without a request dropped', async ({ expect }) => {
    const [before, after] = [await endpoint(), await endpoint()]
    const settings = settingsFor([destination([before])])
    const { log, late } = keepWarnings()
    const running = await start(settings, log)
    const answers: Promise<Response>[] = []
    for (let i = 0; i < 20; i++) {
      answers.push(post(running, tracks(5, `${i}-`)))
      if (i === 10) await running.reload({ ...settings, destinations: [destination([after])] })
    }
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    const ids = () => [...idsOf(before), ...idsOf(after)]
    await expect.poll(() => new Set(ids()).size).toBe(100)
    await post(running, [track('last')])
    await expect.poll(() => idsOf(after).includes('last')).toBe(true)
    expect(repeated(ids(), late)).toEqual([])
  })

  test(
    'that disable a destination keep what waits, and send it once it is enabled',
    { tags: 'long' },
    async ({ expect }) => {
      const [crm, other] = [await endpoint(503), await endpoint(503, 503, 204)]
      const settings = settingsFor([destination([crm]), destination([other], { name: 'other' })])
      const running = await start(settings)
      await post(running, tracks(30))
      await other.has(30)
      await expect.poll(() => running.stats()).toMatchObject([{ destination: 'crm', backlog: 30 }])
      const disabled = [destination([crm], { enabled: false }), ...settings.destinations.slice(1)]
      await running.reload({ ...settings, destinations: disabled })
      const { length } = crm.received
      crm.answer(204)
      other.answer(503)
      const { length: before } = other.received
      await post(running, [track('later')])
      await other.has(before + 3) // its retries take longer than the first ones of the others would
      expect(crm.received).toHaveLength(length)
      expect(await running.stats()).toContainEqual(
        expect.objectContaining({ destination: 'crm', backlog: 30 }),
      )
      await running.reload(settings)
      await expect.poll(() => new Set(idsOf(crm).slice(length)).size).toBe(30)
    },
  )

  test(
    'that rename a destination are warned of, and hide nothing that waits for the old name',
    { tags: 'long' },
    async ({ expect }) => {
      const crm = await endpoint(503)
      const settings = settingsFor([destination([crm])])
      const warnings: object[] = []
      const warn = (details: object) => void warnings.push(details)
      const running = await start(settings, { ...silent, warn })
      await post(running, tracks(3))
      await expect.poll(() => running.stats()).toMatchObject([{ destination: 'crm', backlog: 3 }])
      crm.answer(204)
      const renamed = destination([crm], { name: 'crm2' })
      await running.reload({ ...settings, destinations: [renamed] })
      await expect.poll(() => warnings).toContainEqual({ destination: 'crm', waiting: 3, dead: 0 })
      const admin = async (path: string) =>
        await fetch(running.url + path, { headers: { Authorization: `Bearer ${ADMIN_TOKEN}` } })
      const status = (await (await admin('/v1/admin/status')).json()) as Status
      expect(status.destinations).toMatchObject([{ name: 'crm2', backlog: 0 }])
      expect(status.formerDestinations).toMatchObject([{ name: 'crm', backlog: 3, dead: 0 }])
      expect(await (await admin('/metrics')).text()).toContain(
        'hookline_pending_messages{destination="crm",state="backlog"} 3',
      )
      const drained = destination([crm], { sources: [] })
      await running.reload({ ...settings, destinations: [renamed, drained] })
      await expect.poll(() => running.stats()).toEqual([])
      expect(new Set(idsOf(crm)).size).toBe(3)
    },
  )

  test(
    'for an endpoint that is busy strand nothing and repeat nothing that was delivered',
    { tags: 'long' },
    async ({ expect }) => {
      const slow = await endpoint((response) => setTimeout(() => response.writeHead(204).end(), 20))
      const refusing = await endpoint(422)
      const settings = settingsFor([])
      const use = (version: number) => {
        const headers = { 'x-version': String(version) }
        const webhooks = [
          { url: refusing.url, headers: {}, concurrency: 128 },
          { url: slow.url, headers, concurrency: 2 },
        ]
        return { ...settings, destinations: [destination([], { webhooks })] }
      }
      const { log, late } = keepWarnings()
      const running = await start(use(0), log)
      for (let version = 1; version <= 10; version++) {
        await post(running, tracks(10, `${version}-`))
        void running.reload(use(version))
      }
      await expect.poll(() => running.stats()).toEqual([])
      await running.close()
      expect(new Set(idsOf(slow)).size).toBe(100)
      expect(repeated(idsOf(slow), late)).toEqual([])
    },
  )

  test(
    'that come while messages are claimed and sent repeat none of them',
    { tags: 'long' },
    async ({ expect }) => {
      const crm = await endpoint((response) => setTimeout(() => response.writeHead(204).end(), 5))
      const settings = settingsFor([])
      const webhooks = [{ url: crm.url, headers: {}, concurrency: 4 }]
      const use = (version: number) => ({
        ...settings,
        destinations: [destination([], { webhooks, sharedSecret: `secret ${version}` })],
      })
      const { log, warnings, late } = keepWarnings()
      const running = await start(use(0), log)
      for (let version = 1; version <= 10; version++) {
        await post(running, tracks(20, `${version}-`))
        await running.reload(use(version))
      }
      await expect.poll(() => running.stats()).toEqual([])
      expect(new Set(idsOf(crm)).size).toBe(200)
      expect(repeated(idsOf(crm), late)).toEqual([])
      expect(warnings).toEqual([])
    },
  )

  test('are in use at once, also while requests hang', async ({ expect }) => {
    let ended = 0
    const crm = await endpoint((response) => response.on('close', () => ended++))
    const there = destination([crm])
    const settings = settingsFor([there])
    const running = await start(settings)
    await post(running, [track('m1')])
    await crm.has(1)
    for (const sharedSecret of ['second', 'third']) {
      await running.reload({ ...settings, destinations: [{ ...there, sharedSecret }] })
    }
    expect(ended).toBe(0)
  })

  test(
    'that come at the end of the process complain of nothing',
    { tags: 'long' },
    async ({ expect }) => {
      const settings = settingsFor([])
      const warnings: string[] = []
      const warn = (_details: object, message: string) => void warnings.push(message)
      for (let wait = 0; wait < 10; wait++) {
        const running = await startDestination(settings, { ...silent, warn })
        const reloaded = running.reload({ ...settings, retentionMs: 86_400_000 + wait })
        for (let turn = 0; turn < wait; turn++) await new Promise(setImmediate)
        await Promise.all([reloaded, running.close()])
      }
      expect(warnings).toEqual([])
    },
  )

  test('can open the way for a destination that was disabled', async ({ expect }) => {
    const crm = await endpoint()
    const settings = settingsFor([destination([crm], { enabled: false })])
    const running = await start(settings)
    await post(running, [track('skipped')])
    await running.reload({ ...settings, destinations: [destination([crm])] })
    await post(running, [track('sent')])
    await crm.has(1)
    await running.close()
    expect(idsOf(crm)).toEqual(['sent'])
  })

  test('can neither change where it listens nor where it stores', async ({ expect }) => {
    const settings = settingsFor([])
    const running = await start(settings)
    await expect(running.reload({ ...settings, store: 'sqlite:other.db' })).rejects.toThrow(
      /^store can't change /,
    )
    const listen = { host: '127.0.0.1', port: 1 }
    await expect(running.reload({ ...settings, listen })).rejects.toThrow(/^listen can't change /)
    await expect(running.reload({ ...settings, adminListen: listen })).rejects.toThrow(
      /^adminListen can't change /,
    )
  })
})
