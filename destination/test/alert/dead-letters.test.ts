// How many dead letters a destination has is told by what the store has, whoever saw them die.
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { Monitor } from '../../src/alert/monitor.js'
import { Pauses } from '../../src/deliver/pauses.js'
import type { Delivery, DeliveryId, NewDelivery } from '../../src/model/delivery.js'
import { openStore } from '../../src/store/open.js'
import type { Settings } from '../../src/settings/settings.js'
import { destination } from '../run.js'
import { dice } from '../simulation/chance.js'
import { newDelivery, settlement } from '../store/contract.js'
import { folder } from '../store/sqlite/subject.js'

const HOUR = 3_600_000
const LIMIT = 20
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9))

/** A store with a clock that the test moves, and the alerts that were given. */
async function world() {
  const clock = { time: 1_700_000_000_000 }
  const place = await folder()
  const store = await openStore(`sqlite:${place.path}/store.db`, { now: () => clock.time })
  onTestFinished(async () => {
    await store.close()
    await place[Symbol.asyncDispose]()
  })
  const pauses = await Pauses.open(store)
  const settings = {
    destinations: ['crm', 'ops'].map((name) => destination([{ url: 'https://a/' }], { name })),
    alerts: { destination: 'ops', afterMs: [HOUR], deadLetters: { count: LIMIT, withinMs: HOUR } },
    retentionMs: 7 * 24 * HOUR,
  } as unknown as Settings
  const alerts: string[] = []
  const failures: unknown[] = []
  const put = async (count: number, changes: Partial<NewDelivery> = {}): Promise<DeliveryId[]> => {
    const all = Array.from({ length: count }, () => newDelivery({ state: 'leased', ...changes }))
    return (await store.put(all)).map((id) => id ?? 0)
  }
  const settle = (ids: readonly DeliveryId[]) =>
    store.settle(ids.map((id) => settlement({ id, attempt: 1 }, { state: 'dead', reason: 'no' })))
  /** A process that watches. */
  const open = async () => {
    const monitor = await Monitor.open({
      ...{ store, pauses, settings: () => settings },
      enqueue: () => Promise.resolve([]),
      events: {
        alerted: ({ name }) => alerts.push(name),
        alertFailed: (error) => failures.push(error),
        followFailed: (error) => failures.push(error),
      },
    })
    const see = (count: number, name = 'crm') => {
      const delivery = { destination: name } as Delivery
      const next = { state: 'dead', reason: 'no' } as const
      monitor.messagesEnded(Array.from({ length: count }, () => ({ delivery, next })))
    }
    return {
      monitor,
      see,
      /** Messages die that this process was sending. */
      die: async (count: number, name = 'crm') => {
        const ids = await put(count, { destination: name })
        await settle(ids)
        see(count, name)
        return ids
      },
      tick: async (count = 1) => {
        for (let i = 0; i < count; i++) {
          await monitor.tick()
          clock.time += 1_000
        }
        expect(failures).toEqual([])
      },
      close: () => monitor.stop(),
    }
  }
  return { alerts, clock, open, put, settings, settle, store }
}

