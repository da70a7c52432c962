// Measures what SQLite's store costs per delivered message, without HTTP and without threads: an engine runs rounds as they
// come under load. Each round settles the messages of the former one, puts new ones that are already leased, and is synced.
//
//   node bench/destination/store-cost.js [DIST ...] [--rows 300000] [--messages 60000] [--round 100] [--runs 5]
//     [--ids time,random] [--claimed]
//
// DIST is the compiled destination, or several of them: they take turns. --claimed puts messages into the backlog and claims
// them, as after an outage. CPU is that of the process; other processes do not change it as much as they change the time.
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { buildEvent } from '../event.js'
import { copySynced } from './store.js'
import { destination } from './libraries.js'

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rows: { type: 'string', default: '300000' },
    messages: { type: 'string', default: '60000' },
    round: { type: 'string', default: '100' },
    runs: { type: 'string', default: '5' },
    ids: { type: 'string', default: 'time,random' },
    claimed: { type: 'boolean', default: false },
    // What a child does: `fill` or `measure`.
    child: { type: 'string' },
    file: { type: 'string' },
  },
})
const [rows, messages, round, runs] = [flags.rows, flags.messages, flags.round, flags.runs].map(
  Number,
)

/** The time between the settlements of two rounds, in ms of the store's clock. */
const ROUND_MS = 20

const makeId = { time: createTimeId, random: () => randomUUID() }

