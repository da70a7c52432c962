// One endpoint never answers, and four do. Measures how the silent one affects the others.
import { buildLoad } from '../destination/load.js'
import { SECRET, settingsOf } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { measureSteady } from '../destination/steady.js'
import { OURS } from '../subjects/index.js'

/** Times the five endpoints. */
const EVENTS_PER_SECOND = 200
/** Warms up the hot functions, because the cost of compiling them is not compared. */
const WARM_UP = 1_000
/** The first attempts run into their timeout after 5 s; from then on, the circuit breaker is open. */
const SECONDS = 10
const BATCH_SIZE = 5
const HEALTHY = 4

/** Lays the endpoints' URLs out over destinations. */
const LAYOUTS = {
  'one destination': (urls) => [{ name: 'crm', urls }],
  'a destination each': (urls) => urls.map((url, i) => ({ name: `crm${i}`, urls: [url] })),
}

const ARMS = Object.entries(LAYOUTS).flatMap(([name, layOut]) => {
  const base = { variant: `${name}, 4 healthy`, subject: OURS, layOut, withDead: false }
  return [
    base,
    { variant: `${name}, 4 healthy and 1 dead`, subject: OURS, layOut, withDead: true, base },
  ]
})

const scenario = {
  name: 'isolation',
  title: `The destination: ${EVENTS_PER_SECOND} messages a second to four endpoints, alone and beside one that never answers`,
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
  ],
  targets: ARMS.filter(({ base }) => base).map(({ variant }) => ({
    variant,
    what: 'p99 from post to arrival, x that without the dead one',
    ratio: 'p99Ms',
    atMost: 1.5,
  })),

  async collect(options) {
    const count = WARM_UP + SECONDS * EVENTS_PER_SECOND
    const load = await buildLoad({ count, batchSize: BATCH_SIZE })
    return runArms(scenario, ARMS, options, async ({ layOut, withDead }, folder) => {
      const receiver = await startReceiver(SECRET)
      const healthy = Array.from({ length: HEALTHY }, (_, i) => receiver.hook(i))
      const urls = withDead ? [receiver.silent, ...healthy] : healthy
      try {
        return await measureSteady({
          settings: settingsOf(`${folder}/store.db`, layOut(urls)),
          folder,
          isProfiled: options.isProfiled,
          receiver,
          load,
          eventsPerSecond: EVENTS_PER_SECOND,
          warmUp: WARM_UP,
          endpoints: HEALTHY,
        })
      } finally {
        await receiver.stop()
      }
    })
  },
}

export default scenario
