// @module-tag long
// Two processes decide by the same failures. A pause by an alert holds only if nobody has paused or resumed the destination since
// then. Its alert is given if, and only if, the pause was written.
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { Monitor } from '../../src/alert/monitor.js'
import { Pauses } from '../../src/deliver/pauses.js'
import type { EndpointOutcome } from '../../src/deliver/decide.js'
import type { Settings } from '../../src/settings/settings.js'
import type { Store } from '../../src/store/store.js'
import { destination } from '../run.js'
import { startServer } from '../store/postgres/server.js'
import { openStores } from '../store/postgres/stores.js'

// fsync is off, which is faster: no test here simulates a power cut.
const server = await startServer({ fsync: 'off' })

afterAll(() => server.dispose())

const HOUR = 3_600_000
const URL = 'https://a.example.com/'

/** Two processes whose only endpoint has failed for so long that each pauses the destination at its next tick. */
async function world(afterMs = [1_000]) {
  const clock = { time: 1_700_000_000_000 }
  const stores = await openStores(server, 2, { now: () => clock.time })
  const settings = {
    destinations: [
      destination([{ url: URL }]),
      destination([{ url: `${URL}ops` }], { name: 'ops' }),
    ],
    alerts: { destination: 'ops', afterMs, pauseAfterMs: HOUR },
    retentionMs: 7 * 24 * HOUR,
  } as unknown as Settings
  const given: string[] = []
  /** The ids of the messages about pauses: the store keeps one message of each id. */
  const messages = new Set<string>()
  const open = async (store: Store) => {
    const during: Partial<Record<Moment, () => Promise<unknown>>> = {}
    const watched = instead(store, {
      stats: async () => (await during.stats?.(), store.stats()),
      writeRecords: async (changes, ...others) => {
        const isPause = changes.some(({ kind }) => kind === 'pause')
        if (isPause) await during.pause?.()
        const versions = await store.writeRecords(changes, ...others)
        await (isPause ? during.answer?.() : during.otherAnswer?.())
        return versions
      },
    })
    const pauses = await Pauses.open(watched)
    const monitor = await Monitor.open({
      store: watched,
      pauses,
      settings: () => settings,
      enqueue: async (put) => {
        const told = put.filter(({ body }) => body.includes('Destination Paused'))
        if (told.length > 0) await during.message?.()
        for (const { messageId } of told) messages.add(messageId)
        return []
      },
      events: {
        alerted: ({ name }) => given.push(name),
        alertFailed: (error) => given.push(String(error)),
        followFailed: (error) => given.push(String(error)),
      },
    })
    const attempted = (outcome: object) => {
      monitor.attempted({ destination: 'crm' }, [{ url: URL, outcome } as EndpointOutcome])
    }
    const fail = () => {
      const outcome = { verdict: 'refused', code: 'client_error', status: 400, error: 'no' }
      attempted({ ...outcome, ms: 1, response: '' })
    }
    const succeed = () => {
      attempted({ verdict: 'delivered', code: 'delivered', status: 200, ms: 1, response: '' })
    }
    return { during, fail, succeed, monitor, pauses }
  }
  const [a, b] = (await Promise.all(stores.all.map(open))) as [Opened, Opened]
  type Opened = Awaited<ReturnType<typeof open>>
  onTestFinished(async () => {
    await Promise.all([a.monitor.stop(), b.monitor.stop()])
    await stores[Symbol.asyncDispose]()
  })
  for (let i = 0; i < 4; i++) {
    for (const { fail } of [a, b]) fail()
    clock.time += 1_000
  }
  for (let i = 0; i < 5; i++) {
    for (const { monitor } of [a, b]) await monitor.tick()
    clock.time += 3_000
  }
  clock.time += HOUR
  for (const { fail } of [a, b]) fail()
  given.length = 0
  const audit = async () => {
    const [store] = stores.all as [Store]
    const log = await store.recordLog({ kind: 'pause', name: 'crm' }, undefined, 10)
    return log
      .map(({ entry }) => JSON.parse(entry) as { action: string; by: string })
      .map(({ action, by }) => `${action} by ${by}`)
      .toReversed()
  }
  const restart = () => open((stores.all as [Store])[0])
  return { a, b, restart, audit, given, messages }
}

/**
 * When something happens: before it is counted what waits, before and after the pause is written, before the message about it is put,
 * or after another record is written.
 */
type Moment = 'stats' | 'pause' | 'answer' | 'message' | 'otherAnswer'

/** A store with other methods. */
function instead(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get: (_, name: keyof Store) => {
      const value: unknown = methods[name] ?? Reflect.get(store, name)
      return typeof value === 'function' ? (value.bind(store) as unknown) : value
    },
  })
}

