import { Agent } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { createTestAnalytics } from '../src/testing.js'
import { useFakeClock } from './collector.js'

/** As Jest fakes them: promises alone are left. */
const ALL_TIMERS = [
  ...(['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const),
  ...(['setImmediate', 'clearImmediate', 'queueMicrotask', 'Date', 'performance'] as const),
]

const track = { userId: 'u1', event: 'Order Completed', properties: { total: 42 } }

describe('createTestAnalytics', () => {
  test('captures what was delivered, by type and in order', async () => {
    const { analytics, messages } = createTestAnalytics()
    analytics.identify({ userId: 'u1', traits: { plan: 'pro' } })
    analytics.track(track)
    analytics.page({ anonymousId: 'a1', name: 'Home', traits: { path: '/' } })
    analytics.screen({ anonymousId: 'a1', name: 'Main' })
    analytics.group({ userId: 'u1', groupId: 'g1' })
    analytics.alias({ userId: 'u1', previousId: 'a1' })
    expect(messages.all).toEqual([])
    expect(await analytics.flush()).toEqual({ delivered: 6, failed: 0 })
    expect(messages.all.map(({ type }) => type)).toEqual([
      ...['identify', 'track', 'page', 'screen', 'group', 'alias'],
    ])
    expect(messages.identify).toMatchObject([{ userId: 'u1', traits: { plan: 'pro' } }])
    expect(messages.track).toMatchObject([track])
    expect(messages.page).toMatchObject([{ name: 'Home', properties: { path: '/' } }])
    expect(messages.screen).toMatchObject([{ name: 'Main' }])
    expect(messages.group).toMatchObject([{ groupId: 'g1' }])
    expect(messages.alias).toMatchObject([{ previousId: 'a1' }])
  })

  test('takes the options of production, of which those of the network have no effect', async () => {
    const fetch = vi.fn()
    const production = { flushAt: 5, agent: new Agent(), fetch, gzip: true }
    const { analytics, messages } = createTestAnalytics(production)
    analytics.track(track)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(messages.track).toMatchObject([track])
    expect(fetch).not.toHaveBeenCalled()
  })

  test('lets each of the next requests meet its fault, and retries without delay', async () => {
    useFakeClock()
    const { analytics, messages, requests, fail } = createTestAnalytics()
    fail(503, 'reset', 'timeout', { status: 429, headers: { 'X-Why': 'busy' }, body: 'later' })
    analytics.track(track)
    const flushed = analytics.flush()
    // The clock stands still but for what falls due within 10 ms, twice for each retry at most.
    for (let step = 0; step < 20; step++) {
      await vi.advanceTimersByTimeAsync(10)
      await new Promise(setImmediate)
    }
    expect(await flushed).toEqual({ delivered: 1, failed: 0 })
    vi.useRealTimers()
    expect(requests.map(({ outcome }) => outcome)).toEqual([503, 'reset', 'timeout', 429, 200])
    expect(requests.map(({ headers }) => headers['X-Retry-Count'])).toEqual([
      ...[undefined, '1', '2', '3', '4'],
    ])
    expect(messages.track).toHaveLength(1)
  })

  test.each([['Date'], [undefined]])('is not stopped by fake timers: %s', async (some) => {
    vi.useFakeTimers(some ? {} : { toFake: ALL_TIMERS })
    try {
      const { analytics, messages, fail } = createTestAnalytics()
      const callback = vi.fn()
      fail(503, 'reset')
      analytics.track(track, callback)
      expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
      expect(callback).toHaveBeenCalledWith(undefined)
      analytics.track(track)
      vi.advanceTimersByTime(5_000)
      await Promise.resolve()
      expect(await analytics.deliver('track', track)).toEqual({ delivered: true })
      expect(await analytics.close()).toEqual({ delivered: 3, failed: 0 })
      expect(messages.track).toHaveLength(3)
    } finally {
      vi.useRealTimers()
    }
  })

  test.each([
    ['reset', [3, 3, 1, 2]],
    ['timeout', [3, 2, 1, 1, 1]],
  ] as const)('takes a %s for one, so that the batch is tried in pieces', async (fault, sizes) => {
    const { analytics, requests, fail } = createTestAnalytics()
    fail(fault, fault)
    for (const event of ['a', 'b', 'c']) analytics.track({ ...track, event })
    expect(await analytics.flush()).toEqual({ delivered: 3, failed: 0 })
    expect(requests.map(({ messages }) => messages.length)).toEqual(sizes)
  })

  test('captures nothing of what was refused', async () => {
    const { analytics, messages, fail } = createTestAnalytics({ maxRetries: 0 })
    const callback = vi.fn()
    fail(403)
    analytics.track(track, callback)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
    expect(callback).toHaveBeenCalledWith(
      expect.objectContaining({ code: 'rejected', status: 403 }),
    )

    const body = JSON.stringify({ rejected: [{ index: 1, code: 'bad', message: 'no' }] })
    fail({ status: 200, body })
    analytics.track({ ...track, event: 'kept' })
    analytics.track({ ...track, event: 'refused' })
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 1 })
    expect(messages.track.map(({ event }) => event)).toEqual(['kept'])
  })

  test('validates as in production, and takes its options', () => {
    const { analytics } = createTestAnalytics({ onInvalid: 'report' })
    expect(() => {
      analytics.track({ userId: '', event: 'e' })
    }).not.toThrow()
    // @ts-expect-error -- as a caller without types
    expect(() => createTestAnalytics({ flushInterval: 1 })).toThrow('Did you mean flushAfter?')
  })

  test('captures once what was sent again, since the answer ended inside of its list', async () => {
    const { analytics, messages, requests, fail } = createTestAnalytics()
    fail({ status: 200, body: '{ "rejected": [{ "index": 0' })
    for (const event of ['a', 'b']) analytics.track({ ...track, event })
    expect(await analytics.flush()).toEqual({ delivered: 2, failed: 0 })
    expect(requests[0]?.messages).toHaveLength(2)
    expect(messages.all.map(({ event }) => event)).toEqual(['a', 'b'])
  })

  test.each(['rest', 'toString', 0, 99, 600, 1.5, NaN, undefined, {}, { status: 'reset' }])(
    'refuses %o, which is no fault',
    (fault) => {
      const { fail } = createTestAnalytics()
      expect(() => {
        fail(503, fault as never)
      }).toThrow(/^fail\(\) takes statuses from 200 to 599, 'reset', 'timeout', or answers .* got /)
    },
  )

  test.each([
    [{ status: 200, header: {} }, 'got header: '],
    [{ status: 200, headers: new Headers({ 'Retry-After': '30' }) }, 'got headers: '],
    [{ status: 200, body: { rejected: [] } }, 'got body: '],
  ])('refuses %o, of which it would use a part', (answer, problem) => {
    const { fail } = createTestAnalytics()
    const failing = () => {
      fail(answer as never)
    }
    expect(failing).toThrow(TypeError)
    expect(failing).toThrow(problem)
  })

  test('a page of HTML with a 2xx status delivers nothing, as in production', async () => {
    const { analytics, messages, requests, fail } = createTestAnalytics()
    fail({ status: 200, body: '<!doctype html><title>Sign in</title>' })
    analytics.track(track)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
    expect(requests).toHaveLength(2)
    expect(messages.all).toHaveLength(1)
  })

  test('forgets everything on reset, faults included', async () => {
    const { analytics, messages, requests, fail, reset } = createTestAnalytics()
    analytics.track(track)
    await analytics.flush()
    fail(403)
    reset()
    expect(messages.all).toEqual([])
    expect(requests).toEqual([])
    analytics.track(track)
    expect(await analytics.flush()).toEqual({ delivered: 1, failed: 0 })
  })
})
