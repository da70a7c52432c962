import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { Books } from '../src/books.js'
import type { Entry } from '../src/entry.js'
import { DroppedError } from '../src/errors.js'
import { Hold } from '../src/exit.js'
import { Flushes } from '../src/flushes.js'
import { Teller } from '../src/teller.js'
import { createClient, scriptedFetch, trackMany, turns, useFakeClock } from './collector.js'

/** What a caller of flush() is promised, computed message by message. */
interface Expected {
  readonly sequences: number[]
  readonly delivered: () => number
  readonly failed: () => number
}

type Step =
  | { do: 'accept'; count: number }
  | { do: 'settle'; at: number; isDelivered: boolean }
  | { do: 'wait'; timeoutMs: number }
  | { do: 'pass'; ms: number }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('accept' as const), count: fc.integer({ min: 1, max: 9 }) }),
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      at: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.nat(1_000)),
      isDelivered: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), timeoutMs: timeouts() }) },
  fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(1, 10, 100) }),
)

function timeouts() {
  return fc.constantFrom(Infinity, Infinity, 5, 50)
}

test('each caller hears of exactly the messages that were pending when it came', async () => {
  useFakeClock()
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const flushes = new Flushes()
      const pending: number[] = []
      const outcomes = new Map<number, 'delivered' | 'failed'>()
      const waiting: { expected: Expected; result?: unknown; isTimed: boolean }[] = []
      let last = 0
      for (const one of steps) {
        if (one.do === 'accept') {
          for (let i = 0; i < one.count; i++) pending.push(++last)
          flushes.accepted(one.count)
        } else if (one.do === 'settle' && pending.length > 0) {
          const [sequence = 0] = pending.splice(one.at % pending.length, 1)
          const outcome = one.isDelivered ? 'delivered' : 'failed'
          outcomes.set(sequence, outcome)
          flushes.settled(sequence, outcome)
        } else if (one.do === 'wait' && pending.length > 0) {
          const sequences = [...pending]
          const count = (outcome: string) =>
            sequences.filter((sequence) => outcomes.get(sequence) === outcome).length
          const delivered = () => count('delivered')
          const failed = () => count('failed')
          const waiter: (typeof waiting)[number] = {
            expected: { sequences, delivered, failed },
            isTimed: one.timeoutMs !== Infinity,
          }
          waiting.push(waiter)
          void flushes.wait(last, one.timeoutMs).then((result) => {
            waiter.result = result
            expect(result).toEqual({ delivered: delivered(), failed: failed() })
          })
        } else if (one.do === 'pass') await vi.advanceTimersByTimeAsync(one.ms)
        await Promise.resolve()
        for (const { expected, result, isTimed } of waiting) {
          const isDone = expected.sequences.every((sequence) => outcomes.has(sequence))
          if (isDone) expect(result).toBeDefined()
          else if (!isTimed) expect(result).toBeUndefined()
        }
      }
      flushes.end(last)()
      await Promise.resolve()
      expect(waiting.every(({ result }) => result !== undefined)).toBe(true)
    }),
    { numRuns: 500 },
  )
})

test('a caller does not wait for messages that were left to another process before', async () => {
  const flushes = new Flushes()
  flushes.accepted(3)
  const before = flushes.wait(3, Infinity)
  flushes.settled(2, 'delivered')
  flushes.end(3)()
  flushes.accepted(2)
  const after = flushes.wait(5, Infinity)
  flushes.settled(4, 'failed')
  flushes.settled(5, 'delivered')
  expect(await before).toEqual({ delivered: 1, failed: 0 })
  expect(await after).toEqual({ delivered: 1, failed: 1 })
})

test('an outcome that comes after all counts for nobody who waits for later messages', async () => {
  const flushes = new Flushes()
  flushes.accepted(2)
  flushes.end(2)()
  flushes.settled(1, 'failed')
  flushes.accepted(1)
  const waiting = flushes.wait(3, Infinity)
  flushes.settled(2, 'failed')
  flushes.settled(3, 'delivered')
  expect(await waiting).toEqual({ delivered: 1, failed: 0 })
})

test('a caller that comes while losses are told waits for what was recorded meanwhile', async () => {
  const flushes = new Flushes()
  flushes.accepted(2)
  const before = flushes.wait(2, Infinity)
  const release = flushes.end(2)
  flushes.settled(1, 'failed')
  flushes.accepted(1)
  const after = vi.fn()
  const waiting = flushes.wait(3, Infinity).then(after)
  release()
  expect(await before).toEqual({ delivered: 0, failed: 1 })
  expect(after).not.toHaveBeenCalled()
  flushes.settled(3, 'delivered')
  await waiting
  expect(after).toHaveBeenCalledWith({ delivered: 1, failed: 0 })
})

test(
  '100,000 callers in an outage each get the outcome of their own messages',
  { tags: 'long' },
  async () => {
    const net = scriptedFetch(503)
    const analytics = createClient(net, { flushAt: 1_000_000 })
    const results: Promise<unknown>[] = []
    for (let i = 0; i < 100_000; i++) {
      trackMany(analytics, 1, i)
      results.push(analytics.flush())
    }
    await turns()
    const settled = await Promise.all(results)
    expect(settled[0]).toEqual({ delivered: 1, failed: 0 })
    expect(settled[99_999]).toEqual({ delivered: 100_000, failed: 0 })
  },
)

test('each caller holds the process until it has its result', async () => {
  const hold = new Hold()
  const log = () => undefined
  const later = (act: () => void) => {
    act()
  }
  const books = new Books({
    log,
    teller: new Teller({ onFailed: log, onDelivered: undefined, logger: undefined }, log, later),
    later,
    onSettled: () => undefined,
    onEmpty: () => undefined,
    hold,
  })
  const give = () => {
    const { nextSequence: sequence } = books
    books.accept(0)
    return { sequence, slab: new Uint8Array(), start: 0, end: 0, callback: undefined }
  }
  const lose = (entry: Entry) => {
    books.lost('dropped', [entry], new DroppedError('queue_full', 'It was full.'))
  }

  const first = give()
  void books.settled(Infinity, false)
  expect(hold.isHeld).toBe(false)
  const resultOfFirst = books.settled(Infinity)
  const second = give()
  const resultOfBoth = books.settled(60_000)
  expect(hold.isHeld).toBe(true)
  lose(first)
  expect(await resultOfFirst).toEqual({ delivered: 0, failed: 1 })
  expect(hold.isHeld).toBe(true)
  lose(second)
  expect(await resultOfBoth).toEqual({ delivered: 0, failed: 2 })
  expect(hold.isHeld).toBe(false)
})
