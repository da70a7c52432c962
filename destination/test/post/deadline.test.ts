import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Deadline, type Timed } from '../../src/post/deadline.js'

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['performance', 'setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate'],
  })
})
afterEach(() => {
  vi.useRealTimers()
})

function start(deadline: Deadline, expired: string[], name: string): Timed {
  const timed = { startedAt: performance.now(), expire: () => expired.push(name) }
  deadline.add(timed)
  return timed
}

test('each expires once, in the order of its start, never early and at most 50 ms late', () => {
  const deadline = new Deadline(5_000)
  const late: number[] = []
  for (let i = 0; i < 1_000; i++) {
    const startedAt = performance.now()
    deadline.add({
      startedAt,
      expire: () => late.push(performance.now() - startedAt - 5_000),
    })
    vi.advanceTimersByTime(7)
  }
  vi.advanceTimersByTime(6_000)
  expect(late).toHaveLength(1_000)
  expect(Math.min(...late)).toBeGreaterThanOrEqual(0)
  expect(Math.max(...late)).toBeLessThanOrEqual(51)
})

test('what has ended does not expire', () => {
  const deadline = new Deadline(5_000)
  const expired: string[] = []
  const ended = start(deadline, expired, 'ended')
  start(deadline, expired, 'late')
  deadline.delete(ended)
  vi.advanceTimersByTime(20_000)
  expect(expired).toEqual(['late'])
})

test('one timer serves all, and none is left when nothing is under way', () => {
  const deadline = new Deadline(5_000)
  const all = Array.from({ length: 100 }, (_, i) => start(deadline, [], String(i)))
  expect(vi.getTimerCount()).toBe(1)
  for (const timed of all) deadline.delete(timed)
  vi.advanceTimersByTime(5_001)
  expect(vi.getTimerCount()).toBe(0)
})

test('what starts while another expires gets its whole time', () => {
  const deadline = new Deadline(5_000)
  const expired: string[] = []
  const startedAt = performance.now()
  deadline.add({ startedAt, expire: () => start(deadline, expired, 'second') })
  vi.advanceTimersByTime(5_010)
  expect(expired).toEqual([])
  vi.advanceTimersByTime(5_100)
  expect(expired).toEqual(['second'])
})

test('an answer that was read in the turn in which the time ran out counts', () => {
  const deadline = new Deadline(5_000)
  const expired: string[] = []
  const timed = start(deadline, expired, 'answered')
  // One turn of the event loop runs timers first, then reads sockets, then runs immediates.
  setTimeout(() => {
    deadline.delete(timed)
  }, 5_000)
  vi.advanceTimersByTime(6_000)
  expect(expired).toEqual([])
})
