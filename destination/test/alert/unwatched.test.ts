// What fails is only known while somebody watches. The clock is the test's, so that days pass in a moment.
import { expect, onTestFinished, test } from 'vitest'
import { Monitor } from '../../src/alert/monitor.js'
import type { EndpointOutcome } from '../../src/deliver/decide.js'
import { Pauses } from '../../src/deliver/pauses.js'
import type { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/store/open.js'
import { destination, settingsFor } from '../run.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
const URL = 'https://a.example.com/'

const OPS = destination([{ url: `${URL}ops` }], { name: 'ops' })
const alerts = { destination: 'ops', afterMs: [HOUR, 5 * DAY], pauseAfterMs: 5 * DAY }
const watched = {
  destinations: [destination([{ url: URL }]), OPS],
  alerts,
  retentionMs: 7 * DAY,
} as unknown as Settings

async function world() {
  const clock = { time: 1_700_000_000_000 }
  const store = await openStore(settingsFor([]).store, { now: () => clock.time })
  const pauses = await Pauses.open(store)
  const given: string[] = []
  let settings = watched
  const monitor = await Monitor.open({
    store,
    pauses,
    settings: () => settings,
    enqueue: () => Promise.resolve([]),
    events: {
      alerted: ({ name }) => given.push(name),
      alertFailed: (error) => given.push(String(error)),
      followFailed: (error) => given.push(String(error)),
    },
  })
  onTestFinished(async () => {
    await monitor.stop()
    await store.close()
  })
  const tell = (outcome: object) => {
    const all = { ms: 1, response: '', ...outcome }
    monitor.attempted({ destination: 'crm' }, [{ url: URL, outcome: all } as EndpointOutcome])
  }
  return {
    given,
    pauses,
    fail: () => {
      tell({ verdict: 'retry', code: 'server_error', status: 503, error: 'no' })
    },
    succeed: () => {
      tell({ verdict: 'delivered', code: 'delivered', status: 200 })
    },
    use: (changes: Partial<Settings>) => {
      settings = { ...watched, ...changes }
      monitor.keep()
    },
    pass: async (ms: number) => {
      clock.time += ms
      await monitor.tick()
    },
  }
}

test.each<[string, Partial<Settings>]>([
  ['no alerts', { alerts: undefined }],
  ['it as the one that gets the alerts', { alerts: { ...alerts, destination: 'crm' } }],
  ['another destination', { destinations: [OPS] }],
])('a time in which the settings had %s counts for no failure', async (_, changes) => {
  const { fail, given, pass, pauses, succeed, use } = await world()
  for (let i = 0; i < 13; i++) {
    fail()
    await pass(10_000)
  }
  use(changes)
  for (let hour = 0; hour < 6 * 24; hour++) {
    succeed()
    await pass(HOUR)
  }
  use({})
  await pass(10_000)
  fail()
  for (let i = 0; i < 3; i++) await pass(3_000)
  expect(given).toEqual([])
  expect(pauses.of('crm')).toBeUndefined()
  // From here on, it counts.
  for (let i = 0; i < 8; i++) {
    fail()
    await pass(10 * 60_000)
  }
  expect(given).toEqual(['Endpoint Failing'])
})
