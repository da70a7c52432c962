import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { afterAll, afterEach, expect, inject, test, vi } from 'vitest'
import { openStore } from '../../../src/store/open.js'
import { LEASE_MS, type Store } from '../../../src/store/store.js'
import { newDelivery } from '../contract.js'
import { startServer } from './server.js'

// Tests that need several processes. SLOW=1 makes them run longer.

const server = await startServer()
const SCRIPT = join(import.meta.dirname, 'worker.js')
const ROUNDS = process.env['SLOW'] ? 40 : 6
const MESSAGES_A_ROUND = 300

interface Said {
  open?: true
  sent?: string
  attempt?: number
  paused?: string[]
  settled?: number
  refused?: number
  failed?: string
}

interface Worker {
  process: ChildProcess
  said: Said[]
  opened: Promise<unknown>
}

let workers: Worker[] = []

afterEach(async () => {
  await Promise.all(workers.map(kill))
  workers = []
})

afterAll(() => server.dispose())

function startWorker(url: string, hear: (said: Said) => void, clockOffMs = 0): Worker {
  const child = fork(SCRIPT, [inject('compiledDir'), url], {
    env: { ...process.env, CLOCK_OFF_MS: String(clockOffMs) },
    execArgv: [],
  })
  const said: Said[] = []
  const opened = new Promise((resolve) => {
    child.on('message', (word: Said) => {
      said.push(word)
      if (word.open) resolve(undefined)
      hear(word)
    })
  })
  const worker = { process: child, said, opened }
  workers.push(worker)
  return worker
}

/** SIGKILL, as the kernel sends it when memory runs out: no handler of the process runs. */
async function kill({ process: child }: Worker): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGKILL')
  await ended
}

/** Lets all leases run out. Returns how many there were. */
async function passLeases(url: string): Promise<number> {
  const rows = await server.query(
    `UPDATE hookline.waiting SET due_at = due_at - ${LEASE_MS}, lease_until = lease_until - ${LEASE_MS} WHERE leased RETURNING id`,
    [],
    url,
  )
  return rows.length
}

/** Repeats a put until the store accepts it. Returns the ids that were acknowledged. */
async function putSurely(store: Store, count: number): Promise<string[]> {
  const deliveries = Array.from({ length: count }, () => newDelivery())
  for (;;) {
    try {
      await store.put(deliveries)
      return deliveries.map(({ messageId }) => messageId)
    } catch {
      await wait(50)
    }
  }
}

async function waiting(store: Store): Promise<number> {
  const all = await store.stats()
  return all.reduce((sum, { fresh, backlog, leased }) => sum + fresh + backlog + leased, 0)
}

test('workers that are killed, connections that are cut and a server that crashes lose nothing', async () => {
  const url = await server.database()
  const store = await openStore(url)
  const sends = new Map<string, number>()
  const counts = { kills: 0, cuts: 0, crashes: 0, failures: 0, refused: 0, passed: 0 }
  const hear = ({ sent, failed, refused = 0 }: Said) => {
    if (sent !== undefined) sends.set(sent, (sends.get(sent) ?? 0) + 1)
    if (failed) counts.failures++
    counts.refused += refused
  }
  for (let n = 0; n < 3; n++) startWorker(url, hear)
  await Promise.all(workers.map(({ opened }) => opened))

  const acknowledged: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const putting = putSurely(store, MESSAGES_A_ROUND)
    const before = sends.size
    if (round % 3 === 1) {
      await server.stop('immediate')
      await server.start()
      counts.crashes++
    } else if (round % 3 === 2) {
      const cut = await server.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookline-destination'`,
      )
      counts.cuts += cut.length
    }
    acknowledged.push(...(await putting))
    // The kill comes while the workers are sending.
    await vi.waitUntil(() => sends.size > before + 20, 60_000)
    const [victim] = workers.splice(0, 1)
    if (victim) await kill(victim)
    counts.kills++
    const { opened } = startWorker(url, hear)
    counts.passed += await passLeases(url)
    await opened
  }
  await vi.waitUntil(
    async () => {
      counts.passed += await passLeases(url)
      return (await waiting(store)) === 0
    },
    { timeout: 60_000, interval: 500 },
  )

  const lost = acknowledged.filter((messageId) => !sends.has(messageId))
  const retried = await server.query<{ count: number }>(
    'SELECT count(*)::int FROM hookline.deliveries WHERE id % 5 = 0',
    [],
    url,
  )
  const total = [...sends.values()].reduce((sum, count) => sum + count, 0)
  const planned = acknowledged.length + (retried[0]?.count ?? 0)
  console.info(
    `${acknowledged.length} put, ${lost.length} lost, ${total} sent where ${planned} were due; ${JSON.stringify(counts)}`,
  )
  expect(lost).toEqual([])
  // Only deliveries that were under way when their lease ran out are sent more than once.
  expect(total).toBeLessThanOrEqual(planned + counts.passed)
  expect(await server.query('SELECT 1 FROM hookline.done', [], url)).toHaveLength(
    acknowledged.length,
  )
  await store.close()
})

test('a worker that was suspended for longer than its lease is refused when it wakes', async () => {
  const url = await server.database()
  const store = await openStore(url)
  const sleeper = startWorker(url, () => undefined)
  await sleeper.opened
  sleeper.process.send({ pause: true })
  await store.put(Array.from({ length: 5 }, () => newDelivery()))
  const paused = await vi.waitUntil(() => sleeper.said.find(({ paused }) => paused)?.paused, 60_000)
  expect(await passLeases(url)).toBe(paused.length)

  const other = startWorker(url, () => undefined)
  await vi.waitUntil(async () => (await waiting(store)) === 0, 60_000)
  const attempts = other.said.filter(({ sent }) => sent && paused.includes(sent))
  expect(attempts.map(({ attempt }) => attempt)).toContain(2)
  sleeper.process.kill('SIGCONT')
  await vi.waitUntil(() => sleeper.said.some(({ refused }) => refused === paused.length), 60_000)
  expect(await waiting(store)).toBe(0)
  await store.close()
})

test('a worker whose clock is ten minutes off claims what is due by the clock of the server alone', async () => {
  const url = await server.database()
  const store = await openStore(url)
  const ids = await store.put(Array.from({ length: 2 }, () => newDelivery({ state: 'leased' })))
  const [held, later] = ids.map((id) => ({ id: id ?? 0, attempt: 1, refusedBy: [], log: [] }))
  if (later) await store.settle([{ ...later, next: { state: 'backlog', delayMs: 300_000 } }])
  for (const offMs of [600_000, -600_000]) {
    const worker = startWorker(url, () => undefined, offMs)
    await worker.opened
    const { messageId } = newDelivery()
    await store.put([newDelivery({ messageId })])
    // After this message the worker has certainly claimed. So it did not consider the other deliveries due.
    await vi.waitUntil(() => worker.said.some(({ sent }) => sent === messageId), 60_000)
    await vi.waitUntil(async () => (await store.trace(messageId))[0]?.state === 'done', 60_000)
    const sent = worker.said.flatMap(({ sent }) => sent ?? [])
    expect(sent).toEqual(sent.map(() => messageId))
    await kill(worker)
  }
  expect(held && (await store.settle([{ ...held, next: { state: 'done' } }]))).toBe(0)
  await store.close()
})
