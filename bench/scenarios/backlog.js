// A million messages wait in the store for one destination. Measures how they affect another destination.
import { join } from 'node:path'
import { buildLoad, refusedUrl } from '../destination/load.js'
import { makeFolder, SECRET, settingsOf } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { measureSteady } from '../destination/steady.js'
import { copySynced, fillStore } from '../destination/store.js'
import { OURS } from '../subjects/index.js'

const EVENTS_PER_SECOND = 400
/** Warms up the hot functions, because the cost of compiling them is not compared. */
const WARM_UP = 4_000
const SECONDS = 10
const QUICK_SECONDS = 4
const BATCH_SIZE = 5

const WAITING = 1_000_000
const QUICK_WAITING = 200_000
/** Longer than any run. */
const RETRY_MS = 4 * 3_600_000

const EMPTY = { variant: 'empty store', subject: OURS }
const VARIANTS = [
  { variant: 'a million wait for their retry', subject: OURS, base: EMPTY, delayMs: RETRY_MS },
  { variant: 'a million due, endpoint down', subject: OURS, base: EMPTY, delayMs: undefined },
]

const scenario = {
  name: 'backlog',
  title: `The destination: ${EVENTS_PER_SECOND} messages a second to one destination, with 1,000,000 of another in the store`,
  runs: 3,
  subjects: [OURS],
  ratios: ['p50Ms', 'p99Ms'],
  columns: [
    { head: 'p50 x', ratio: 'p50Ms' },
    { head: 'p99 x', ratio: 'p99Ms' },
    { head: 'from post to arrival p50 ms', value: 'p50Ms' },
    { head: 'p99 ms', value: 'p99Ms' },
    { head: 'max ms', value: 'maxMs' },
    { head: 'CPU µs/message', value: 'cpuUs' },
    { head: 'start to first 200 ms', value: 'readyMs' },
    { head: 'RSS MB', value: 'rssMb' },
    { head: 'peak MB', value: 'peakMb' },
  ],
  targets: VARIANTS.flatMap(({ variant }) => [
    { variant, what: 'memory, peak MB', value: 'peakMb', atMost: 400 },
    {
      variant,
      what: 'p50 from post to arrival, x that of an empty store',
      ratio: 'p50Ms',
      atMost: 1.5,
    },
    {
      variant,
      what: 'p99 from post to arrival, x that of an empty store',
      ratio: 'p99Ms',
      atMost: 1.5,
    },
    { variant, what: 'from start to the first 200, ms', value: 'readyMs', atMost: 2_000 },
  ]),

  async collect(options) {
    const { isQuick, isProfiled, progress } = options
    const seconds = isQuick ? QUICK_SECONDS : SECONDS
    const load = await buildLoad({
      count: WARM_UP + seconds * EVENTS_PER_SECOND,
      batchSize: BATCH_SIZE,
    })
    const url = await refusedUrl()
    const filled = await makeFolder()
    try {
      for (const arm of VARIANTS) {
        progress(`backlog ${arm.variant}: filling a store`)
        arm.filled = join(filled.path, `${VARIANTS.indexOf(arm)}.db`)
        const count = isQuick ? QUICK_WAITING : WAITING
        await fillStore(arm.filled, { name: 'other', url, count, delayMs: arm.delayMs })
      }
      return await runArms(scenario, [EMPTY, ...VARIANTS], options, async (arm, folder) => {
        const store = join(folder, 'store.db')
        if (arm.filled) await copySynced(arm.filled, store)
        const receiver = await startReceiver(SECRET)
        const settings = settingsOf(store, [
          { name: 'crm', urls: [receiver.hook()] },
          { name: 'other', urls: [url], source: 'elsewhere' },
        ])
        const order = { settings, folder, isProfiled, receiver, load, endpoints: 1 }
        const pace = { eventsPerSecond: EVENTS_PER_SECOND, warmUp: WARM_UP }
        try {
          return await measureSteady({ ...order, ...pace })
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
