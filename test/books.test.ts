import { runInNewContext } from 'node:vm'
import { describe, expect, test, vi } from 'vitest'
import type { AnalyticsOptions, Stats } from '../src/index.js'
import {
  countEvents,
  createClient,
  events,
  held,
  listen,
  names,
  pass,
  scriptedFetch,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
} from './collector.js'

const balanced = ({ accepted, delivered, rejected, dropped, pending }: Stats) =>
  accepted === delivered + rejected + dropped + pending

describe('flush', () => {
  test('sends everything that is queued, however much, and waits for it', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector)
    trackMany(analytics, 505)
    expect(await analytics.flush()).toEqual({ delivered: 505, failed: 0 })
    expect(events(...collector.arrivals)).toEqual(names(0, 505))
    expect(analytics.stats()).toMatchObject({ delivered: 505, pending: 0, pendingBytes: 0 })
  })

  test('of nothing resolves at once, and sends nothing', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net)
    expect(await analytics.flush()).toEqual({ delivered: 0, failed: 0 })
    expect(net.arrivals).toEqual([])
  })

  test('waits for what is in flight already', async () => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const analytics = createClient(collector, { flushAt: 2 })
    trackMany(analytics, 2)
    await collector.arrived(1)
    const resolved = vi.fn()
    const flushed = analytics.flush().then(resolved)
    await turns()
    expect(resolved).not.toHaveBeenCalled()
    gate.release()
    await flushed
    expect(resolved).toHaveBeenCalledWith({ delivered: 2, failed: 0 })
  })

  test('counts what was pending at its call, not what the callbacks that it calls record', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, {
      ...{ maxQueueBytes: 300, overflow: 'drop-oldest', onFailed: () => undefined },
    })
    const lost = vi.fn(() => {
      trackMany(analytics, 1, 2)
    })
    analytics.track({ userId: 'u', event: 'e0' }, lost)
    trackMany(analytics, 1, 1) // pushes e0 out, and is pushed out itself
    expect(analytics.stats().pending).toBe(1)
    const flushed = analytics.flush()
    expect(lost).toHaveBeenCalledOnce()
    expect(await flushed).toEqual({ delivered: 0, failed: 1 })
  })

  test('resolves after the callbacks of what was dropped to make room', async () => {
    const told: string[] = []
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const analytics = createClient(collector, {
      flushAt: 1_000,
      maxQueueBytes: 32_768,
      overflow: 'drop-oldest',
    })
    const note = { userId: 'u', event: 'e', properties: { note: 'x'.repeat(20_000) } }
    analytics.track(note, (error) => told.push(String(error?.code)))
    const flushed = analytics.flush().then(() => told.push('flushed'))
    analytics.track(note)
    gate.release()
    await flushed
    expect(told).toEqual(['queue_full', 'flushed'])
    await analytics.flush()
  })

  test('resolves after the callbacks and the hooks', async () => {
    const told: string[] = []
    const analytics = createClient(scriptedFetch(200, 403), {
      onDelivered: () => told.push('onDelivered'),
      onFailed: () => told.push('onFailed'),
    })
    analytics.track({ userId: 'u', event: 'e' }, () => told.push('callback'))
    await analytics.flush().then(() => told.push('flush'))
    analytics.track({ userId: 'u', event: 'e' }, () => told.push('callback'))
    await analytics.flush().then(() => told.push('flush'))
    expect(told).toEqual(['callback', 'onDelivered', 'flush', 'callback', 'onFailed', 'flush'])
  })

  test('overlapping others waits for its own messages, each time', async () => {
    const collector = await startCollector()
    const gates = [held(), held(), held()]
    collector.script(...gates.map(({ reply }) => reply))
    const analytics = createClient(collector)
    const resolved: [string, unknown][] = []
    const flush = (name: string) =>
      analytics.flush().then((result) => resolved.push([name, result]))

    trackMany(analytics, 3)
    const first = flush('first')
    await collector.arrived(1)
    trackMany(analytics, 3, 3)
    const second = flush('second')
    const third = flush('third')
    trackMany(analytics, 1, 6)
    const fourth = flush('fourth')
    await turns()
    expect(resolved).toEqual([])
    gates[0]?.release()
    await first
    expect(resolved).toEqual([['first', { delivered: 3, failed: 0 }]])
    await collector.arrived(2)
    gates[1]?.release()
    gates[2]?.release()
    await Promise.all([second, third, fourth])
    expect(resolved.slice(1)).toEqual([
      ['second', { delivered: 6, failed: 0 }],
      ['third', { delivered: 6, failed: 0 }],
      ['fourth', { delivered: 7, failed: 0 }],
    ])
    expect(events(...collector.arrivals)).toEqual(names(0, 7))
  })

  test('does not wait for what comes after it', async () => {
    const collector = await startCollector()
    const gates = [held(), held()]
    collector.script(...gates.map(({ reply }) => reply))
    const analytics = createClient(collector)
    trackMany(analytics, 2)
    const flushed = analytics.flush()
    await collector.arrived(1)
    trackMany(analytics, 2, 2)
    gates[0]?.release()
    expect(await flushed).toEqual({ delivered: 2, failed: 0 })
    expect(analytics.stats()).toMatchObject({ delivered: 2, pending: 2 })
  })

  test('counts what was lost apart, for each of the callers that waited for it', async () => {
    useFakeClock()
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply, 200)
    const analytics = createClient(collector)
    trackMany(analytics, 3)
    const first = analytics.flush()
    await collector.arrived(1)
    trackMany(analytics, 2, 3)
    const second = analytics.flush()
    gate.release(403)
    expect(await first).toEqual({ delivered: 0, failed: 3 })
    await pass(2)
    expect(await second).toEqual({ delivered: 2, failed: 3 })
  })

  test('counts the messages of one batch that was accepted in part', async () => {
    const body = JSON.stringify({ rejected: [{ index: 1, code: 'x', message: 'y' }] })
    const analytics = createClient(scriptedFetch({ body }))
    trackMany(analytics, 3)
    const both = [analytics.flush(), analytics.flush()]
    expect(await Promise.all(both)).toEqual([
      { delivered: 2, failed: 1 },
      { delivered: 2, failed: 1 },
    ])
  })

  test('waits through an outage', async () => {
    useFakeClock()
    const net = scriptedFetch(503, new Error('reset'), 500, 429)
    const analytics = createClient(net)
    trackMany(analytics, 3)
    const resolved = vi.fn()
    void analytics.flush().then(resolved)
    await pass(1_000)
    expect(resolved).not.toHaveBeenCalled()
    await pass(60_000)
    expect(resolved).toHaveBeenCalledWith({ delivered: 3, failed: 0 })
  })

  test('with a timeout stops waiting, and what is pending stays queued', async () => {
    useFakeClock()
    const collector = await startCollector()
    const gate = held()
    collector.script(200, gate.reply)
    const heard = listen()
    const analytics = createClient(collector, { flushAt: 2 })
    trackMany(analytics, 2, 0, heard.as)
    const flushed = analytics.flush({ timeout: 1_000 })
    await collector.arrived(1)
    expect(await flushed).toEqual({ delivered: 2, failed: 0 })
    await pass(2)
    trackMany(analytics, 3, 2, heard.as)
    const impatient = analytics.flush({ timeout: 1_000 })
    const patient = analytics.flush()
    await collector.arrived(2)
    const resolved = vi.fn()
    void impatient.then(resolved)
    await vi.advanceTimersByTimeAsync(999)
    expect(resolved).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(resolved).toHaveBeenCalledWith({ delivered: 0, failed: 0 })
    expect(analytics.stats()).toMatchObject({ pending: 3, dropped: 0 })
    gate.release()
    expect(await patient).toEqual({ delivered: 3, failed: 0 })
    expect(heard.outcomes).toHaveLength(5)
  })

  test('with a timeout of 0 tells what has its outcome by then', async () => {
    useFakeClock()
    const net = scriptedFetch('hang')
    const analytics = createClient(net)
    trackMany(analytics, 1)
    const flushed = analytics.flush({ timeout: 0 })
    await pass(0)
    expect(await flushed).toEqual({ delivered: 0, failed: 0 })
    expect(net.arrivals).toHaveLength(1)
  })

  test('leaves no timer behind when it was in time', async () => {
    useFakeClock()
    const analytics = createClient(scriptedFetch(), { flushAt: 1 })
    trackMany(analytics, 1)
    await analytics.flush({ timeout: 60_000 })
    await pass(5_000)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('sends what a callback that it calls records, and does not count it', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { maxQueueBytes: 1_000 })
    // Lost in its call, so its callback is told by the flush, which comes in the same turn.
    analytics.track(
      { userId: 'u', event: 'large', properties: { fill: 'x'.repeat(2_000) } },
      () => {
        analytics.track({ userId: 'u', event: 'lost one' })
      },
    )
    const flushed = vi.fn()
    void analytics.flush().then(flushed)
    await turns()
    expect(events(...net.arrivals)).toEqual(['lost one'])
    expect(flushed).toHaveBeenCalledWith({ delivered: 0, failed: 0 })
  })

  test('in rounds, while calls go on, never lies', async () => {
    const collector = await startCollector()
    collector.otherwise(async () => {
      await turns()
      return 200
    })
    const analytics = createClient(collector, { flushAt: 7 })
    const rounds = Array.from({ length: 20 }, async (_, i) => {
      trackMany(analytics, 5, i * 5)
      const expected = names(0, (i + 1) * 5)
      await analytics.flush()
      const arrived = collector.accepted.map(({ event }) => event)
      expect(arrived).toEqual(expect.arrayContaining(expected))
    })
    await Promise.all(rounds)
    expect(collector.accepted).toHaveLength(100)
  })
})

