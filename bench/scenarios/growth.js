// Ten thousand customers, each with a source, a destination and an endpoint of its own. Measures what an operator and the
// clients notice of their number.
import { setTimeout as sleep } from 'node:timers/promises'
import { writeFileSync } from 'node:fs'
import { arrival, buildLoad, Client } from '../destination/load.js'
import { SECRET, settingsOf, start } from '../destination/process.js'
import { startReceiver } from '../destination/receiver.js'
import { runArms } from '../destination/rounds.js'
import { median, percentile } from '../measure.js'
import { OURS } from '../subjects/index.js'

const CUSTOMERS = 10_000
const QUICK_CUSTOMERS = 2_000
const BATCH_SIZE = 20
const CONNECTIONS = 16
const EVENTS = 60_000
const QUICK_EVENTS = 30_000
const UNDER_WAY = 2_000
const IDLE_MS = 3_000
const PROBE_EVERY_MS = 5
const AFTER_RELOAD_MS = 4_000
const ASKED = 5
/** Calls come this often while the page is open, and this often without it. */
const CALL_EVERY_MS = 5
const CALLS = 3_000
const QUICK_CALLS = 1_000
/** The calls with and without the page come in so many parts. */
const TURNS = 5
/** As often as the page asks. */
const PAGE_EVERY_MS = 3_000
const TOKEN = 'the-token-of-the-benchmark'

const ONE = { variant: 'one customer', subject: OURS, isOne: true }
const MANY = { variant: '10,000 customers', subject: OURS, base: ONE, isOne: false }

const scenario = {
  name: 'growth',
  title: 'The destination: 10,000 sources and destinations',
  runs: 3,
  subjects: [OURS],
  ratios: ['rate'],
  columns: [
    { head: 'start to first 200 ms', value: 'readyMs' },
    { head: 'RSS MB', value: 'rssMb' },
    { head: 'idle CPU %', value: 'idlePercent' },
    { head: '/status ms', value: 'statusMs' },
    { head: 'delivered/s x', ratio: 'rate' },
    { head: 'delivered/s', value: 'rate' },
    { head: 'RSS MB after', value: 'rssAfterMb' },
    { head: 'accept p99 ms', value: 'acceptP99Ms' },
    { head: 'with the page open ms', value: 'pageP99Ms' },
    { head: 'longest stall at SIGHUP ms', value: 'stallMs' },
  ],
  targets: [
    { what: 'from start to the first 200, ms', value: 'readyMs', atMost: 3_000 },
    { what: 'the longest stall at SIGHUP, ms', value: 'stallMs', atMost: 50 },
    { what: '/v1/admin/status, ms', value: 'statusMs', atMost: 100 },
    { what: 'accept p99 with the page open, x that without', value: 'pageX', atMost: 1.5 },
    { what: 'delivered/s, x those of one customer', ratio: 'rate', atLeast: 0.9 },
  ].map((target) => ({ variant: MANY.variant, ...target })),

  async collect(options) {
    const count = options.isQuick ? QUICK_EVENTS : EVENTS
    const load = await buildLoad({ count, batchSize: BATCH_SIZE })
    const calls = options.isQuick ? QUICK_CALLS : CALLS
    const without = await buildLoad({ count: calls, batchSize: 1, first: count })
    const withPage = await buildLoad({ count: calls, batchSize: 1, first: count + calls })
    const many = options.isQuick ? QUICK_CUSTOMERS : CUSTOMERS
    return runArms(scenario, [ONE, MANY], options, async ({ isOne }, folder) => {
      const receiver = await startReceiver(SECRET)
      try {
        return await measure({
          ...{ receiver, folder, load, without, withPage, isProfiled: options.isProfiled },
          customers: isOne ? 1 : many,
        })
      } finally {
        await receiver.stop()
      }
    })
  },
}

export default scenario

const keyOf = (customer) => `key-of-customer-${customer}`

function settingsFor(store, receiver, customers) {
  const numbers = Array.from({ length: customers }, (_, i) => i)
  const destinations = numbers.map((i) => ({
    name: `customer-${i}`,
    source: `customer-${i}`,
    urls: [receiver.hook(i)],
  }))
  return {
    ...settingsOf(store, destinations),
    sources: numbers.map((i) => ({ name: `customer-${i}`, writeKey: keyOf(i) })),
    adminToken: TOKEN,
  }
}

