import { describe, expect, test } from 'vitest'
import {
  countEvents,
  createClient,
  events,
  held,
  names,
  pass,
  scriptedFetch,
  sized,
  startCollector,
  trackMany,
  turns,
  useFakeClock,
  type Arrival,
} from './collector.js'

const MAX_BODY = 500_000
const ENVELOPE = '{"batch":[],"messageId":"","sentAt":""}'.length + 36 + 24

const sizes = (arrivals: Arrival[]) => arrivals.map(({ bytes }) => bytes.length)

describe('a batch is closed', () => {
  test('by the 20th message, by default', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net)
    trackMany(analytics, 19)
    await turns()
    expect(net.arrivals).toEqual([])
    trackMany(analytics, 1, 19)
    await turns()
    expect(events(...net.arrivals)).toEqual(names(0, 20))
    expect(net.arrivals).toHaveLength(1)
  })

  test('by the flushAt-th message', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 3 })
    trackMany(analytics, 2)
    await turns()
    expect(net.arrivals).toEqual([])
    trackMany(analytics, 1, 2)
    await turns()
    expect(countEvents(net.arrivals)).toEqual([3])
  })

  test('5 s after construction, by default, and not before', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net)
    await pass(1_000)
    trackMany(analytics, 1)
    await pass(3_999)
    expect(net.arrivals).toEqual([])
    await pass(1)
    expect(events(...net.arrivals)).toEqual(['e0'])
  })

  test('flushAfter since the last flush by count, not since the message', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 2, flushAfter: 1_000 })
    await pass(600)
    trackMany(analytics, 2)
    await pass(600)
    expect(countEvents(net.arrivals)).toEqual([2])
    trackMany(analytics, 1, 2)
    await pass(399)
    expect(net.arrivals).toHaveLength(1)
    await pass(1)
    expect(countEvents(net.arrivals)).toEqual([2, 1])
  })

  test('flushAfter since the last flush() call', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAfter: 1_000 })
    trackMany(analytics, 1)
    await pass(700)
    void analytics.flush()
    await turns()
    expect(net.arrivals).toHaveLength(1)
    trackMany(analytics, 1, 1)
    await pass(999)
    expect(net.arrivals).toHaveLength(1)
    await pass(1)
    expect(net.arrivals).toHaveLength(2)
  })

  test('never later than flushAfter after its first message, however long nothing came before', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAfter: 1_000 })
    await pass(123_456)
    trackMany(analytics, 1)
    await pass(543)
    expect(net.arrivals).toEqual([])
    await pass(1)
    expect(net.arrivals).toHaveLength(1)
    for (let round = 0; round < 5; round++) {
      await pass(777)
      const before = net.arrivals.length
      trackMany(analytics, 1)
      await pass(1_000)
      expect(net.arrivals.length).toBe(before + 1)
    }
  })

  test('before it would pass the limit of a body', async () => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 1_000 })
    for (let i = 0; i < 15; i++) analytics.track(sized(32_768))
    await turns()
    expect(net.arrivals).toEqual([])
    analytics.track(sized(32_768))
    await turns()
    expect(countEvents(net.arrivals)).toEqual([15])
    await pass(5_000)
    expect(countEvents(net.arrivals)).toEqual([15, 1])
  })

  test.each([0, 1])('by the commas too, if these make it too long (%i byte over)', async (over) => {
    useFakeClock()
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 1_000 })
    for (let i = 0; i < 15; i++) analytics.track(sized(32_768))
    analytics.track(sized(MAX_BODY - ENVELOPE - 15 * 32_768 - 15 + over))
    await turns()
    expect(countEvents(net.arrivals)).toEqual(over ? [15] : [])
  })
})

test('what an open batch lost to make room does not count towards its limit', async () => {
  useFakeClock()
  const net = scriptedFetch()
  const options = { flushAt: 10_000, maxQueueBytes: 1_000, overflow: 'drop-oldest' } as const
  const analytics = createClient(net, options)
  // 600 KB in all, of which never more than 1 KB wait.
  for (let i = 0; i < 3_000; i++) {
    analytics.track(sized(200, 'x', `e${i}`))
    if (i % 4 === 0) await turns()
  }
  await turns()
  expect(net.arrivals).toEqual([])
  await pass(5_000)
  expect(events(...net.arrivals)).toEqual(names(2_995, 3_000))
})

test('nothing is sent while there is nothing to send', async () => {
  useFakeClock()
  const net = scriptedFetch()
  const analytics = createClient(net)
  await analytics.flush()
  await pass(60_000)
  await analytics.flush()
  await analytics.close()
  expect(net.arrivals).toEqual([])
})

test('a lone closed batch is sent as it is: what is still open stays', async () => {
  const collector = await startCollector()
  const gate = held()
  collector.script(gate.reply)
  const analytics = createClient(collector, { flushAt: 4 })
  trackMany(analytics, 6)
  await collector.arrived(1)
  expect(countEvents(collector.arrivals)).toEqual([4])
  gate.release()
  await analytics.flush()
  expect(countEvents(collector.arrivals)).toEqual([4, 2])
})

test('closed batches that pile up during a request go out together, the open one waits', async () => {
  const collector = await startCollector()
  const gate = held()
  collector.script(gate.reply)
  const analytics = createClient(collector, { flushAt: 4 })
  trackMany(analytics, 4)
  await collector.arrived(1)
  trackMany(analytics, 103, 4)
  gate.release()
  await collector.arrived(2)
  expect(countEvents(collector.arrivals)).toEqual([4, 100])
  await analytics.flush()
  expect(countEvents(collector.arrivals)).toEqual([4, 100, 3])
  expect(events(...collector.arrivals)).toEqual(names(0, 107))
})

