import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Settlement } from '../../../src/model/delivery.js'
import type { RunAll, RunQuery } from '../../../src/store/postgres/connection.js'
import { Rounds } from '../../../src/store/postgres/rounds.js'
import { SettleRounds } from '../../../src/store/postgres/settle-rounds.js'
import { StoreError } from '../../../src/store/store-error.js'

const PAUSE_MS = 5

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setImmediate', 'performance'] })
})

afterEach(() => {
  vi.useRealTimers()
})

describe('rounds with a pause', () => {
  /** Rounds that take no time, and the size of each with the time at which it ran. */
  function setUp() {
    const ran: [atMs: number, size: number][] = []
    const begin = performance.now()
    const run = (items: number[]) => {
      ran.push([performance.now() - begin, items.length])
      return Promise.resolve(items)
    }
    const rounds = new Rounds(run, () => false, PAUSE_MS)
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

  test('start without it for a call that has no items, also if it has begun', async () => {
    const { ran, ask } = setUp()
    void ask(1)
    await vi.advanceTimersByTimeAsync(1)
    void ask(2)
    await vi.advanceTimersByTimeAsync(2)
    void ask(0)
    await vi.advanceTimersByTimeAsync(0)
    void ask(3)
    void ask(0)
    await vi.advanceTimersByTimeAsync(0)
    expect(ran).toEqual([
      [0, 1],
      [3, 2],
      [3, 3],
    ])
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

describe('a claim beside rounds of settlements', () => {
  const CLAIM = 'claim'
  const SETTLE = 'settle'
  const one = {} as Settlement

  /** Rounds on a server that takes `ms` for each transaction, and what it carried out, each transaction in a list. */
  function setUp({ ms = 10, failure }: { ms?: number; failure?: Error } = {}) {
    const ran: string[][] = []
    const take = async (texts: string[]) => {
      ran.push(texts)
      await new Promise((resolve) => setTimeout(resolve, ms))
      if (texts.length > 1 && failure) throw failure
      return texts.map((text) => [text])
    }
    const preparedAll = ((all) => take(all.map(({ text }) => text))) as RunAll
    const prepared = (async (text) => (await take([text])).flat()) as RunQuery
    const settle = async (settlements: Settlement[], run = preparedAll) => {
      if (settlements.length > 0)
        await run([{ text: SETTLE }]).catch((error: unknown) => {
          if ((error as StoreError).isUnreachable) throw error
          return preparedAll([{ text: SETTLE }])
        })
      return settlements.map(() => 'taken' as const)
    }
    const rounds = new SettleRounds({ prepared, preparedAll }, settle)
    return { ran, ask: () => rounds.ask([one]), join: () => rounds.join(CLAIM, []) }
  }

  test('is in the transaction of a round that is wanted at the same time', async () => {
    const { ran, ask, join } = setUp()
    const both = Promise.all([ask(), join()])
    await vi.advanceTimersByTimeAsync(10)
    expect(await both).toEqual([['taken'], [CLAIM]])
    expect(ran).toEqual([[SETTLE, CLAIM]])
  })

  test('waits for the round that is under way, and brings the next one forward', async () => {
    const { ran, ask, join } = setUp()
    void ask()
    await vi.advanceTimersByTimeAsync(1)
    void ask()
    void join()
    await vi.advanceTimersByTimeAsync(10)
    expect(ran).toEqual([[SETTLE], [SETTLE, CLAIM]])
  })

  test('is carried out at once where no round is wanted, where another one waits, and where none follows', async () => {
    const { ran, ask, join } = setUp()
    void join()
    expect(ran).toEqual([[CLAIM]])
    void ask()
    await vi.advanceTimersByTimeAsync(1)
    void join()
    void join()
    expect(ran).toEqual([[CLAIM], [SETTLE], [CLAIM]])
    await vi.advanceTimersByTimeAsync(10)
    expect(ran).toEqual([[CLAIM], [SETTLE], [CLAIM], [CLAIM]])
  })

  test('waits 50 ms at most for a round that takes long', async () => {
    const { ran, ask, join } = setUp({ ms: 2_000 })
    void ask()
    await vi.advanceTimersByTimeAsync(1)
    void ask()
    void join()
    await vi.advanceTimersByTimeAsync(49)
    expect(ran).toEqual([[SETTLE]])
    await vi.advanceTimersByTimeAsync(1)
    expect(ran).toEqual([[SETTLE], [CLAIM]])
    await vi.advanceTimersByTimeAsync(2_000)
    expect(ran).toEqual([[SETTLE], [CLAIM], [SETTLE]])
  })

  test('is carried out alone, as the settlements are, if their transaction fails', async () => {
    const { ran, ask, join } = setUp({ failure: new StoreError('failed', 'refused') })
    const both = Promise.all([ask(), join()])
    await vi.advanceTimersByTimeAsync(20)
    expect(await both).toEqual([['taken'], [CLAIM]])
    expect(ran).toEqual([[SETTLE, CLAIM], [CLAIM], [SETTLE]])
  })

  test('fails with the settlements if the server is away', async () => {
    const failure = new StoreError('failed', 'cut', { isUnreachable: true })
    const { ran, ask, join } = setUp({ failure })
    const both = Promise.allSettled([ask(), join()])
    await vi.advanceTimersByTimeAsync(10)
    expect(await both).toMatchObject([{ reason: failure }, { reason: failure }])
    expect(ran).toHaveLength(1)
  })
})
