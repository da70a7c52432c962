import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createEnqueueCalls } from '../../src/enqueue/calls.js'
import type { Enqueued } from '../../src/enqueue/enqueue.js'
import { webhookBody } from '../../src/enqueue/webhook-body.js'
import { PendingBytes } from '../../src/http/pending-bytes.js'
import type { Call } from '../../src/model/call.js'
import type { Destination } from '../../src/settings/settings.js'
import { rounds } from '../rounds.js'
import { destination, endpoint, KEY, settingsFor, start, track } from '../run.js'

const MB = 1_000_000

/** The context of a batch is the same object in all of its calls. */
function callsOf(count: number, contextBytes: number): Call[] {
  const context = { note: 'c'.repeat(contextBytes) }
  const timestamp = '2026-01-02T03:04:05.678Z'
  return Array.from({ length: count }, (_, i) => ({
    ...{ type: 'track', messageId: `m${i}`, userId: 'u', event: 'e', timestamp, context },
  }))
}

const named = (count: number): Destination[] =>
  Array.from({ length: count }, (_, i) => ({ name: `d${i}` }) as Destination)

test('random requests are put whole and in order, in parts of 2 MB, one after the other, until a part fails', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 300 }),
      fc.integer({ min: 0, max: 30_000 }),
      fc.integer({ min: 1, max: 100 }),
      fc.option(fc.nat(10), { nil: Infinity }),
      async (count, contextBytes, width, failsAt) => {
        const calls = callsOf(count, contextBytes)
        const to = named(width)
        const puts: Enqueued[][] = []
        let underWay = 0
        const enqueue = async (deliveries: Enqueued[]) => {
          expect(++underWay).toBe(1)
          await new Promise(setImmediate)
          underWay--
          if (puts.length === failsAt) throw new Error('the disk is full')
          puts.push(deliveries)
          return deliveries.map(() => true)
        }
        const pending = new PendingBytes(4 * MB)
        const enqueueCalls = createEnqueueCalls(enqueue, () => ({ to }), pending)
        const ended = await enqueueCalls('web', calls, {}, false).then(
          () => 'stored',
          (error: unknown) => String(error),
        )
        // Nothing is counted any more.
        pending.check('web', 2 * MB - 1)
        const expected = calls.flatMap(({ messageId }) => to.map(({ name }) => [messageId, name]))
        const stored = puts.flat().map((one) => [one.messageId, one.destination])
        expect(stored).toEqual(expected.slice(0, stored.length))
        if (ended === 'stored') expect(stored).toHaveLength(expected.length)
        else expect([ended, puts.length]).toEqual(['Error: the disk is full', failsAt])
        const bodies = new Map(calls.map((call) => [call.messageId, webhookBody(call)]))
        const largest = Math.max(...Array.from(bodies.values(), (body) => body.length)) + 200
        for (const put of puts) {
          expect(put.every(({ messageId, body }) => body === bodies.get(messageId))).toBe(true)
          const bytes = put.reduce((sum, { body }) => sum + body.length + 200, 0)
          expect(bytes).toBeLessThan(2 * MB + largest)
        }
      },
    ),
    { numRuns: rounds(20) },
  )
})

test('messages that wait for a stalled store are limited by what they became, and a source leaves half of it to others', async () => {
  const stalled: (() => void)[] = []
  const enqueue = async (deliveries: Enqueued[]) => {
    await new Promise<void>((resolve) => stalled.push(resolve))
    return deliveries.map(() => true)
  }
  const calls = callsOf(100, 10_000) // 1 MB for each destination
  const enqueueCalls = createEnqueueCalls(
    enqueue,
    () => ({ to: named(2) }),
    new PendingBytes(8 * MB),
  )
  const send = (source: string) => enqueueCalls(source, calls, {}, false)
  const first = [send('web'), send('web')]
  await expect(send('web')).rejects.toMatchObject({ status: 503, code: 'store_unavailable' })
  const others = [send('app'), send('app')]
  await expect(send('api')).rejects.toMatchObject({ status: 503, code: 'store_unavailable' })
  const goOn = setInterval(() => stalled.shift()?.(), 0)
  await Promise.all([...first, ...others])
  clearInterval(goOn)
})

test(
  'a batch whose context makes 20 MB of it is delivered to each destination',
  { tags: 'long' },
  async () => {
    const hooks = [await endpoint(), await endpoint()]
    const destinations = hooks.map((hook, i) => destination([hook], { name: `d${i}` }))
    const { url } = await start(settingsFor(destinations))
    const ids = Array.from({ length: 340 }, (_, i) => `m${i}`)
    const response = await fetch(`${url}/v1/batch`, {
      method: 'POST',
      headers: { Authorization: `Basic ${btoa(`${KEY}:`)}` },
      body: JSON.stringify({
        context: { note: 'c'.repeat(30_000) },
        batch: ids.map((id) => track(id)),
      }),
    })
    expect(response.status).toBe(200)
    for (const hook of hooks) {
      await hook.has(ids.length)
      const got = hook.received.map(({ headers }) => headers['x-message-id'])
      expect(got.sort()).toEqual([...ids].sort())
    }
  },
)