/** A UUID of version 7, as the SDK makes them. */
function createTimeId(at) {
  const hex = at.toString(16).padStart(12, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${randomUUID().slice(15)}`
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]

async function compare() {
  const dists = positionals.length > 0 ? positionals : [fileURLToPath(new URL('dist', destination))]
  const build = new URL('../../build/', import.meta.url)
  mkdirSync(build, { recursive: true })
  const folder = mkdtempSync(fileURLToPath(new URL('store-cost-', build)))
  try {
    for (const ids of flags.ids.split(',')) {
      const arms = dists.map((dist, i) => ({ dist, full: `${folder}/${i}-${ids}.db`, costs: [] }))
      for (const arm of arms) arm.bytes = child('fill', arm.dist, arm.full, ids).bytes
      for (let run = 0; run < runs; run++) {
        for (const arm of arms) {
          const file = `${folder}/run.db`
          await copySynced(arm.full, file)
          arm.costs.push(child('measure', arm.dist, file, ids))
          for (const end of ['', '-wal', '-shm', '-lock']) rmSync(file + end, { force: true })
        }
      }
      for (const { dist, bytes, costs } of arms) {
        const cpuUs = costs.map((cost) => cost.cpuUs)
        console.log(
          `${ids.padEnd(7)} ${dist}: ${median(cpuUs).toFixed(1)} µs of CPU a message ` +
            `(${Math.min(...cpuUs).toFixed(1)}–${Math.max(...cpuUs).toFixed(1)}; system ${median(costs.map((cost) => cost.systemUs)).toFixed(1)}), ` +
            `${median(costs.map((cost) => cost.written)).toFixed(0)} bytes written a message, ` +
            `file of ${(bytes / rows).toFixed(0)} bytes a message`,
        )
      }
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function child(task, dist, file, ids) {
  const { stdout, status, error } = spawnSync(
    process.execPath,
    [
      ...process.execArgv,
      process.argv[1],
      ...asked(),
      '--child',
      task,
      '--file',
      file,
      '--ids',
      ids,
      dist,
    ],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
  )
  if (status !== 0) throw error ?? new Error(`${task} failed with ${status}`)
  return JSON.parse(stdout)
}

/** The flags that a child needs too. */
function asked() {
  const numbers = ['rows', 'messages', 'round'].flatMap((name) => [`--${name}`, flags[name]])
  return flags.claimed ? [...numbers, '--claimed'] : numbers
}

async function runChild() {
  const dist = resolve(positionals.at(-1))
  const load = (name) => import(pathToFileURL(`${dist}/store/sqlite/${name}.js`).href)
  const [{ loadDriver }, { Engine }] = [await load('driver'), await load('engine')]
  const clock = { now: Date.now(), wall: Date.now() }
  const engine = new Engine(await loadDriver(), { path: flags.file, at: clock, isRestart: false })
  const rounds = new Rounds(engine, clock)
  if (flags.child === 'fill') {
    rounds.run(rows, 1_000)
    engine.close(clock)
    const database = (await loadDriver())(flags.file)
    const { bytes } = database
      .prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size')
      .get()
    console.log(JSON.stringify({ bytes }))
    return
  }
  rounds.run(10_000, round)
  const deliveries = rounds.build(messages)
  globalThis.gc?.()
  const [cpu, written] = [process.cpuUsage(), bytesWritten()]
  rounds.deliver(deliveries, round)
  const { user, system } = process.cpuUsage(cpu)
  const cost = {
    cpuUs: (user + system) / messages,
    systemUs: system / messages,
    written: (bytesWritten() - written) / messages,
  }
  engine.close(clock)
  console.log(JSON.stringify(cost))
}

/** What this process has written to files, also to the system's cache. */
function bytesWritten() {
  return Number(/^wchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))[1])
}

class Rounds {
  #engine
  #clock
  #seq = 0
  #leased = []

  constructor(engine, clock) {
    this.#engine = engine
    this.#clock = clock
  }

  /** Delivers messages that are built round by round, so that they take no memory. */
  run(count, atOnce) {
    for (let done = 0; done < count; done += atOnce) {
      this.deliver(this.build(Math.min(atOnce, count - done)), atOnce)
    }
  }

  build(count) {
    const perMs = round / ROUND_MS
    return Array.from({ length: count }, (_, i) =>
      toDelivery(this.#seq++, makeId[flags.ids](this.#clock.now + Math.floor(i / perMs))),
    )
  }

  deliver(deliveries, atOnce) {
    for (let from = 0; from < deliveries.length; from += atOnce) {
      const { put } = this.#run({
        settlements: this.#leased.map(toSettlement),
        deliveries: deliveries.slice(from, from + atOnce),
      })
      this.#leased = flags.claimed
        ? this.#claim(atOnce)
        : put.value.map((id) => ({ id, attempt: 1 }))
    }
  }

  #claim(limit) {
    const { claimed } = this.#run({ claims: [{ destination: 'crm', lane: 'backlog', limit }] })
    return claimed.value.flat()
  }

  #run(work) {
    this.#clock.now += ROUND_MS
    this.#clock.wall += ROUND_MS
    const none = { settlements: [], deliveries: [], claims: [], queries: [] }
    const result = this.#engine.run({ at: this.#clock, ...none, ...work })
    for (const { failure } of [result.settled, result.put, result.claimed]) {
      if (failure) throw new Error(failure.message, { cause: failure.cause })
    }
    if (result.settled.value.includes(false)) throw new Error('A settlement was refused.')
    if (result.put.value.includes(undefined)) throw new Error('A message counts as a duplicate.')
    return result
  }
}

function toDelivery(seq, messageId) {
  const { userId, event, properties } = buildEvent(seq)
  const timestamp = new Date().toISOString()
  const body = JSON.stringify({ version: 1, type: 'track', userId, event, properties, timestamp })
  const of = { source: 'web', destination: 'crm', type: 'track' }
  const state = flags.claimed ? 'backlog' : 'leased'
  return { messageId, ...of, event, user: userId, body, state }
}

const DELIVERED = { code: 'delivered', status: 200, error: null, response: '' }

function toSettlement({ id, attempt }) {
  const log = [{ url: 'https://a.example.com/hook', ms: 12.345, ...DELIVERED }]
  return { id, attempt, next: { state: 'done' }, refusedBy: [], isUnsent: false, log }
}

if (flags.child) await runChild()
else await compare()
