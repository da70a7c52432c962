import { describe, expect, test } from 'vitest'
import { createClient, scriptedFetch, trackMany } from './collector.js'

describe('deliver()', () => {
  const message = { userId: 'u', event: 'e' }

  test('sends at once, and resolves with the outcome', async () => {
    const net = scriptedFetch(200, 403)
    const analytics = createClient(net, { onFailed: () => undefined })
    expect(await analytics.deliver('track', message)).toEqual({ delivered: true })
    const { delivered, error } = await analytics.deliver('identify', { userId: 'u' })
    expect(delivered).toBe(false)
    expect(error).toMatchObject({ code: 'rejected', status: 403 })
    expect(net.arrivals).toHaveLength(2)
  })

  test('takes along what was recorded before, in order', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 2)
    await analytics.deliver('track', { ...message, event: 'last' })
    expect(net.arrivals.map(({ messages }) => messages.map(({ event }) => event))).toEqual([
      ['e0', 'e1', 'last'],
    ])
  })

  test('rejects where the call would throw', async () => {
    const analytics = createClient(scriptedFetch())
    await expect(analytics.deliver('track', { userId: '', event: 'e' })).rejects.toMatchObject({
      code: 'invalid_message',
      field: 'userId',
    })
    // @ts-expect-error -- as a caller without types
    await expect(analytics.deliver('tracks', message)).rejects.toMatchObject({ field: 'type' })
  })

  test('resolves with every mistake where the call would not throw', async () => {
    const codes: string[] = []
    const analytics = createClient(scriptedFetch(), {
      onInvalid: 'report',
      onFailed: ({ error }) => codes.push(error.code),
    })
    for (const type of ['tracks', undefined, Symbol('track'), Object.create(null)]) {
      expect(await analytics.deliver(type as 'track', message)).toMatchObject({
        delivered: false,
        error: { code: 'invalid_message', field: 'type' },
      })
    }
    expect(codes).toEqual(Array(4).fill('invalid_message'))
  })

  test('after close() resolves with the reason', async () => {
    const analytics = createClient(scriptedFetch(), { onFailed: () => undefined })
    await analytics.close()
    expect(await analytics.deliver('track', message)).toMatchObject({
      delivered: false,
      error: { code: 'closed' },
    })
  })
})
