// A million old messages are swept from the store while another destination is served; and a million dead letters are
// counted for a replay.
import { buildLoad } from '../destination/load.js'
import { makeFolder, SECRET, settingsOf, start } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { measureSteady } from '../destination/steady.js'
import { copySynced, fillStore } from '../destination/store.js'
import { median } from '../measure.js'
import { OURS } from '../subjects/index.js'

const EVENTS_PER_SECOND = 400
const WARM_UP = 4_000
const SECONDS = 10
const QUICK_SECONDS = 4
const BATCH_SIZE = 5

const OLD = 1_000_000
const QUICK_OLD = 200_000
const TOKEN = 'the-token-of-the-benchmark'
const DRY_RUNS = 3

/** Longer than the retention is by default. */
const AGE_MS = 8 * 86_400_000

const KEPT = {
  variant: 'a million delivered, kept',
  subject: OURS,
  state: 'done',
  retention: '30d',
}
const SWEPT = {
  variant: 'a million delivered, swept',
  subject: OURS,
  state: 'done',
  retention: '7d',
  base: KEPT,
}
const DEAD = {
  variant: 'a million dead letters, counted',
  subject: OURS,
  state: 'dead',
  retention: '30d',
}

const scenario = {
  name: 'sweep',
  title: `The destination: ${EVENTS_PER_SECOND} messages a second, while 1,000,000 old ones are swept; and the dry run of a replay of 1,000,000`,
  runs: 3,
  subjects: [OURS],
  ratios: ['p50Ms', 'p99Ms'],
  columns: [
    { head: 'p50 x', ratio: 'p50Ms' },
    { head: 'p99 x', ratio: 'p99Ms' },
    { head: 'from post to arrival p50 ms', value: 'p50Ms' },
    { head: 'p99 ms', value: 'p99Ms' },
    { head: 'max ms', value: 'maxMs' },
    { head: 'dry run ms', value: 'dryRunMs' },
    { head: 'peak MB', value: 'peakMb' },
  ],
  targets: [
    {
      variant: SWEPT.variant,
      what: 'p99 from post to arrival, x that without a sweep',
      ratio: 'p99Ms',
      atMost: 2,
    },
    { variant: DEAD.variant, what: 'the dry run, ms', value: 'dryRunMs', atMost: 2_000 },
  ],

  async collect(options) {
    const { isQuick, isProfiled, progress } = options
    const seconds = isQuick ? QUICK_SECONDS : SECONDS
    const load = await buildLoad({
      count: WARM_UP + seconds * EVENTS_PER_SECOND,
      batchSize: BATCH_SIZE,
    })
    const filled = await makeFolder()
    const url = 'http://127.0.0.1:9/'
    const count = isQuick ? QUICK_OLD : OLD
    try {
      for (const state of ['done', 'dead']) {
        progress(`sweep: filling a store with ${state} messages`)
        await fillStore(`${filled.path}/${state}.db`, {
          ...{ name: 'other', url, count, state },
          ageMs: AGE_MS,
        })
      }
      return await runArms(scenario, [KEPT, SWEPT, DEAD], options, async (arm, folder) => {
        const store = `${folder}/store.db`
        await copySynced(`${filled.path}/${arm.state}.db`, store)
        const receiver = await startReceiver(SECRET)
        const settings = {
          ...settingsOf(store, [
            { name: 'crm', urls: [receiver.hook()] },
            { name: 'other', urls: [url], source: 'elsewhere' },
          ]),
          adminToken: TOKEN,
          retention: arm.retention,
        }
        try {
          if (arm === DEAD) return await measureDryRun(settings, { folder, isProfiled, count })
          const order = { settings, folder, isProfiled, receiver, load, endpoints: 1 }
          return await measureSteady({
            ...order,
            eventsPerSecond: EVENTS_PER_SECOND,
            warmUp: WARM_UP,
          })
        } finally {
          await receiver.stop()
        }
      })
    } finally {
      await filled.remove()
    }
  },
}

export default scenario

async function measureDryRun(settings, { folder, isProfiled, count }) {
  const running = await start(OURS, settings, { folder, isProfiled })
  try {
    const times = []
    const faults = []
    for (let i = 0; i < DRY_RUNS; i += 1) {
      const from = performance.now()
      const answer = await fetch(`${running.url}/v1/admin/replay`, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}` },
        body: JSON.stringify({ filter: { destination: 'other' }, dryRun: true }),
      })
      const { matched } = await answer.json()
      times.push(performance.now() - from)
      if (matched !== count) faults.push(`${matched} of ${count} dead letters were counted`)
    }
    return { dryRunMs: median(times), peakMb: running.peakRssMb(), faults }
  } finally {
    await running.kill()
  }
}
