import { onTestFinished, describe, expect, test, vi } from 'vitest'
import {
  createClient,
  events,
  names,
  scriptedFetch,
  startCollector,
  trackMany,
  turns,
} from './collector.js'

/** A client whose losses nobody hears of. */
const loud: typeof createClient = (to, options) =>
  createClient(to, { onFailed: undefined, ...options })

function warnings(): { text: string; type: string; code: string }[] {
  const heard: { text: string; type: string; code: string }[] = []
  const spy = vi.spyOn(process, 'emitWarning').mockImplementation(((
    text: string,
    options: { type: string; code: string },
  ) => {
    heard.push({ text, ...options })
  }) as typeof process.emitWarning)
  onTestFinished(() => {
    spy.mockRestore()
  })
  return heard
}

describe('without onFailed, the first loss of each kind is a process warning', () => {
  test('with the cause and the fix: a wrong write key', async () => {
    const heard = warnings()
    const net = scriptedFetch()
    net.otherwise({ status: 401, body: 'unknown key wk_secret' })
    const analytics = loud(net)
    trackMany(analytics, 100)
    expect(await analytics.close()).toEqual({ delivered: 0, failed: 100 })
    expect(heard).toEqual([
      {
        text: expect.stringMatching(
          /a message was lost \(rejected 401\)\. The endpoint answered 401\. Check the write key\..*onFailed: \(\) => \{\} to silence/,
        ) as string,
        type: 'HooklineWarning',
        code: 'rejected',
      },
    ])
    expect(heard[0]?.text).not.toContain('wk_secret')
  })

  test('with what the endpoint did, if the time of close() is up', async () => {
    for (const [answer, why] of [
      [{ status: 503, body: 'wk_secret' }, 'the endpoint answered 503'],
      [{ status: 407, body: 'wk_secret' }, 'the proxy answered 407'],
      [new Error('connect ECONNREFUSED'), 'connect ECONNREFUSED'],
    ] as const) {
      const heard = warnings()
      const net = scriptedFetch()
      net.otherwise(answer)
      const analytics = loud(net)
      trackMany(analytics, 1)
      await analytics.close({ timeout: 20 })
      expect(heard[0]?.text).toContain('(close_timeout). close() ran out of time after 20 ms')
      expect(heard[0]?.text).toContain(`The last attempt failed: ${why}`)
      expect(heard[0]?.text).not.toContain('wk_secret')
    }
  })

  test('once for each status', async () => {
    const heard = warnings()
    const analytics = loud(scriptedFetch(401, 404, 401, 404), { flushAt: 1 })
    for (let i = 0; i < 4; i++) {
      trackMany(analytics, 1)
      await analytics.flush()
    }
    expect(heard.map(({ text }) => /\((.+?)\)/.exec(text)?.[1])).toEqual([
      'rejected 401',
      'rejected 404',
    ])
  })

  test.each([
    ['queue_full', { maxQueueBytes: 1 }],
    ['close_timeout', {}],
    ['retries_exhausted', { maxRetries: 0 }],
    [
      'before_send',
      {
        beforeSend: () => {
          throw new Error('secret')
        },
      },
    ],
  ] as const)('%s', async (code, options) => {
    const heard = warnings()
    const net = scriptedFetch()
    net.otherwise(503)
    const analytics = loud(net, options)
    trackMany(analytics, 3)
    await turns()
    await analytics.close({ timeout: code === 'close_timeout' ? 0 : 1_000 })
    expect(heard.map((warning) => warning.code)).toEqual([code])
    expect(heard[0]?.text).not.toContain('secret')
  })

  test('an invalid call and a call after close(), with onInvalid report', async () => {
    const heard = warnings()
    const analytics = loud(scriptedFetch(), { onInvalid: 'report' })
    Reflect.apply(analytics.track.bind(analytics), undefined, [
      { userId: 'u', event: 'e', timestamp: 'secret' },
    ])
    await analytics.close()
    trackMany(analytics, 1)
    expect(heard.map(({ code }) => code)).toEqual(['invalid_message', 'closed'])
    expect(heard[0]?.text).toContain('invalid as its timestamp')
    expect(heard[0]?.text).not.toContain('secret')
  })
})

