import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Rounds } from '../../../src/store/postgres/rounds.js'

const PAUSE_MS = 5

describe('rounds with a pause', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate', 'performance'] })
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  /** Rounds that take no time, and the size of each with the time at which it ran. */
  function setUp() {
    const ran: [atMs: number, size: number][] = []
    const begin = performance.now()
    const run = (items: number[]) => {
      ran.push([performance.now() - begin, items.length])
      return Promise.resolve(items)
    }
    const rounds = new Rounds(run, 1_000, () => false, PAUSE_MS)
    return { ran, ask: (count: number) => rounds.ask(Array.from({ length: count }, (_, n) => n)) }
  }

  test('start at once, and then at least the pause apart, with all that came meanwhile', async () => {
    const { ran, ask } = setUp()
    void ask(1)
    await vi.advanceTimersByTimeAsync(1)
    const all = [ask(1), ask(2)]
    await vi.advanceTimersByTimeAsync(1)
    all.push(ask(3))
    await vi.advanceTimersByTimeAsync(PAUSE_MS)
    expect(ran).toEqual([
      [0, 1],
      [PAUSE_MS, 6],
    ])
    expect(await Promise.all(all)).toEqual([[0], [0, 1], [0, 1, 2]])
    await vi.advanceTimersByTimeAsync(PAUSE_MS)
    void ask(1)
    await vi.advanceTimersByTimeAsync(0)
    expect(ran).toHaveLength(3)
  })

  test('that are large start at once', async () => {
    const { ran, ask } = setUp()
    void ask(1)
    await vi.advanceTimersByTimeAsync(1)
    void ask(256)
    await vi.advanceTimersByTimeAsync(1)
    expect(ran.map(([, size]) => size)).toEqual([1, 256])
  })
})
