// Workers on PostgreSQL, with a million messages delayed behind what they deliver, next to bare `pg` that claims and
// settles by the same statements. The server shares the machine with them.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hold } from '../destination/hold.js'
import { settingsOf, SECRET, start } from '../destination/process.js'
import {
  countRounds,
  drainBare,
  fillDelayed,
  makeReady,
  measureClaims,
  putFresh,
  run,
  startPostgres,
} from '../destination/postgres.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { CAP_MS } from '../produce.js'
import { LIMIT, OURS } from '../subjects/index.js'

const DELAYED = 1_000_000
const QUICK_DELAYED = 200_000

/** For each worker. */
const EVENTS = 30_000
const QUICK_EVENTS = 10_000

/** For each worker, before: each compiles its own code while it delivers them, which takes as long again. */
const WARM_UP = 15_000

const CLAIMS = 200

/** Beyond the cap of a single endpoint: what is measured is the worker. */
const CONCURRENCY = 1_000

const ONE = 'one worker'
const TWO = 'two workers'
const READY = 'a million ready'
const LATE = 'endpoint takes 50 ms'

/** Of a core: so that the server and the endpoint have enough left beside four workers. */
const HELD_SHARE = 0.15
const HELD = 'held to 15% of a core each'
const HELD_EVENTS = 8_000

const scenario = {
  name: 'postgres',
  title:
    'The destination on PostgreSQL: messages claimed, delivered and settled with 1,000,000 delayed behind',
  runs: 3,
  subjects: [LIMIT, OURS],
  ratios: ['rate'],
  columns: [
    { head: 'delivered/s', value: 'rate' },
    { head: 'x', ratio: 'rate' },
    { head: 'CPU µs/message, of the workers', value: 'cpuUs' },
    { head: 'messages a claim', value: 'perClaim' },
    { head: 'a settlement', value: 'perSettle' },
    { head: 'claim of 256 p50 ms', value: 'p50Ms' },
    { head: 'p99 ms', value: 'p99Ms' },
  ],
  targets: [
    {
      variant: ONE,
      what: 'messages/s, x bare pg that delivers nothing',
      ratio: 'rate',
      atLeast: 0.6,
    },
    {
      variant: `${TWO}, ${HELD}`,
      what: 'messages/s, x one worker',
      ratio: 'rate',
      atLeast: 1.75,
    },
    {
      variant: `four workers, ${HELD}`,
      what: 'messages/s, x one worker',
      ratio: 'rate',
      atLeast: 3,
    },
    { variant: READY, what: 'p99 of a claim with a million ready, ms', value: 'p99Ms', atMost: 50 },
  ],

  async collect(options) {
    const { isQuick, isProfiled, progress } = options
    const events = isQuick ? QUICK_EVENTS : EVENTS
    const postgres = await startPostgres()
    const { url } = postgres
    const bare = { variant: '', subject: LIMIT, measure: () => measureBare(url, events) }
    const late = { variant: `${ONE}, ${LATE}`, workers: 1, isLate: true }
    const held = { variant: `${ONE}, ${HELD}`, workers: 1, share: HELD_SHARE, events: HELD_EVENTS }
    const arms = [
      bare,
      ...[
        { variant: ONE, workers: 1, base: bare },
        { variant: TWO, workers: 2, base: bare },
        late,
        { variant: `${TWO}, ${LATE}`, workers: 2, isLate: true, base: late },
        held,
        { ...held, variant: `${TWO}, ${HELD}`, workers: 2, base: held },
        { ...held, variant: `four workers, ${HELD}`, workers: 4, base: held },
      ].map((arm) => Object.assign(arm, { subject: OURS })),
    ]
    for (const arm of arms) {
      arm.measure ??= (folder) => measureWorkers({ url, events, folder, isProfiled, ...arm })
    }
    try {
      progress('postgres: filling the database')
      await fillDelayed(url, isQuick ? QUICK_DELAYED : DELAYED)
      const rows = await runArms(scenario, arms, options, ({ measure }, folder) => measure(folder))
      progress('postgres: making all of it due')
      await makeReady(url)
      const ready = { variant: READY, subject: OURS }
      const claims = await runArms(scenario, [ready], options, () => claimTimes(url))
      return [...rows, ...claims]
    } finally {
      await postgres.dispose()
    }
  },
}

export default scenario

async function measureBare(url, events) {
  await putFresh(url, events)
  return { rate: await drainBare(url) }
}

async function measureWorkers({ url, events: each, folder, isProfiled, workers, isLate, share }) {
  const [warmUp, events] = [WARM_UP * workers, (WARM_UP + each) * workers]
  await putFresh(url, events)
  const receiver = await startReceiver(SECRET)
  const hook = isLate ? receiver.late : receiver.hook()
  const destinations = [
    { name: 'crm', urls: [hook], concurrency: CONCURRENCY },
    { name: 'other', urls: [receiver.silent], source: 'elsewhere' },
  ]
  const settings = settingsOf(url, destinations)
  const args = ['--role', 'worker']
  const running = []
  const releases = []
  try {
    // They begin together, so that none has the messages for itself.
    const starting = Array.from({ length: workers }, (_, n) => {
      const own = join(folder, `${n}`)
      mkdirSync(own)
      return start(OURS, settings, { folder: own, isProfiled, args })
    })
    const started = await Promise.allSettled(starting)
    running.push(...started.flatMap(({ value }) => value ?? []))
    for (const { reason } of started) if (reason) throw reason
    await until(() => receiver.arrived() >= warmUp)
    if (share) releases.push(...running.map(({ pid }) => hold(pid, share)))
    const counted = await countRounds(url)
    const [from, before, cpuBefore] = [performance.now(), receiver.arrived(), cpuOf(running)]
    const to = await until(() => receiver.arrived() >= events * 0.95)
    const [after, cpuAfter] = [receiver.arrived(), cpuOf(running)]
    const rounds = await counted()
    for (const release of releases.splice(0)) release()
    await until(() => receiver.arrived() >= events)
    const [{ found } = {}] = await receiver.report(events)
    const faults = (await Promise.all(running.splice(0).map((worker) => worker.stop()))).flat()
    const [{ left }] = await run(
      url,
      `SELECT count(*)::int AS left FROM hookline.waiting WHERE due_at < 1e3 * extract(epoch FROM now()) + 60000`,
    )
    if (left > 0) faults.push(`${left} not settled`)
    if (found?.arrived !== events) faults.push(`${events - (found?.arrived ?? 0)} did not arrive`)
    if (found?.forged > 0) faults.push(`${found.forged} wrongly signed`)
    return {
      rate: (after - before) / ((to - from) / 1000),
      cpuUs: (cpuAfter - cpuBefore) / (after - before),
      ...rounds,
      faults,
    }
  } finally {
    for (const release of releases) release()
    await Promise.all(running.map((worker) => worker.kill()))
    await receiver.stop()
  }
}

const cpuOf = (running) => running.reduce((sum, worker) => sum + worker.cpuUs(), 0)

async function until(isDone) {
  const deadline = performance.now() + CAP_MS
  while (!isDone()) {
    if (performance.now() > deadline) throw new Error('took longer than the cap')
    await sleep(1)
  }
  return performance.now()
}

async function claimTimes(url) {
  const times = (await measureClaims(url, CLAIMS)).sort((a, b) => a - b)
  return {
    p50Ms: times[times.length >> 1],
    p99Ms: times[Math.floor(times.length * 0.99)],
    faults: [],
  }
}