describe('no warning', () => {
  test('with onFailed', async () => {
    const heard = warnings()
    const analytics = loud(scriptedFetch(401), { onFailed: () => undefined })
    trackMany(analytics, 1)
    await analytics.flush()
    expect(heard).toEqual([])
  })

  test('of a loss that was asked for, which close() does not count as failed', async () => {
    const heard = warnings()
    const analytics = loud(scriptedFetch(), { beforeSend: () => null })
    const disabled = loud(scriptedFetch(), { disabled: true })
    trackMany(analytics, 3)
    trackMany(disabled, 3)
    expect(await analytics.close()).toEqual({ delivered: 0, failed: 0 })
    expect(await disabled.close()).toEqual({ delivered: 0, failed: 0 })
    expect(heard).toEqual([])
  })
})

test('close() counts what was lost since the client was made', async () => {
  warnings()
  const analytics = loud(scriptedFetch(200, 403), { flushAt: 2 })
  trackMany(analytics, 2)
  await analytics.flush()
  trackMany(analytics, 2)
  await analytics.flush()
  trackMany(analytics, 1)
  expect(await analytics.close()).toEqual({ delivered: 3, failed: 2 })
})

describe('logger', () => {
  test.each([
    [/^flush/, { maxBatchBytes: 40_000 }],
    [/^dropped 1 messages: queue_full/, { maxQueueBytes: 40_000, overflow: 'drop-oldest' }],
    [/./, { maxBatchBytes: 40_000, maxQueueBytes: 100_000, overflow: 'drop-oldest' }],
  ] as const)(
    'that records at each line like %s changes no other message, with %o',
    async (line, options) => {
      const net = scriptedFetch()
      let isRecording = false
      let lines = 0
      const debug = (text: string) => {
        if (isRecording || !line.test(text) || lines++ > 50) return
        isRecording = true
        analytics.track({ userId: 'u', event: 'line', properties: { padding: 'y'.repeat(990) } })
        isRecording = false
      }
      const analytics = createClient(net, {
        logger: { debug, warn: () => undefined },
        flushAt: 10_000,
        ...options,
      })
      const outcomes = new Map<string, string>()
      for (const name of names(0, 200)) {
        const padding = 'x'.repeat(1_000 - name.length)
        analytics.track({ userId: 'u', event: name, properties: { padding } }, (error) =>
          outcomes.set(name, error?.code ?? 'ok'),
        )
      }
      await analytics.flush()
      const arrived = events(...net.arrivals).filter((event) => event !== 'line')
      const delivered = [...outcomes].filter(([, code]) => code === 'ok').map(([name]) => name)
      expect(outcomes.size).toBe(200)
      expect(arrived).toEqual(delivered)
      expect(delivered.length).toBeGreaterThan(20)
    },
  )

  test('gets the lines of the log, and the warnings in place of the process', async () => {
    const heard = warnings()
    const debug = vi.fn()
    const warn = vi.fn()
    const collector = await startCollector()
    collector.script(403)
    const analytics = loud(collector, { logger: { debug, warn } })
    analytics.track({ userId: 'secret', event: 'secret', messageId: 'm1' })
    await analytics.flush()
    expect(heard).toEqual([])
    expect(warn.mock.calls).toEqual([[expect.stringContaining('(rejected 403)')]])
    const lines = debug.mock.calls.map(([line]) => line as string)
    expect(lines).toEqual([
      'enqueue track m1',
      'flush 1 messages',
      expect.stringMatching(/^attempt 1: 1 messages, \d+ bytes: 403 after \d+ ms$/),
      'rejected 1 messages: rejected: The endpoint answered 403. Check the write key.',
    ])
    expect(lines.join()).not.toContain('secret')
  })

  test('that throws breaks nothing', async () => {
    const fail = () => {
      throw new Error('full')
    }
    const analytics = loud(scriptedFetch(403), { logger: { debug: fail, warn: fail } })
    trackMany(analytics, 1)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 1 })
  })
})
