import { describe, expect, test, vi } from 'vitest'
import { createClient, scriptedFetch, trackMany, turns, useFakeClock } from './collector.js'
import { temporary } from './spool/directory.js'

describe('waitUntil', () => {
  test('gets one promise for the calls of a turn, which ends with their delivery', async () => {
    useFakeClock()
    const net = scriptedFetch(503)
    const promises: Promise<unknown>[] = []
    const analytics = createClient(net, {
      waitUntil: (promise) => {
        promises.push(promise)
      },
    })
    trackMany(analytics, 3)
    expect(promises).toHaveLength(1)
    let isDone = false
    void promises[0]?.then(() => (isDone = true))
    await turns()
    expect(net.arrivals).toHaveLength(1)
    trackMany(analytics, 1, 3)
    expect(promises).toHaveLength(2)
    await turns()
    expect(isDone).toBe(false)
    await vi.advanceTimersByTimeAsync(1_000)
    await turns()
    expect(isDone).toBe(true)
    expect(analytics.stats()).toMatchObject({ delivered: 4, pending: 0 })
    trackMany(analytics, 1, 4)
    expect(promises).toHaveLength(3)
  })

  test('waits 30 s at the most, and a later call starts it again', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    let isDone = false
    const analytics = createClient(net, {
      waitUntil: (promise) => {
        isDone = false
        void promise.then(() => (isDone = true))
      },
    })
    trackMany(analytics, 1)
    await turns()
    await vi.advanceTimersByTimeAsync(29_000)
    await turns()
    expect(isDone).toBe(false)
    await vi.advanceTimersByTimeAsync(1_000)
    await turns()
    expect(isDone).toBe(true)
    trackMany(analytics, 1)
    expect(isDone).toBe(false)
  })

  test('covers each message until its outcome, also those of a request that comes late in the time of another one', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise(503)
    const done: string[] = []
    let request = ''
    const analytics = createClient(net, {
      waitUntil: (promise) => {
        const own = request
        void promise.then(() => done.push(own))
      },
    })
    request = 'first'
    trackMany(analytics, 1)
    await turns()
    await vi.advanceTimersByTimeAsync(29_900)
    await turns()
    request = 'second'
    trackMany(analytics, 1, 1)
    await vi.advanceTimersByTimeAsync(100)
    await turns()
    expect(done).toEqual(['first'])
    net.otherwise(200)
    await vi.advanceTimersByTimeAsync(29_000)
    await turns()
    expect(done).toEqual(['first', 'second'])
    expect(analytics.stats()).toMatchObject({ delivered: 2, pending: 0 })
  })

  test('ends with close(), which leaves the messages in the spool', async () => {
    const net = scriptedFetch()
    net.otherwise(503)
    const promises: Promise<unknown>[] = []
    const analytics = createClient(net, {
      waitUntil: (promise) => void promises.push(promise),
      spool: { directory: temporary() },
    })
    trackMany(analytics, 3)
    await turns()
    await analytics.close({ timeout: 0 })
    // A loop that waits for the messages would never let go of this turn.
    await Promise.all(promises)
    expect(analytics.stats()).toMatchObject({ delivered: 0, pending: 3 })
  })

  test('that throws breaks nothing', async () => {
    const analytics = createClient(scriptedFetch(), {
      waitUntil: () => {
        throw new Error('no request')
      },
    })
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  })
})
