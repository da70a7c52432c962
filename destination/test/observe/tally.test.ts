import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { DestinationQueue } from '../../src/deliver/destination-queue.js'
import type { BreakerState } from '../../src/model/answers.js'
import type { HistoryCounts } from '../../src/model/history.js'
import type { Outcome, OutcomeCode } from '../../src/model/outcome.js'
import { Tally } from '../../src/observe/tally.js'
import { StoreError } from '../../src/store/store-error.js'

const URL = 'https://a.example.com/'

function make() {
  const saved: HistoryCounts[][] = []
  let failure: Error | undefined
  let state: BreakerState = 'closed'
  const store = {
    addHistory: (counts: HistoryCounts[]) => {
      if (failure) return Promise.reject(failure)
      saved.push(counts)
      return Promise.resolve()
    },
  }
  const queue = {
    destination: { name: 'crm' },
    endpoints: [
      {
        endpoint: { url: URL },
        breaker: {
          get state() {
            return state
          },
        },
      },
    ],
  }
  const tally = new Tally(store, () => [queue as unknown as DestinationQueue])
  return {
    tally,
    saved,
    fail: (error: Error | undefined) => {
      failure = error
    },
    open: () => {
      state = 'open'
    },
    end: (code: OutcomeCode, url = URL, ms = 10) => {
      tally.attempted({ destination: 'crm' }, [{ url, outcome: { code, ms } as Outcome }])
    },
  }
}

describe('the tally', () => {
  test('saves what happened since the last time, and nothing twice', async () => {
    const { tally, saved, end } = make()
    end('delivered')
    end('server_error')
    end('endpoint_busy')
    await tally.save()
    await tally.save()
    end('delivered')
    await tally.stop()
    expect(saved.map(([counts]) => counts)).toMatchObject([
      { destination: 'crm', url: URL, delivered: 1, failed: 1, busy: 1, breaker: 'closed' },
      { delivered: 1, failed: 0, busy: 0 },
    ])
    expect(saved[0]?.[0]?.bins.reduce((sum, count) => sum + count, 0)).toBe(2)
  })

  test('saves every 10 seconds', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const { tally, saved, end } = make()
    tally.start()
    end('delivered')
    await vi.advanceTimersByTimeAsync(9_999)
    expect(saved).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect(saved).toMatchObject([[{ delivered: 1 }]])
    await tally.stop()
  })

  test('adds up endpoints whose URLs differ only in their queries, which may be keys', async () => {
    const { tally, saved, end } = make()
    end('delivered', `${URL}?key=a`)
    end('delivered', `${URL}?key=b`)
    await tally.save()
    expect(saved).toMatchObject([[{ url: URL, delivered: 2 }]])
  })

  test('keeps what the store could not take, and saves it later with what came meanwhile', async () => {
    const { tally, saved, end, fail } = make()
    fail(new StoreError('failed', 'The store is away.', { isUnreachable: true }))
    end('delivered')
    await tally.save()
    end('timeout')
    fail(undefined)
    await tally.save()
    expect(saved).toMatchObject([[{ delivered: 1, failed: 1 }]])
  })

  test('does not save again what the store may have taken', async () => {
    const { tally, saved, end, fail } = make()
    fail(new StoreError('failed', 'The answer was lost.', { isUnsure: true }))
    end('delivered')
    await tally.save()
    end('timeout')
    fail(undefined)
    await tally.save()
    expect(saved).toMatchObject([[{ delivered: 0, failed: 1 }]])
  })

  test('records that a breaker is open although nothing was sent', async () => {
    const { tally, saved, open } = make()
    await tally.save()
    open()
    await tally.save()
    expect(saved).toMatchObject([[{ delivered: 0, failed: 0, breaker: 'open' }]])
  })
})