describe('onDelivered', () => {
  test('is told once a batch: how many, bytes, attempts, duration', async () => {
    useFakeClock()
    const heard = listen()
    const net = scriptedFetch(503)
    const analytics = createClient(net, { ...heard.hooks, flushAt: 3 })
    trackMany(analytics, 3)
    await pass(600)
    trackMany(analytics, 3, 3)
    await pass(0)
    const waited =
      Date.parse(net.arrivals[1]?.body.sentAt ?? '') - Date.parse('2026-01-02T03:04:05.678Z')
    expect(heard.delivered).toEqual([
      {
        messages: 3,
        bytes: net.arrivals[1]?.bytes.length,
        attempts: 2,
        durationMs: expect.closeTo(waited, -1) as number,
      },
      { messages: 3, bytes: net.arrivals[2]?.bytes.length, attempts: 1, durationMs: 0 },
    ])
    expect(waited).toBeGreaterThanOrEqual(250)
  })
})

describe('a lost message', () => {
  test('is reported as it would have travelled, so that it can be recorded again', async () => {
    const heard = listen()
    const net = scriptedFetch(403)
    const analytics = createClient(net, heard.hooks)
    analytics.page({ userId: 'u', name: 'é', traits: { a: 1 }, timestamp: new Date(0) })
    await analytics.flush()
    const [lost] = heard.failed[0]?.messages ?? []
    expect(lost).toMatchObject({ type: 'page', messageId: net.arrivals[0]?.messages[0]?.messageId })
    analytics.page(JSON.parse(lost?.json ?? '') as { userId: string })
    await analytics.flush()
    expect(net.arrivals[1]?.messages).toEqual(net.arrivals[0]?.messages)
  })

  test('is one of at most 2,500 in a report', async () => {
    const heard = listen()
    const net = scriptedFetch('hang')
    const analytics = createClient(net, { ...heard.hooks, flushAt: 10_000 })
    trackMany(analytics, 6_000)
    await analytics.close({ timeout: 0 })
    const lengths = heard.failed.map(({ messages }) => messages.length)
    expect(lengths.reduce((sum, length) => sum + length)).toBe(6_000)
    expect(Math.max(...lengths)).toBeLessThanOrEqual(2_500)
    const lost = heard.failed.flatMap(({ messages }) => messages)
    expect(lost.map(({ json }) => (JSON.parse(json ?? '') as { event: string }).event)).toEqual(
      names(0, 6_000),
    )
  })
})