const failure = (message: string) => () => Promise.reject(new Error(message))

const OPERATOR = { by: 'operator', from: null } as const

for (const moment of ['stats', 'pause', 'message'] as const) {
  test(`another worker pauses it at the ${moment}: the audit log has one pause, and one alert is given`, async () => {
    const { a, b, audit, given, messages } = await world()
    b.during[moment] = () => a.monitor.tick()
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by alerts'])
    expect(given).toEqual(['Destination Paused'])
    expect(messages).toHaveLength(1)
    expect(b.pauses.of('crm')).toMatchObject({ by: 'alerts' })
  })

  test(`another worker pauses it at the ${moment}, and an operator resumes it: it goes on`, async () => {
    const { a, b, audit, given, messages } = await world()
    b.during[moment] = async () => {
      await a.monitor.tick()
      await a.pauses.resume('crm', OPERATOR)
    }
    await b.monitor.tick()
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by alerts', 'resume by operator'])
    expect(given).toEqual(['Destination Paused'])
    expect(messages).toHaveLength(1)
    await Promise.all([a, b].map(({ pauses }) => pauses.catchUp()))
    for (const { pauses } of [a, b]) expect(pauses.of('crm')).toBeUndefined()
  })
}

for (const moment of ['stats', 'pause'] as const) {
  test(`an operator pauses it at the ${moment}: the reason of the operator stays, and no alert is given`, async () => {
    const { a, b, audit, given, messages } = await world()
    b.during[moment] = () => a.pauses.pause('crm', { reason: 'repair', by: 'operator' }, OPERATOR)
    await b.monitor.tick()
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by operator'])
    expect(given).toEqual([])
    expect(messages).toHaveLength(0)
    expect(b.pauses.of('crm')).toMatchObject({ reason: 'repair' })
  })
}

test('an operator changes the reason after the pause: the alert about the pause is given', async () => {
  const { a, b, audit, given, messages } = await world()
  b.during.message = () => a.pauses.pause('crm', { reason: 'repair', by: 'operator' }, OPERATOR)
  await b.monitor.tick()
  expect(await audit()).toEqual(['pause by alerts', 'pause by operator'])
  expect(given).toEqual(['Destination Paused'])
  expect(messages).toHaveLength(1)
})

test('the pause cannot be written, and the endpoint recovers: no alert about a pause is given', async () => {
  const { a, audit, given, messages } = await world()
  a.during.pause = failure('the store is full')
  await a.monitor.tick()
  await a.monitor.tick()
  a.succeed()
  delete a.during.pause
  await a.monitor.tick()
  await a.monitor.tick()
  expect(await audit()).toEqual([])
  expect(given).toEqual(['Error: the store is full', 'Endpoint Recovered'])
  expect(messages).toHaveLength(0)
})

test('the answer to the pause is lost: the alert is given once', async () => {
  const { a, b, audit, given, messages } = await world()
  a.during.answer = failure('the connection was lost')
  await a.monitor.tick()
  for (const { monitor } of [a, b, a, b]) await monitor.tick()
  expect(await audit()).toEqual(['pause by alerts'])
  expect(given).toEqual(['Error: the connection was lost', 'Destination Paused'])
  expect(messages).toHaveLength(1)
})

test('the answers to what is noted about alerts are lost: each alert is given once', async () => {
  const { a, given, messages } = await world([1_000, HOUR])
  a.during.otherAnswer = failure('the connection was lost')
  for (let i = 0; i < 3; i++) await a.monitor.tick()
  a.succeed()
  for (let i = 0; i < 3; i++) await a.monitor.tick()
  expect(given).toEqual(['Endpoint Failing', 'Destination Paused', 'Endpoint Recovered'])
  expect(messages).toHaveLength(1)
})

test('a process dies after the pause: the next one gives the alert, and a third one not again', async () => {
  const { a, restart, audit, given, messages } = await world()
  a.during.message = failure('the process has died')
  await a.monitor.tick()
  await a.monitor.stop()
  given.length = 0
  const [next, third] = [await restart(), await restart()]
  for (const { monitor } of [next, third, next, third]) await monitor.tick()
  expect(await audit()).toEqual(['pause by alerts'])
  expect(given).toEqual(['Destination Paused'])
  expect(messages).toHaveLength(1)
})

test('two processes put the message of a pause: it has one id, and the alert is given once', async () => {
  const { a, restart, given, messages } = await world()
  a.during.message = async () => {
    await (await restart()).monitor.tick()
  }
  await a.monitor.tick()
  expect(given).toEqual(['Destination Paused'])
  expect(messages).toHaveLength(1)
})
