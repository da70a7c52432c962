// A monitor that watches the destination `crm`. The clock is the test's, so that days pass in a moment.
import { onTestFinished } from 'vitest'
import { Monitor } from '../../src/alert/monitor.js'
import type { EndpointOutcome } from '../../src/deliver/decide.js'
import { Pauses } from '../../src/deliver/pauses.js'
import type { Settings } from '../../src/settings/settings.js'
import { openStore } from '../../src/store/open.js'
import { destination, settingsFor } from '../run.js'

export const HOUR = 3_600_000
export const DAY = 24 * HOUR
const URL = 'https://a.example.com/'

export const OPS = destination([{ url: `${URL}ops` }], { name: 'ops' })
export const alerts = { destination: 'ops', afterMs: [HOUR, 5 * DAY], pauseAfterMs: 5 * DAY }

/** @param urls - The endpoints of `crm`. */
export async function world(urls: readonly string[] = [URL]) {
  const clock = { time: 1_700_000_000_000 }
  const store = await openStore(settingsFor([]).store, { now: () => clock.time })
  const pauses = await Pauses.open(store)
  const given: string[] = []
  const watched = {
    destinations: [destination(urls.map((url) => ({ url }))), OPS],
    alerts,
    retentionMs: 7 * DAY,
  } as unknown as Settings
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
  const tell = (url: string, outcome: object) => {
    const all = { ms: 1, response: '', ...outcome }
    monitor.attempted({ destination: 'crm' }, [{ url, outcome: all } as EndpointOutcome])
  }
  return {
    store,
    given,
    pauses,
    fail: (url = URL) => {
      tell(url, { verdict: 'retry', code: 'server_error', status: 503, error: 'no' })
    },
    succeed: (url = URL) => {
      tell(url, { verdict: 'delivered', code: 'delivered', status: 200 })
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
