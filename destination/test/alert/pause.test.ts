// Two processes decide by the same failures. A pause by an alert holds only if nobody has paused or resumed the destination since then.
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
async function world() {
  const clock = { time: 1_700_000_000_000 }
  const stores = await openStores(server, 2, { now: () => clock.time })
  const settings = {
    destinations: [
      destination([{ url: URL }]),
      destination([{ url: `${URL}ops` }], { name: 'ops' }),
    ],
    alerts: { destination: 'ops', afterMs: [1_000], pauseAfterMs: HOUR },
    retentionMs: 7 * 24 * HOUR,
  } as unknown as Settings
  const given: string[] = []
  const open = async (store: Store) => {
    const pauses = await Pauses.open(store)
    const during: { stats?: () => Promise<unknown>; message?: () => Promise<unknown> } = {}
    const monitor = await Monitor.open({
      store: new Proxy(store, {
        get: (_, name: keyof Store) => {
          if (name === 'stats') return async () => (await during.stats?.(), store.stats())
          const value: unknown = Reflect.get(store, name)
          return typeof value === 'function' ? (value.bind(store) as unknown) : value
        },
      }),
      pauses,
      settings: () => settings,
      enqueue: async (messages) => {
        if (messages.some(({ body }) => body.includes('Destination Paused'))) {
          await during.message?.()
        }
        return []
      },
      events: {
        alerted: ({ name }) => given.push(name),
        alertFailed: (error) => given.push(String(error)),
        followFailed: (error) => given.push(String(error)),
      },
    })
    const fail = () => {
      const outcome: EndpointOutcome['outcome'] = {
        ...{ verdict: 'refused', code: 'client_error', status: 400, ms: 1, error: 'no' },
        response: '',
      } as never
      monitor.attempted({ destination: 'crm' }, [{ url: URL, outcome }])
    }
    return { during, fail, monitor, pauses }
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
  return { a, b, audit, given }
}

const OPERATOR = { by: 'operator', from: null } as const

for (const moment of ['stats', 'message'] as const) {
  test(`another worker pauses it before the ${moment}: the audit log has one pause, and one alert is given`, async () => {
    const { a, b, audit, given } = await world()
    b.during[moment] = () => a.monitor.tick()
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by alerts'])
    expect(given).toEqual(['Destination Paused'])
    expect(b.pauses.of('crm')).toMatchObject({ by: 'alerts' })
  })

  test(`another worker pauses it before the ${moment}, and an operator resumes it: it goes on`, async () => {
    const { a, b, audit, given } = await world()
    b.during[moment] = async () => {
      await a.monitor.tick()
      await a.pauses.resume('crm', OPERATOR)
    }
    await b.monitor.tick()
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by alerts', 'resume by operator'])
    expect(given).toEqual(['Destination Paused'])
    for (const { pauses } of [a, b]) expect(pauses.of('crm')).toBeUndefined()
  })

  test(`an operator pauses it before the ${moment}: the reason of the operator stays`, async () => {
    const { a, b, audit, given } = await world()
    b.during[moment] = () => a.pauses.pause('crm', { reason: 'repair', by: 'operator' }, OPERATOR)
    await b.monitor.tick()
    expect(await audit()).toEqual(['pause by operator'])
    expect(given).toEqual([])
    expect(b.pauses.of('crm')).toMatchObject({ reason: 'repair' })
  })
}
