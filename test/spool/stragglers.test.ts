import fs, { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { entryBytes, entryJson, type Entry } from '../../src/entry.js'
import type { SpoolError } from '../../src/errors.js'
import { log } from '../../src/log.js'
import { SpooledQueue } from '../../src/spool/spooled-queue.js'
import { crash, diskBytes, files, temporary } from './directory.js'

// A message may be retried for hours, while those behind it are delivered.

const MIB = 1024 * 1024

const toJson = (number: number) => JSON.stringify({ number, fill: 'x'.repeat(260) })
const bytesOf = (text: string) => new TextEncoder().encode(text)
const numberOf = (entry: Entry) => (JSON.parse(entryJson(entry)) as { number: number }).number

/** A queue without a client around it: the test decides what has its outcome. */
function startQueue(directory: string, maxBytes = MIB, fsync: 'off' | 'batch' = 'off') {
  const faults: SpoolError[] = []
  let last = 0
  const queue = new SpooledQueue({
    writeKey: 'k',
    directory,
    maxBytes,
    maxQueueBytes: 64 * MIB,
    fsync,
    log,
    onMiscounted: () => undefined,
    onAdopted: (count) => (last += count) - count + 1,
    onFault: (error) => faults.push(error),
    onLost: () => undefined,
    onReady: () => undefined,
    onGone: () => undefined,
  })
  queue.start()
  onTestFinished(() => queue.close())
  return {
    queue,
    faults,
    push: (json: string) => {
      if (!queue.hasRoom(json.length)) return false
      return queue.push(bytesOf(json), ++last, undefined)
    },
    /** Takes all messages that wait. */
    take: () => {
      queue.closeBatch()
      const taken: Entry[] = []
      while (queue.closedLength > 0) taken.push(...queue.take(2_500, 500_000))
      return taken
    },
  }
}

/** The numbers of the messages that the next start on a copy of the directory sends, in order. */
const recovered = (directory: string) => startQueue(crash(directory)).take().map(numberOf)

/** Records messages, a batch at a time, and settles them, but for one in `every`, which wait. */
function deliver(
  { queue, push, take }: ReturnType<typeof startQueue>,
  { count, every, onBatch }: { count: number; every: number; onBatch?: () => void },
): Entry[] {
  const waiting: Entry[] = []
  for (let number = 0; number < count;) {
    for (let i = 0; i < 100; i++) push(toJson(number++))
    const taken = take()
    const isWaiting = (entry: Entry) => numberOf(entry) % every === 0
    waiting.push(...taken.filter(isWaiting))
    queue.settle(taken.filter((entry) => !isWaiting(entry)))
    onBatch?.()
  }
  return waiting
}

/** Changes one byte of a message wherever it is on disk. */
function damage(directory: string, number: number) {
  for (const path of files(directory, '.log')) {
    const bytes = readFileSync(path)
    const at = bytes.indexOf(`"number":${number},`)
    if (at >= 0) writeFileSync(path, bytes.fill('?', at, at + 1))
  }
}

describe('messages that wait while later ones are delivered', () => {
  test('keep only themselves on disk', () => {
    const directory = temporary()
    const subject = startQueue(directory)
    let most = 0
    const onBatch = () => {
      most = Math.max(most, diskBytes(directory))
    }
    // One message in each file of 64 KiB: 5 MB in all.
    const waiting = deliver(subject, { count: 15_000, every: 200, onBatch })
    expect(waiting).toHaveLength(75)
    expect(most).toBeLessThan(300_000)
    subject.queue.settle(waiting)
    expect(files(directory, '.log').length).toBeLessThanOrEqual(1)
    expect(subject.faults).toEqual([])
  })

  test('let at most 1 MiB of those be sent again after a crash', () => {
    const directory = temporary()
    const subject = startQueue(directory, 1024 * MIB)
    deliver(subject, { count: 20_000, every: 1_000_000 })
    const again = recovered(directory)
    expect(again[0]).toBe(0)
    expect(again.length * toJson(20_000).length).toBeLessThan(MIB)
  })

  test('come first at the next start, in their order', () => {
    const directory = temporary()
    deliver(startQueue(directory), { count: 3_000, every: 500 })
    const again = recovered(directory)
    expect(again).toEqual(expect.arrayContaining([0, 500, 1_000, 1_500, 2_000, 2_500]))
    expect(again).toEqual([...again].sort((a, b) => a - b))
  })

  test.each([
    ['first', 0],
    ['second', 1],
  ])('have files with short names and in order, while the %s of them gets through', (_, at) => {
    const directory = temporary()
    const subject = startQueue(directory)
    const { queue, push, take } = subject
    for (let number = 0; number < 40; number++) push(toJson(number))
    const waiting = take()
    let made = waiting.length
    for (let round = 0; round < 30; round++) {
      for (let i = 0; i < 300; i++) push(toJson(made++))
      const [next, ...others] = take()
      if (next) waiting.push(next)
      queue.settle([...others, ...waiting.splice(at, 1)])
      const names = files(directory, '.log').map((path) => basename(path))
      expect(Math.max(...names.map(({ length }) => length))).toBeLessThan(40)
    }
    const again = recovered(directory)
    expect(again).toEqual([...again].sort((a, b) => a - b))
    expect(again).toEqual(expect.arrayContaining(waiting.map(numberOf)))
    expect(subject.faults).toEqual([])
  })

  test('stay where they are if their records are damaged, and hold up nobody', () => {
    const directory = temporary()
    const subject = startQueue(directory)
    for (let number = 0; number < 100; number++) subject.push(toJson(number))
    const [first, ...others] = subject.take()
    const [path = ''] = files(directory, '.log')
    writeFileSync(path, readFileSync(path).fill('?', 24, 100))
    subject.queue.settle(others)
    const read = vi.spyOn(fs, 'readSync')
    onTestFinished(() => {
      read.mockRestore()
    })
    deliver(subject, { count: 3_000, every: 1_000_000 })
    // The file with the damage is read once, not with each batch.
    expect(read.mock.calls.length).toBeLessThan(5)
    expect(diskBytes(directory)).toBeLessThan(300_000)
    subject.queue.settle(first ? [first] : [])
    expect(subject.faults).toEqual([])
  })

  const behindDamage = () => {
    const directory = temporary()
    const subject = startQueue(directory)
    for (let number = 10_000; number < 10_100; number++) subject.push(toJson(number))
    const taken = subject.take()
    damage(directory, 10_020)
    subject.queue.settle(taken.filter((entry) => numberOf(entry) % 10 > 0))
    const waiting = taken.filter((entry) => numberOf(entry) % 10 === 0)
    return { directory, subject, waiting }
  }

  test('are all kept by a client that leaves, also if their records are damaged', async () => {
    const { directory, subject, waiting } = behindDamage()
    subject.queue.leave(waiting)
    await subject.queue.close()
    expect(recovered(directory)).toEqual(waiting.map(numberOf))
  })

  test('are on disk once, if the record of one of them is damaged', () => {
    const { directory, subject } = behindDamage()
    deliver(subject, { count: 3_000, every: 200 }) // so many that stragglers are moved
    const again = recovered(directory)
    expect(new Set(again).size).toBe(again.length)
  })

  test('come back to their places if some of their files are removed', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { minLength: 1, maxLength: 12 }),
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 1, maxLength: 7 }),
        (isRemoved, isSettled) => {
          const directory = temporary()
          const { queue, push, take, faults } = startQueue(directory)
          // Six files.
          for (let number = 0; number < 1_200; number++) push(toJson(number))
          const taken = take()
          const waits = (_: Entry, at: number) => (isSettled[at % isSettled.length] ?? 0) > 2
          const waiting = taken.filter(waits)
          queue.settle(taken.filter((entry) => !waiting.includes(entry)))
          files(directory, '.log')
            .sort()
            .forEach((path, at) => {
              if (isRemoved[at % isRemoved.length]) rmSync(path)
            })
          const { kept, lost } = queue.leave(waiting)
          expect({ kept, lost }).toEqual({ kept: waiting.length, lost: [] })
          expect(recovered(directory)).toEqual(waiting.map(numberOf))
          expect(faults.every(({ message }) => message.includes('removed'))).toBe(true)
        },
      ),
      { numRuns: 25 },
    )
  })

  test('are written through to the disk before they leave their file, with fsync', () => {
    const sync = vi.spyOn(fs, 'fsyncSync')
    onTestFinished(() => {
      sync.mockRestore()
    })
    deliver(startQueue(temporary(), MIB, 'batch'), { count: 700, every: 200 })
    const { length } = sync.mock.calls
    expect(length).toBeGreaterThan(0)
    expect(length % 2).toBe(0) // each new file and its folder
  })

  test('leave no second copy if they cannot be written through to the disk', () => {
    const directory = temporary()
    const subject = startQueue(directory, MIB, 'batch')
    const sync = vi.spyOn(fs, 'fsyncSync').mockImplementation(() => {
      throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
    })
    onTestFinished(() => {
      sync.mockRestore()
    })
    deliver(subject, { count: 700, every: 200 })
    expect(sync).toHaveBeenCalled()
    expect(subject.faults.map(({ code }) => code)).toEqual(['spool_failed'])
    expect(files(directory, '.log').filter((path) => /\d-\d+\.log$/.test(path))).toEqual([])
  })

  test.each([
    ['under the permission model of Node', 'ERR_ACCESS_DENIED'],
    ['on Windows', 'EPERM'],
  ])('are written through in the background %s', async (_, code) => {
    const directory = temporary()
    const subject = startQueue(directory, MIB, 'batch')
    const denied = vi.spyOn(fs, 'fsyncSync').mockImplementation(() => {
      throw Object.assign(new Error('not permitted'), { code })
    })
    const open = vi.spyOn(fs.promises, 'open')
    onTestFinished(() => {
      denied.mockRestore()
      open.mockRestore()
    })
    const moved = () => files(directory, '.log').filter((path) => /\d-\d+\.log$/.test(path))
    deliver(subject, { count: 700, every: 200 })
    expect(denied).toHaveBeenCalled()
    const early = moved().length
    expect(early).toBeGreaterThan(0)
    await subject.queue.close()
    expect(moved().length).toBeGreaterThan(early)
    expect(subject.faults).toEqual([])
    const synced = () => open.mock.calls.map(([path]) => path)
    expect(synced()).toEqual(expect.arrayContaining([...moved(), dirname(moved()[0] ?? '')]))
    // Also if nothing is recorded afterwards, and the client goes on.
    const other = startQueue(temporary(), MIB, 'batch')
    for (let number = 0; number < 700; number++) other.push(toJson(number))
    const taken = other.take()
    await new Promise((resolve) => setTimeout(resolve, 100)) // the files of this batch are written through
    open.mockClear()
    other.queue.settle(taken.filter((_, i) => i % 200 > 0))
    await expect
      .poll(synced)
      .toEqual(expect.arrayContaining([expect.stringMatching(/\d-\d+\.log$/)]))
  })

  test('are tried again later if the disk has no room for their own file', () => {
    const directory = temporary()
    const subject = startQueue(directory)
    const open = fs.openSync
    const full = vi.spyOn(fs, 'openSync').mockImplementation((path, ...rest) => {
      if (!/\d-\d+\.log$/.test(String(path))) return open(path, ...rest)
      throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })
    })
    deliver(subject, { count: 700, every: 200 })
    full.mockRestore()
    expect(subject.faults.map(({ code }) => code)).toEqual(['spool_failed'])
    expect(recovered(directory)[0]).toBe(0)
  })
})