describe('the alert about dead letters', () => {
  test('counts on after a restart', async () => {
    const { alerts, open } = await world()
    const first = await open()
    await first.die(15)
    await first.tick(10)
    await first.close()
    const second = await open()
    await second.tick(10)
    await second.die(4)
    await second.tick(10)
    expect(alerts).toEqual([])
    await second.die(1)
    await second.tick(10)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('is given by the next process if the one that saw them ended before', async () => {
    const { alerts, open } = await world()
    const first = await open()
    await first.die(LIMIT)
    await first.close()
    const second = await open()
    await second.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('is not taken back after a restart while there are as many as before', async () => {
    const { alerts, clock, open } = await world()
    const first = await open()
    await first.die(LIMIT)
    await first.tick(5)
    clock.time += HOUR / 2
    await first.die(LIMIT)
    await first.close()
    const second = await open()
    await second.tick(3)
    clock.time += HOUR / 2 + 60_000 // the first ones do not count any more, the second ones do
    await second.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
    clock.time += HOUR
    await second.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit', 'Dead Letters Below Limit'])
  })

  test('is not taken back while a server of the store cannot be asked', async () => {
    const { alerts, clock, open, store } = await world()
    const one = await open()
    await one.die(LIMIT)
    await one.tick(10)
    const away = vi
      .spyOn(store, 'deadCounts')
      .mockImplementation(() => Promise.resolve({ counts: [0], away: ['b'] }))
    clock.time += 2 * HOUR
    await one.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
    away.mockRestore()
    clock.time += 60_000
    await one.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit', 'Dead Letters Below Limit'])
  })

  test('is not taken back in a tick that lasts until the time of another destination is over', async () => {
    const { alerts, clock, open, put, settings, settle, store } = await world()
    const others = ['b', 'c'].map((name) => destination([{ url: 'https://a/' }], { name }))
    const { destinations } = settings as { destinations: Settings['destinations'][number][] }
    destinations.push(...others)
    const one = await open()
    for (const name of ['crm', 'b', 'c']) await one.die(LIMIT, name)
    const write = store.writeRecords.bind(store)
    vi.spyOn(store, 'writeRecords').mockImplementation((...args) => {
      clock.time += 5
      return write(...args)
    })
    await one.tick(3)
    expect(alerts).toHaveLength(3)
    clock.time += HOUR / 2
    for (const name of ['crm', 'b', 'c']) await settle(await put(LIMIT, { destination: name }))
    const { records } = await store.records(0, 100)
    const untils = records.map(({ body = '{}' }) => (JSON.parse(body) as { until: number }).until)
    clock.time = Math.min(...untils) + 1
    await one.tick(3)
    expect(alerts).toEqual(Array(3).fill('Dead Letters Above Limit'))
  })

  test('is given once a server of the store is back that could not be asked', async () => {
    const { alerts, clock, open, store } = await world()
    const one = await open()
    const away = vi
      .spyOn(store, 'deadCounts')
      .mockImplementation(() => Promise.resolve({ counts: [12], away: ['b'] }))
    await one.die(24)
    await one.close()
    const next = await open()
    await next.tick(10)
    expect(alerts).toEqual([])
    away.mockRestore()
    clock.time += 60_000
    await next.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('looks again at a server that was away at the start', async () => {
    const { alerts, clock, open, store } = await world()
    const first = await open()
    await first.die(LIMIT)
    await first.close()
    const error = new Error('away')
    const servers = { list: () => [{ name: 'b', error: error as Error | undefined }] }
    Object.assign(store, { servers })
    const partly = vi.spyOn(store, 'stats').mockImplementation(() => Promise.resolve([]))
    const next = await open()
    await next.tick(10)
    partly.mockRestore()
    servers.list = () => [{ name: 'b', error: undefined }]
    clock.time += 60_000
    await next.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('counts outcomes that the store takes late, once it does', async () => {
    const { alerts, open, put, settle } = await world()
    const [a, b] = [await open(), await open()]
    await b.die(12)
    await b.tick(10)
    const ids = await put(12, { destination: 'crm' })
    await a.tick(10)
    expect(alerts).toEqual([])
    await settle(ids)
    a.see(12)
    await a.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('counts those of all workers together, and is given once', async () => {
    const { alerts, open } = await world()
    const [a, b] = [await open(), await open()]
    await a.die(12)
    await a.tick()
    await b.die(12)
    await b.tick(3)
    await a.tick(10)
    await b.tick(10)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('counts those that waited for longer than the retention', async () => {
    const { alerts, clock, open, put, store } = await world()
    const one = await open()
    await one.tick()
    await put(LIMIT, { state: 'backlog' })
    await put(LIMIT - 1, { state: 'backlog', destination: 'ops' })
    clock.time += 8 * 24 * HOUR
    const expired: [string, number][] = []
    await store.sweep(7 * 24 * HOUR, 100, (name, count) => expired.push([name, count]))
    for (const [name, count] of expired) one.monitor.expired(name, count)
    await one.tick(3)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test('is about no destination that gets the alerts, or that the settings do not have', async () => {
    const { alerts, open } = await world()
    const first = await open()
    for (const name of ['ops', 'former']) await first.die(2 * LIMIT, name)
    await first.close()
    const second = await open()
    for (const name of ['ops', 'former']) second.monitor.expired(name, 2 * LIMIT)
    await second.tick(3)
    expect(alerts).toEqual([])
  })

  test('follows another limit at once, also for what was before', async () => {
    const { alerts, open, settings } = await world()
    const one = await open()
    await one.die(5)
    await one.tick(10)
    Object.assign(settings, {
      alerts: { ...settings.alerts, deadLetters: { count: 5, withinMs: HOUR } },
    })
    one.monitor.keep()
    await one.tick(2)
    expect(alerts).toEqual(['Dead Letters Above Limit'])
  })

  test(`is right whatever happens to the processes: SEED=${seed}`, async () => {
    const { between, pick } = dice(seed)
    const { alerts, clock, open, put, settle } = await world()
    const processes = [await open(), await open()]
    const deaths: number[] = []
    const inWindow = (withinMs = HOUR) => deaths.filter((at) => at > clock.time - withinMs).length
    let told = 0
    for (let step = 0; step < 150; step++) {
      const which = `SEED=${seed}, step ${step}`
      const i = between(0, 1)
      const one = processes[i] as (typeof processes)[number]
      const act = pick(['die', 'die', 'die', 'late', 'restart', 'pass', 'long'])
      if (act === 'die' || act === 'late') {
        const count = between(1, 7)
        await settle(await put(count))
        // The process may hear of it only after the next question.
        if (act === 'late') await one.tick()
        one.see(count)
        for (let n = 0; n < count; n++) deaths.push(clock.time)
      } else if (act === 'restart') {
        await one.close()
        processes[i] = await open()
      } else clock.time += act === 'pass' ? between(1_000, HOUR / 6) : between(HOUR / 3, 2 * HOUR)
      const most = inWindow(HOUR + 60_000)
      for (const each of processes) await each.tick(8)
      for (const name of alerts.slice(told)) {
        if (name === 'Dead Letters Above Limit') expect(most, which).toBeGreaterThanOrEqual(LIMIT)
        else expect(inWindow(), which).toBeLessThan(LIMIT)
      }
      told = alerts.length
      if (inWindow() >= LIMIT) expect(alerts.at(-1), which).toBe('Dead Letters Above Limit')
    }
    for (const [i, name] of alerts.entries()) {
      expect(name).toBe(i % 2 === 0 ? 'Dead Letters Above Limit' : 'Dead Letters Below Limit')
    }
  })
})