describe('a body', () => {
  test('takes 500,000 bytes exactly, commas and envelope counted', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, { flushAt: 1_000 })
    const last = MAX_BODY - ENVELOPE - 15 * 32_768 - 15
    for (let i = 0; i < 15; i++) analytics.track(sized(32_768, '€'))
    analytics.track(sized(last))
    await analytics.flush()
    expect(sizes(collector.arrivals)).toEqual([MAX_BODY])
  })

  test('never takes 500,001: the last message goes into the next', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, { flushAt: 1_000 })
    const last = MAX_BODY - ENVELOPE - 15 * 32_768 - 15 + 1
    for (let i = 0; i < 15; i++) analytics.track(sized(32_768, '€'))
    analytics.track(sized(last))
    await analytics.flush()
    expect(countEvents(collector.arrivals)).toEqual([15, 1])
    expect(sizes(collector.arrivals)).toEqual([ENVELOPE + 15 * 32_768 + 14, ENVELOPE + last])
  })

  test.each([0, 1])('of piled-up batches is cut at the same edge (%i byte over)', async (over) => {
    const collector = await startCollector()
    const gate = held()
    collector.script(gate.reply)
    const analytics = createClient(collector, { flushAt: 2 })
    trackMany(analytics, 2)
    await collector.arrived(1)
    const last = MAX_BODY - ENVELOPE - 15 * 32_768 - 15 + over
    for (let i = 0; i < 15; i++) analytics.track(sized(32_768))
    analytics.track(sized(last))
    trackMany(analytics, 2)
    gate.release()
    await analytics.flush()
    expect(countEvents(collector.arrivals)).toEqual(over ? [2, 15, 3] : [2, 16, 2])
    expect(Math.max(...sizes(collector.arrivals))).toBe(
      over ? ENVELOPE + 15 * 32_768 + 14 : MAX_BODY,
    )
  })

  test('takes 2,500 messages, and never 2,501', async () => {
    const collector = await startCollector()
    const analytics = createClient(collector, { flushAt: 10_000 })
    trackMany(analytics, 2_501)
    await analytics.flush()
    expect(countEvents(collector.arrivals)).toEqual([2_500, 1])
    trackMany(analytics, 2_500)
    await analytics.flush()
    expect(countEvents(collector.arrivals)).toEqual([2_500, 1, 2_500])
  })

  test('of one message of the largest size is within the limit', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 1 })
    analytics.track(sized(32_768))
    await analytics.flush()
    expect(sizes(net.arrivals)).toEqual([32_768 + ENVELOPE])
  })

  test('holds messages small, large and between byte for byte, in order', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 10_000 })
    const given: string[] = []
    // Around the sizes at which messages get a place of their own, and slabs end.
    const lengths = [200, 8_191, 8_192, 8_193, 200, 32_768, 200, 16_000, 8_192, 201, 32_767]
    for (let round = 0; round < 4; round++) {
      for (const [i, length] of lengths.entries()) {
        const message = sized(length, '€"é', `r${round}-${i}`)
        given.push(message.event + message.properties.fill)
        analytics.track(message)
      }
    }
    await analytics.flush()
    const sent = net.arrivals.flatMap(({ messages }) => messages)
    expect(
      sent.map(({ event, properties }) => `${event ?? ''}${String(properties?.['fill'])}`),
    ).toEqual(given)
  })

  test('holds what it should after the queue ran empty, again and again', async () => {
    const net = scriptedFetch()
    const analytics = createClient(net, { flushAt: 10_000 })
    const given: string[] = []
    for (let round = 0; round < 30; round++) {
      for (let i = 0; i <= round; i++) {
        const message = sized(200 + ((round * 7_919 + i * 104_729) % 9_000), 'é', `r${round}-${i}`)
        given.push(message.event + message.properties.fill)
        analytics.track(message)
      }
      await analytics.flush()
    }
    const sent = net.arrivals.flatMap(({ messages }) => messages)
    expect(
      sent.map(({ event, properties }) => `${event ?? ''}${String(properties?.['fill'])}`),
    ).toEqual(given)
  })
})

describe('with flushAt 1', () => {
  test('each message is a request of its own, started at once, in order', async () => {
    useFakeClock()
    const net = scriptedFetch()
    net.otherwise('hang')
    const analytics = createClient(net, { flushAt: 1 })
    trackMany(analytics, 3)
    await turns()
    expect(net.arrivals.map((arrival) => events(arrival))).toEqual([['e0'], ['e1'], ['e2']])
  })

  test('16 are in flight, and the next starts when one ends', async () => {
    const collector = await startCollector()
    const gates = Array.from({ length: 50 }, held)
    collector.script(...gates.map(({ reply }) => reply))
    const analytics = createClient(collector, { flushAt: 1 })
    trackMany(analytics, 50)
    await collector.arrived(16)
    await turns()
    expect(collector.arrivals).toHaveLength(16)
    gates[3]?.release()
    await collector.arrived(17)
    for (const { release } of gates) release()
    await analytics.flush()
    expect(analytics.stats().delivered).toBe(50)
    expect(collector.mostInFlight).toBe(16)
    expect(countEvents(collector.arrivals)).toEqual(Array(50).fill(1))
    expect(new Set(events(...collector.arrivals)).size).toBe(50)
  })
})
