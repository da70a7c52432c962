import fs, { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { Analytics, type FailedReport, type Fetch, type Stats } from '../../src/index.js'
import {
  AT_ONCE,
  pass,
  scriptedFetch,
  sized,
  turns,
  useFakeClock,
  type FetchReply,
} from '../collector.js'
import { findRecords, jsonOf } from '../../src/spool/record.js'
import { crash, files, temporary } from './directory.js'

// One client after the other on a disk that fails at random, with clocks that jump, crashes, and folders that are
// removed. A failure prints its seed: `SEED=… npx vitest run --project hookline faults` runs it again.

const { SEED, SLOW } = process.env

const OPERATIONS = [
  'writeSync',
  'openSync',
  'renameSync',
  'mkdirSync',
  'futimesSync',
  'ftruncateSync',
] as const
type Operation = (typeof OPERATIONS)[number]
type Code = 'ENOSPC' | 'EMFILE' | 'EIO' | 'cut short'

/** Lets operations of the file system fail. */
function faultyDisk() {
  const next = { operation: 'writeSync' as Operation, code: 'EIO' as Code, times: 0 }
  for (const name of OPERATIONS) {
    const real = fs[name] as (...given: unknown[]) => unknown
    vi.spyOn(fs, name).mockImplementation((...given: unknown[]) => {
      if (next.operation !== name || next.times === 0) return real(...given) as never
      next.times--
      const [fd, bytes, offset, length, at] = given as [number, Uint8Array, number, number, number]
      if (next.code === 'cut short' && name === 'writeSync') {
        return real(fd, bytes, offset, length >> 1, at) as never
      }
      throw Object.assign(new Error(`${next.code}: by the test`), { code: next.code })
    })
  }
  return next
}

const count = (max: number) => fc.integer({ min: 1, max })
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ act: fc.constant('track' as const), count: count(60) }) },
  {
    weight: 1,
    arbitrary: fc.record({ act: fc.constant('track largest' as const), count: count(8) }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('answer' as const),
      replies: fc.array(fc.constantFrom<FetchReply>(200, 503, new Error('reset')), {
        maxLength: 4,
      }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ act: fc.constant('pass' as const), ms: count(12_000) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant('fault' as const),
      operation: fc.constantFrom(...OPERATIONS),
      code: fc.constantFrom<Code>('ENOSPC', 'EMFILE', 'EIO', 'cut short'),
      times: count(6),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      act: fc.constant('clock' as const),
      ms: fc.constantFrom(-86_400_000, -3_000, 3_000, 86_400_000),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constantFrom(
        'flush' as const,
        'crash' as const,
        'close' as const,
        'remove' as const,
        'strangers' as const,
      ),
    }),
  },
)

interface Body {
  batch: { event: string }[]
}

const balanced = ({ accepted, delivered, rejected, dropped, pending }: Stats) =>
  accepted === delivered + rejected + dropped + pending

/** The events whose records are whole on disk, with an outcome or without. */
const onDisk = (directory: string) =>
  files(directory, '.log').flatMap((path) => {
    const bytes = readFileSync(path)
    return findRecords(bytes, true).records.map((record) => {
      const json = Buffer.from(jsonOf(bytes, record)).toString()
      return (JSON.parse(json) as { event: string }).event
    })
  })

/** Files of another version, of another write key, and of nobody. */
function putStrangers(directory: string) {
  for (const home of ['v0-abc', 'v1-0000000000000000', 'lost+found']) {
    mkdirSync(join(directory, home, 'client'), { recursive: true })
    writeFileSync(join(directory, home, 'client', '0000000001.log'), 'not for this client')
  }
}

test(
  'on a disk that fails at random, every message is delivered, reported, or was never on disk',
  { timeout: 3_600_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.constantFrom(2_000, 60_000, 10_000_000),
        fc.constantFrom('drop-newest' as const, 'drop-oldest' as const),
        (steps, maxQueueBytes, overflow) => live(steps, { maxQueueBytes, overflow }),
      ),
      {
        numRuns: SLOW ? 3_000 : 60,
        interruptAfterTimeLimit: SLOW ? 600_000 : 8_000,
        ...(SEED && { seed: Number(SEED) }),
      },
    )
  },
)

type Step = typeof step extends fc.Arbitrary<infer One> ? One : never