describe('what the application’s functions do breaks nothing', () => {
  const rejecting = () => Promise.reject(new Error('from a hook'))
  const foreign = runInNewContext(
    'async () => { throw new Error("from another realm") }',
  ) as () => void
  const bad: [string, () => unknown][] = [
    [
      'throw an error',
      () => {
        throw new Error('from a hook')
      },
    ],
    [
      'throw nothing',
      () => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error
        throw undefined
      },
    ],
    ['reject later', rejecting],
    ['reject later, in another realm', foreign],
    [
      'give a thenable that throws',
      () => ({
        then: () => {
          throw new Error('from then')
        },
      }),
    ],
  ]
  test.each(bad)('when they %s', async (_, act) => {
    useFakeClock()
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    process.on('uncaughtException', unhandled)
    const calls: string[] = []
    const spy = (name: string) => () => {
      calls.push(name)
      return act()
    }
    const net = scriptedFetch(200, 403, { body: '{"rejected":[{"index":0}]}' })
    const options = { onDelivered: spy('onDelivered'), onFailed: spy('onFailed') }
    const analytics = createClient(net, {
      ...(options as AnalyticsOptions),
      flushAt: 2,
      maxQueueBytes: 1_000,
    })
    for (let i = 0; i < 3; i++) {
      analytics.track({ userId: 'u', event: 'a' }, spy('callback'))
      analytics.track({ userId: 'u', event: 'b' }, spy('callback'))
      await pass(5)
    }
    analytics.track(
      { userId: 'u', event: 'c', properties: { fill: 'x'.repeat(2_000) } },
      spy('callback'),
    )
    await pass(5)
    const closed = analytics.close()
    trackMany(analytics, 1, 0, () => spy('callback'))
    await pass(5)
    await closed
    await turns()
    process.off('unhandledRejection', unhandled)
    process.off('uncaughtException', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    expect(countEvents(net.arrivals)).toEqual([2, 2, 2])
    const count = (name: string) => calls.filter((called) => called === name).length
    expect(count('callback')).toBe(8)
    expect(count('onDelivered')).toBe(2)
    expect(count('onFailed')).toBe(4)
    expect(analytics.stats()).toMatchObject({ delivered: 3, rejected: 3, dropped: 2, pending: 0 })
  })
})