test('whatever the order of the outcomes, no message is lost and few are sent again, none after a close, and damage costs only what it hits', async () => {
  const step = fc.oneof(
    fc.record({ act: fc.constant('push' as const), count: fc.integer({ min: 1, max: 1_500 }) }),
    fc.record({ act: fc.constant('settle' as const), share: fc.integer({ min: 1, max: 10 }) }),
    fc.record({ act: fc.constant('oldest' as const), count: fc.integer({ min: 1, max: 300 }) }),
    fc.record({ act: fc.constant('damage' as const), at: fc.nat() }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.integer(), async (steps, seed) => {
      const directory = temporary()
      const subject = startQueue(directory)
      const { queue } = subject
      const pending = new Map<number, Entry>()
      const damaged = new Set<number>()
      let made = 0
      let random = seed >>> 0
      const chance = (of: number) =>
        (random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0) % 1_009 < 1_009 / of
      for (const one of steps) {
        if (one.act === 'push') {
          for (let i = 0; i < one.count; i++) subject.push(toJson(made++))
          for (const entry of subject.take()) pending.set(numberOf(entry), entry)
        } else if (one.act === 'damage') {
          const [number = -1] = [...pending.keys()].slice(one.at % pending.size)
          damage(directory, number)
          damaged.add(number)
        } else {
          const all = [...pending.values()]
          const settled =
            one.act === 'oldest' ? all.slice(0, one.count) : all.filter(() => chance(one.share))
          for (const entry of settled) pending.delete(numberOf(entry))
          queue.settle(settled)
        }
        expect(diskBytes(directory)).toBeLessThanOrEqual(MIB)
      }
      const again = recovered(directory)
      expect(again.findIndex((number, i) => number <= (again[i - 1] ?? -1))).toBe(-1)
      const left = new Set([...again, ...damaged])
      expect([...pending.keys()].filter((number) => !left.has(number))).toEqual([])
      const bytes = again.length * toJson(made).length
      const pendingBytes = [...pending.values()].reduce((sum, each) => sum + entryBytes(each), 0)
      expect(bytes - pendingBytes).toBeLessThan((2 + damaged.size) * 65_536)
      if (seed % 2 === 0) {
        queue.leave([...pending.values()])
        await queue.close()
        const sent = recovered(directory)
        const isWhole = (number: number) => sent.includes(number) || !damaged.has(number)
        expect(sent).toEqual([...pending.keys()].filter(isWhole))
      } else {
        queue.settle([...pending.values()])
        expect(diskBytes(directory)).toBeLessThan(65_536)
      }
      expect(subject.faults).toEqual([])
    }),
    { numRuns: process.env['SLOW'] ? 1_000 : 20 },
  )
})
