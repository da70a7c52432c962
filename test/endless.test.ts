import { expect, test, vi } from 'vitest'
import type { Analytics, AnalyticsOptions, Callback } from '../src/index.js'
import { createClient, scriptedFetch, turns } from './collector.js'

const call = { userId: 'u', event: 'e' }
const large = { ...call, properties: { note: 'x'.repeat(20_000) } }

const trackOne = (analytics: Analytics) => {
  analytics.track(call)
}

interface Case {
  options?: AnalyticsOptions
  /** Leads to the first loss. */
  begin: (analytics: Analytics) => unknown
  record?: (analytics: Analytics, callback?: Callback) => void
  /** What is told, in the order of the losses. */
  told: string[]
}

/** What a client refuses or drops inside the call. */
const CASES: Record<string, Case> = {
  'after close()': {
    begin: async (analytics) => {
      await analytics.close()
      analytics.track(call)
    },
    told: Array<string>(10).fill('closed'),
  },
  'by a full queue': {
    options: { maxQueueBytes: 32_768, flushAt: 1_000 },
    begin: (analytics) => {
      analytics.track(large)
      analytics.track(large)
    },
    record: (analytics) => {
      analytics.track(large)
    },
    told: Array<string>(10).fill('queue_full'),
  },
  'because beforeSend fails': {
    options: {
      beforeSend: () => {
        throw new Error('not today')
      },
    },
    begin: (analytics) => {
      analytics.track(call)
    },
    told: Array<string>(10).fill('before_send'),
  },
  'as invalid': {
    options: { onInvalid: 'report' },
    begin: (analytics) => {
      analytics.track({} as typeof call)
    },
    record: (analytics) => {
      analytics.track({} as typeof call)
    },
    told: Array<string>(10).fill('invalid_message'),
  },
}

test.each(Object.entries(CASES))(
  'an onFailed that records a message which is lost %s, each time, comes to an end',
  async (_, { options, begin, record = trackOne, told }) => {
    const heard: string[] = []
    const warn = vi.fn()
    const analytics: Analytics = createClient(scriptedFetch('hang'), {
      ...options,
      logger: { debug: () => undefined, warn },
      onFailed: ({ error }) => {
        heard.push(error.code)
        record(analytics)
      },
    })
    await begin(analytics)
    for (let more = 0; more < 5; more++) await turns()
    expect(heard).toEqual(told)
    expect(warn).toHaveBeenCalledTimes(1)
    expect(warn.mock.calls[0]?.[0]).toContain(
      'that no callback and no onFailed is told of. A callback or onFailed recorded a message at each of 10 losses in a row. ',
    )
    const { accepted, delivered, rejected, dropped, pending } = analytics.stats()
    expect(accepted).toBe(delivered + rejected + dropped + pending)
    // The next loss is told again.
    record(analytics)
    await turns()
    expect(heard.length).toBeGreaterThan(10)
  },
)

test(
  'an onFailed that records several messages at each loss keeps the process busy for a bounded time',
  {
    tags: 'long',
  },
  async () => {
    let told = 0
    let turn = 0
    let most = 0
    const warn = vi.fn()
    const analytics: Analytics = createClient(scriptedFetch(), {
      logger: { debug: () => undefined, warn },
      onFailed: ({ messages }) => {
        told += messages.length
        turn += messages.length
        for (let n = 0; n < 5 * messages.length; n++) analytics.track(call)
      },
    })
    await analytics.close()
    analytics.track(call)
    for (let more = 0; more < 20; more++) {
      turn = 0
      await new Promise(setImmediate)
      most = Math.max(most, turn)
    }
    expect(most).toBeLessThanOrEqual(10_000)
    expect(told).toBeGreaterThan(10_000)
    expect(told).toBeLessThanOrEqual(100_000)
    const { accepted, dropped } = analytics.stats()
    expect(dropped).toBe(accepted)
    expect(warn).toHaveBeenCalledTimes(1)
    expect(warn.mock.calls[0]?.[0]).toContain('so many messages that 10000 losses wait to be told')
    analytics.track(call)
    await turns()
    expect(told).toBeLessThan(200_000)
  },
)

test('a callback that records again what a disabled client drops comes to an end', async () => {
  let heard = 0
  const analytics = createClient(scriptedFetch(), {
    disabled: true,
    logger: { debug: () => undefined, warn: () => undefined },
  })
  const again = () => {
    heard++
    analytics.track(call, again)
  }
  analytics.track(call, again)
  for (let more = 0; more < 5; more++) await turns()
  expect(heard).toBe(10)
  expect(analytics.stats()).toMatchObject({ accepted: 11, dropped: 11 })
})

test('a deliver() whose loss nobody else is told of gets it as its outcome', async () => {
  const outcomes: (string | undefined)[] = []
  const analytics: Analytics = createClient(scriptedFetch(), {
    logger: { debug: () => undefined, warn: () => undefined },
    onFailed: () => {
      void analytics.deliver('track', call).then(({ error }) => outcomes.push(error?.code))
    },
  })
  await analytics.close()
  analytics.track(call)
  for (let more = 0; more < 5; more++) await turns()
  expect(outcomes).toEqual(Array(10).fill('closed'))
})

test('what pushes the oldest out of a full queue spares those that nobody would be told of', async () => {
  const lost = new Set<string>()
  const analytics: Analytics = createClient(scriptedFetch('hang'), {
    maxQueueBytes: 70_000,
    flushAt: 1_000,
    overflow: 'drop-oldest',
    logger: { debug: () => undefined, warn: () => undefined },
    onFailed: ({ messages }) => {
      for (const { messageId } of messages) lost.add(String(messageId))
      analytics.track({ ...large, messageId: `hook-${lost.size}` })
    },
  })
  for (let n = 0; n < 4; n++) analytics.track({ ...large, messageId: `own-${n}` })
  for (let more = 0; more < 5; more++) await turns()
  const { pending, dropped } = analytics.stats()
  expect({ pending, dropped, told: lost.size }).toEqual({ pending: 3, dropped: 11, told: 10 })
})