test('the books balance in every hook and callback', async () => {
  useFakeClock()
  const seen: Stats[] = []
  const look = () => {
    seen.push(analytics.stats())
  }
  const net = scriptedFetch(503, 413, 200, { body: '{"rejected":[{"index":0},{"index":1}]}' }, 403)
  const analytics = createClient(net, {
    flushAt: 4,
    maxQueueBytes: 1_500,
    overflow: 'drop-oldest',
    beforeSend: (message) => {
      look()
      return message.event === 'e3' ? null : message
    },
    onDelivered: look,
    onFailed: look,
  })
  for (let i = 0; i < 30; i += 3) {
    trackMany(analytics, 3, i, () => look)
    await pass(50)
  }
  void analytics.close({ timeout: 5_000 })
  trackMany(analytics, 2, 30, () => look)
  await pass(5_000)
  expect(seen.length).toBeGreaterThan(60)
  expect(seen.filter((stats) => !balanced(stats))).toEqual([])
  for (const stats of seen) {
    expect(Object.values(stats).every((count: number) => count >= 0)).toBe(true)
    expect(stats.pendingBytes === 0).toBe(stats.pending === 0)
  }
  expect(analytics.stats()).toMatchObject({ accepted: 32, pending: 0, pendingBytes: 0 })
})

test('a message has its outcome in the books when its callback and its hook are called', async () => {
  const seen: Stats[] = []
  const look = () => {
    seen.push(analytics.stats())
  }
  const net = scriptedFetch(200, 403)
  const analytics = createClient(net, { onDelivered: look, onFailed: look })
  trackMany(analytics, 2, 0, () => look)
  await analytics.flush()
  expect(seen.splice(0)).toMatchObject(Array(3).fill({ delivered: 2, pending: 0, pendingBytes: 0 }))
  trackMany(analytics, 2, 0, () => look)
  await analytics.flush()
  expect(seen).toMatchObject(Array(3).fill({ rejected: 2, pending: 0, pendingBytes: 0 }))
})

test('pendingBytes counts the bytes of JSON that wait, those in flight included', async () => {
  const collector = await startCollector()
  const gate = held()
  collector.script(gate.reply)
  const analytics = createClient(collector, { flushAt: 2 })
  trackMany(analytics, 3)
  await collector.arrived(1)
  const inFlight = collector.arrivals[0]?.messages ?? []
  const bytes = inFlight.map((message) => Buffer.byteLength(JSON.stringify(message)))
  expect(bytes).toHaveLength(2)
  expect(analytics.stats().pendingBytes).toBe((bytes[0] ?? 0) * 3)
  gate.release()
  await analytics.flush()
  expect(analytics.stats().pendingBytes).toBe(0)
})

test('stats gives a copy', () => {
  const analytics = createClient(scriptedFetch())
  Object.assign(analytics.stats(), { accepted: 99 })
  expect(analytics.stats().accepted).toBe(0)
})

test('closing again from a callback that closing tells gives the same promise', async () => {
  const analytics = createClient(scriptedFetch(), { maxQueueBytes: 1 })
  const inner = new Promise((resolve) => {
    analytics.track({ userId: 'u', event: 'e' }, () => {
      resolve(analytics.close())
    })
  })
  const outer = analytics.close()
  expect(await inner).toBe(await outer)
})