async function measure({ receiver, folder, load, without, withPage, customers, isProfiled }) {
  const settings = settingsFor(`${folder}/store.db`, receiver, customers)
  const running = await start(OURS, settings, { folder, isProfiled })
  const client = new Client(running.url, { connections: CONNECTIONS })
  const get = async (path) => {
    const from = performance.now()
    const answer = await fetch(`${running.url}${path}`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    const bytes = await answer.arrayBuffer()
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${Buffer.from(bytes).toString()}`)
    return performance.now() - from
  }
  try {
    await client.post(load, 0, keyOf(0))
    const readyMs = performance.now() - running.startedAt
    await sleep(IDLE_MS / 3)
    const idleFrom = { cpuUs: running.cpuUs(), at: performance.now() }
    await sleep(IDLE_MS)
    const idleMs = performance.now() - idleFrom.at
    const idlePercent = (running.cpuUs() - idleFrom.cpuUs) / 10 / idleMs
    const rssMb = running.rssMb()
    const statusTimes = []
    for (let i = 0; i < ASKED; i += 1) statusTimes.push(await get('/v1/admin/status'))

    const rate = await deliver({ client, receiver, load, customers })
    const rssAfterMb = running.rssMb()
    const { acceptP99Ms, pageP99Ms } = await inTurn({ client, without, withPage, customers, get })
    await arrival(receiver, client.accepted)
    const stallMs = await reload({ running, folder, settings, get })
    return {
      ...{ readyMs, rssMb, idlePercent, rate, rssAfterMb, stallMs },
      ...{ acceptP99Ms, pageP99Ms, pageX: pageP99Ms / acceptP99Ms },
      statusMs: median(statusTimes),
      faults: [
        ...(client.refusals.size > 0 ? [`not accepted: ${[...client.refusals.keys()]}`] : []),
        ...(receiver.arrived() === client.accepted
          ? []
          : [`${receiver.arrived()} of ${client.accepted} arrived`]),
        ...(await running.stop()),
      ],
    }
  } finally {
    await client.close()
    await running.kill()
  }
}

/** Each batch is from the next customer. */
async function deliver({ client, receiver, load, customers }) {
  const from = performance.now()
  const before = receiver.arrived()
  let next = 1
  const lane = async () => {
    while (next < load.bodies.length) {
      const own = next
      next += 1
      while (own * BATCH_SIZE - receiver.arrived() > UNDER_WAY) await sleep(1)
      await client.post(load, own, keyOf(own % customers))
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane))
  await arrival(receiver, client.accepted)
  return (receiver.arrived() - before) / ((performance.now() - from) / 1000)
}

/**
 * Sends single calls without and with an open page, by turns: what the machine does besides meets both alike.
 *
 * @returns the 99th percentiles of the times to the answers
 */
async function inTurn({ client, without, withPage, customers, get }) {
  const times = { without: [], withPage: [] }
  for (let turn = 0; turn < TURNS; turn += 1) {
    times.without.push(...(await answerTimes({ client, calls: without, turn, customers })))
    const page = openPage(get)
    times.withPage.push(...(await answerTimes({ client, calls: withPage, turn, customers })))
    await page.close()
  }
  return {
    acceptP99Ms: percentile(times.without, 0.99),
    pageP99Ms: percentile(times.withPage, 0.99),
  }
}

/** Each call is from the next customer. */
async function answerTimes({ client, calls, turn, customers }) {
  const count = calls.bodies.length / TURNS
  const times = []
  const answers = []
  const from = performance.now()
  for (let n = 0; n < count; n += 1) {
    await sleep(from + n * CALL_EVERY_MS - performance.now())
    const at = performance.now()
    const i = turn * count + n
    const answer = client.post(calls, i, keyOf(i % customers))
    answers.push(answer.then(() => times.push(performance.now() - at)))
  }
  await Promise.all(answers)
  return times
}

/** Asks what the page asks while it shows the overview. */
function openPage(get) {
  let isOpen = true
  const asking = (async () => {
    while (isOpen) {
      await get('/v1/admin/overview?span=1h&sort=health&offset=0&limit=25')
      await sleep(PAGE_EVERY_MS)
    }
  })()
  return {
    close: () => {
      isOpen = false
      return asking
    },
  }
}

/** Changes a secret and sends SIGHUP. @returns the longest time in ms that a small request took meanwhile */
async function reload({ running, folder, settings, get }) {
  settings.destinations[0].sharedSecret = 'another-secret-of-a-usual-length'
  writeFileSync(`${folder}/hookline.config.json`, JSON.stringify(settings))
  process.kill(running.pid, 'SIGHUP')
  const times = []
  const until = performance.now() + AFTER_RELOAD_MS
  while (performance.now() < until) {
    times.push(await get('/healthz'))
    await sleep(PROBE_EVERY_MS)
  }
  return percentile(times, 1)
}