async function live(
  steps: readonly Step[],
  options: { maxQueueBytes: number; overflow: 'drop-newest' | 'drop-oldest' },
) {
  useFakeClock()
  const disk = faultyDisk()
  let directory = temporary()
  /** Events in the order in which they were accepted. */
  const accepted: string[] = []
  /** Events that were answered 503 alone: they may be at fault, so later ones may overtake them. */
  const suspects = new Set<string>()
  const reported = new Set<string>()
  /** Messages that can't be read any more are reported without a name. */
  let unnamed = 0
  /** Events that were in memory only when their process died. */
  const gone = new Set<string>()
  const clients: Analytics[] = []
  let made = 0
  let hasFailed = false
  let wasFaulty = false

  const start = (reply: FetchReply = 'hang') => {
    const net = scriptedFetch()
    net.otherwise(reply)
    const fetch: Fetch = async (url, init) => {
      if (clients.at(-1) !== analytics) return new Promise<never>(() => undefined)
      const { batch } = JSON.parse(Buffer.from(init.body).toString()) as Body
      const events = batch.map(({ event }) => event)
      const response = await net.fetch(url, init)
      if (response.status === 200) accepted.push(...events)
      else if (events.length === 1) suspects.add(events.join())
      return response
    }
    const onFailed = ({ messages, error }: FailedReport) => {
      if (error.code === 'spool_failed') hasFailed = true
      if (clients.at(-1) !== analytics) return
      for (const { json } of messages) {
        if (json === undefined) unnamed++
        else reported.add((JSON.parse(json) as { event: string }).event)
      }
    }
    const spool = { directory, maxBytes: 1_048_576 }
    const analytics = new Analytics('k', { ...options, spool, fetch, onFailed }, AT_ONCE)
    clients.push(analytics)
    return { net, analytics }
  }
  /** The process dies, and another starts on what is on disk. */
  const restart = async (image: string, reply?: FetchReply) => {
    const left = new Set(onDisk(image))
    const isDone = new Set([...accepted, ...reported])
    for (let i = 0; i < made; i++) {
      const event = `e${i}`
      if (left.has(event) || isDone.has(event) || gone.has(event)) continue
      // In memory only, or lost on disk: either has been reported before.
      expect(hasFailed || unnamed > 0, `${event} was not on disk`).toBe(true)
      gone.add(event)
    }
    hasFailed = false
    directory = image
    ;({ net, analytics } = start(reply))
    await turns()
  }
  let { net, analytics } = start()

  for (const one of steps) {
    if (one.act === 'track') {
      for (let i = 0; i < one.count; i++) analytics.track({ userId: 'u', event: `e${made++}` })
    } else if (one.act === 'track largest') {
      for (let i = 0; i < one.count; i++) analytics.track(sized(32_768, 'x', `e${made++}`))
    } else if (one.act === 'answer') {
      net.script(...one.replies)
    } else if (one.act === 'pass') {
      await pass(one.ms)
    } else if (one.act === 'fault') {
      Object.assign(disk, one)
      wasFaulty = true
    } else if (one.act === 'clock') {
      vi.setSystemTime(Date.now() + one.ms)
    } else if (one.act === 'flush') {
      void analytics.flush()
    } else if (one.act === 'remove') {
      disk.times = 0
      for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true })
      wasFaulty = hasFailed = true // it is told at the next beat; a crash may come before
    } else if (one.act === 'strangers') {
      disk.times = 0
      putStrangers(directory)
    } else {
      if (one.act === 'close') await closed(analytics)
      disk.times = 0
      await restart(crash(directory))
    }
    await turns()
    expect(balanced(analytics.stats())).toBe(true)
  }

  disk.times = 0
  await restart(crash(directory), 200)
  await pass(40_000) // for folders whose owner file was damaged: they are taken over late
  await closed(analytics)
  vi.restoreAllMocks()
  expect(analytics.stats()).toMatchObject({ pending: 0, pendingBytes: 0 })

  const first = [...new Set(accepted)]
  const missing = Array.from({ length: made }, (_, i) => `e${i}`).filter(
    (event) => !first.includes(event) && !reported.has(event) && !gone.has(event),
  )
  expect(missing.length, missing.join()).toBeLessThanOrEqual(unnamed)
  const inOrder = first.filter((event) => !suspects.has(event))
  const numbers = inOrder.map((event) => Number(event.slice(1)))
  expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
  if (!wasFaulty) expect(missing).toEqual([])
  if (!wasFaulty && suspects.size === 0) expect(accepted).toEqual(first) // what overtook one may come again after a crash
  vi.useRealTimers()
}

async function closed(analytics: Analytics) {
  const end = vi.fn()
  void analytics.close({ timeout: 1_000 }).then(end)
  while (end.mock.calls.length === 0) await pass(1_000)
}
