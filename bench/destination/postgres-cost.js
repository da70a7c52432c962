// Measures what PostgreSQL's store costs the server per delivered message, without HTTP: a store puts messages, then workers
// claim and settle them with as many under way as a worker has under load.
//
//   node bench/destination/postgres-cost.js [DIST ...] [--delayed 300000] [--messages 60000] [--runs 3] [--workers 1]
//     [--room 1000] [--leased]
//
// DIST is the compiled destination, or several of them: they take turns, each in its own database. --leased puts messages that
// are already leased, as a process with all roles does for a healthy endpoint. CPU is that of all processes of the server;
// other processes do not change it as much as they change the time.
import { readFileSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { destination } from './libraries.js'
import { fillDelayed, run, startPostgres } from './postgres.js'
import { toDelivery } from './store.js'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    delayed: { type: 'string', default: '300000' },
    messages: { type: 'string', default: '60000' },
    runs: { type: 'string', default: '3' },
    workers: { type: 'string', default: '1' },
    room: { type: 'string', default: '1000' },
    leased: { type: 'boolean', default: false },
  },
})
const { delayed, messages, runs, workers, room } = Object.fromEntries(
  Object.entries(flags).map(([name, value]) => [name, Number(value)]),
)

/** The messages of one put, and of one claim at most. */
const ROUND = 500
const CLAIM = 256

/** A worker claims once this share of its room is free. */
const CLAIM_SHARE = 1 / 8

/** Of a tick of the kernel's clock, in which it counts CPU. */
const TICK_US = 10_000

const LOG = { url: 'https://a.example.com/hook', code: 'delivered', status: 200, ms: 12.345 }

const toSettlement = ({ id, attempt }) => ({
  id,
  attempt,
  next: { state: 'done' },
  refusedBy: [],
  isUnsent: false,
  log: [{ ...LOG, error: null, response: '' }],
})

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]

async function compare() {
  const dists = positionals.length > 0 ? positionals : [fileURLToPath(new URL('dist', destination))]
  const postgres = await startPostgres()
  try {
    const arms = []
    for (const [i, dist] of dists.entries()) {
      const folder = pathToFileURL(`${resolve(dist)}/`)
      const url = await createDatabase(postgres.url, `arm${i}`)
      await fillDelayed(url, delayed, folder)
      arms.push({ dist, folder, url, costs: [] })
    }
    for (let n = 0; n < runs; n++) {
      for (const { folder, url, costs } of arms) costs.push(await measure(folder, url))
    }
    for (const { dist, costs } of arms) {
      const of = (name) => median(costs.map((cost) => cost[name])).toFixed(1)
      console.log(
        `${dist}: put ${of('putUs')} µs of CPU and ${of('putLog')} bytes of the log a message; ` +
          `${flags.leased ? '' : 'claim and '}settle ${of('drainUs')} µs and ${of('drainLog')} bytes; ` +
          `${of('rate')} a second, ${of('perClaim')} a claim, ${of('perSettle')} a settle`,
      )
    }
  } finally {
    await postgres.dispose()
  }
}

async function createDatabase(url, name) {
  await run(url, `CREATE DATABASE ${name}`)
  return Object.assign(new URL(url), { pathname: name }).href
}

async function measure(folder, url) {
  const { openStore } = await import(new URL('store/open.js', folder).href)
  const stores = await Promise.all(Array.from({ length: workers }, () => openStore(url)))
  await run(url, 'CHECKPOINT')
  const used = await watch(url)
  const counts = { claims: 0, claimed: 0, settles: 0, settled: 0 }
  await settleAll(stores[0], await putAll(stores[0], 'leased', 2 * ROUND), counts)
  const state = flags.leased ? 'leased' : 'fresh'

  const beforePut = await used()
  const leased = await putAll(stores[0], state, messages)
  const put = await used()
  Object.assign(counts, { claims: 0, claimed: 0, settles: 0, settled: 0 })
  const begin = performance.now()
  if (flags.leased) await settleAll(stores[0], leased, counts)
  else await Promise.all(stores.map((store) => drain(store, counts)))
  const seconds = (performance.now() - begin) / 1000
  const drained = await used()
  if (counts.settled !== messages) throw new Error(`settled ${counts.settled} of ${messages}`)
  await Promise.all(stores.map((store) => store.close()))
  const cost = {
    putUs: (put.us - beforePut.us) / messages,
    putLog: (put.log - beforePut.log) / messages,
    drainUs: (drained.us - put.us) / messages,
    drainLog: (drained.log - put.log) / messages,
    rate: messages / seconds,
    perClaim: counts.claimed / Math.max(1, counts.claims),
    perSettle: counts.settled / counts.settles,
  }
  if (process.env.BENCH_VERBOSE) console.log(folder.pathname, cost)
  return cost
}

async function putAll(store, state, count) {
  const leased = []
  for (let from = 0; from < count; from += ROUND) {
    const length = Math.min(ROUND, count - from)
    const ids = await store.put(
      Array.from({ length }, (_, i) => toDelivery('crm', from + i, state)),
    )
    leased.push(...ids.map((id) => ({ id, attempt: 1 })))
  }
  return leased
}

/** Settles in rounds of the size that a claim has. */
async function settleAll(store, leased, counts) {
  for (let from = 0; from < leased.length; from += CLAIM) {
    await settle(store, leased.slice(from, from + CLAIM), counts)
  }
}

async function settle(store, deliveries, counts) {
  const refused = await store.settle(deliveries.map(toSettlement))
  if (refused > 0) throw new Error(`${refused} settlements were refused.`)
  counts.settles++
  counts.settled += deliveries.length
}

/** Claims and settles like a worker whose endpoint answers at once. */
async function drain(store, counts) {
  let underWay = 0
  let waiting = []
  let settling
  const settleWaiting = async () => {
    while (waiting.length > 0) {
      const deliveries = waiting
      waiting = []
      await settle(store, deliveries, counts)
      underWay -= deliveries.length
    }
    settling = undefined
  }
  for (;;) {
    const free = room - underWay
    if (free < room * CLAIM_SHARE) {
      await settling
      continue
    }
    const limit = Math.min(free, CLAIM)
    const deliveries = await store.claim([{ destination: 'crm', lane: 'fresh', limit }])
    if (deliveries.length === 0) break
    counts.claims++
    counts.claimed += deliveries.length
    underWay += deliveries.length
    waiting.push(...deliveries)
    settling ??= settleWaiting()
  }
  await settling
}

/** What the server used since its start: CPU of all of its processes, and bytes of the write-ahead log. */
async function watch(url) {
  const [{ file }] = await run(url, "SELECT pg_read_file('postmaster.pid') AS file")
  const parent = Number.parseInt(file, 10)
  return async () => {
    let ticks = 0
    for (const pid of readdirSync('/proc')) {
      const stat = statOf(pid)
      // The parent counts the processes that have ended.
      if (Number(pid) === parent) ticks += sum(stat.slice(11, 15))
      else if (stat[1] === parent) ticks += sum(stat.slice(11, 13))
    }
    const [{ log }] = await run(url, "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn AS log")
    return { us: ticks * TICK_US, log: Number(log) }
  }
}

const sum = (numbers) => numbers.reduce((all, one) => all + one, 0)

/** The fields of a process behind its name, which may have spaces; none if it has ended. */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
  } catch {
    return []
  }
}

await compare()
