import { setImmediate } from 'node:timers/promises'
import { DroppedError, RetriesExhaustedError, type Callback } from 'hookline'
import { expect, test } from 'vitest'
import { Import } from '../../../src/cli/import/import.js'
import type { Row } from '../../../src/cli/import/row.js'

/** The queue of a client: what its callers wait for, and how much it holds. */
function clientOf(encodedBytes: number, maxBytes: number) {
  const waiting: Callback[] = []
  let dropped = 0
  return {
    waiting,
    get dropped() {
      return dropped
    },
    pendingBytes: () => waiting.length * encodedBytes,
    make: (_call: unknown, callback: Callback) => {
      if ((waiting.length + 1) * encodedBytes <= maxBytes) waiting.push(callback)
      else {
        dropped++
        queueMicrotask(() => {
          callback(new DroppedError('queue_full', 'the queue is full'))
        })
      }
    },
  }
}

async function* lines(count: number): AsyncGenerator<Row> {
  for (let line = 1; line <= count; line++) {
    if (line % 100 === 0) await setImmediate()
    yield { line, end: line * 10, text: '{}', fields: { type: 'track', userId: 'u', event: 'E' } }
  }
}

function importOf(
  count: number,
  client: Pick<ReturnType<typeof clientOf>, 'make' | 'pendingBytes'>,
) {
  const problems: [number, string][] = []
  const work = new Import({
    rows: lines(count),
    from: { line: 0, offset: 0 },
    make: client.make,
    pendingBytes: client.pendingBytes,
    name: 'a.ndjson',
    bad: (line, problem) => problems.push([line, problem]),
    changed: () => undefined,
    signal: new AbortController().signal,
  })
  return { work, problems }
}

test('short lines whose calls are long never fill the queue of the client', async () => {
  const client = clientOf(30_000, 64 * 1024 * 1024)
  const { work } = importOf(10_000, client)
  const state = { hasEnded: false, turnsWithoutCall: 0 }
  void work.run().then(() => (state.hasEnded = true))
  let most = 0
  for (let last = 0; !state.hasEnded || client.waiting.length > 0; last = client.waiting.length) {
    most = Math.max(most, client.pendingBytes())
    state.turnsWithoutCall = client.waiting.length === last ? state.turnsWithoutCall + 1 : 0
    // The collector answers only when the import has stopped making calls.
    if (state.turnsWithoutCall > 20) for (const callback of client.waiting.splice(0)) callback()
    await setImmediate()
  }
  expect(client.dropped).toBe(0)
  expect(most).toBeLessThan(17_000_000)
  expect(work).toMatchObject({ accepted: 10_000, lost: 0, isUnfinished: false })
})

test('a call that the client gives up is reported, and the next import sends it again', async () => {
  const client = clientOf(100, Infinity)
  const { work, problems } = importOf(3, client)
  await work.run()
  const [first, second, third] = client.waiting
  first?.()
  second?.(new RetriesExhaustedError('Given up after 12 attempts: 500', 12, new Error('500')))
  expect(work.isUnfinished).toBe(true)
  third?.()
  expect(work).toMatchObject({ accepted: 2, bad: 0, lost: 1, isUnfinished: false })
  expect(problems).toEqual([[2, 'not accepted: Given up after 12 attempts: 500']])
  expect(work.place).toEqual({ line: 1, offset: 10 })
})

test('a call that had no answer when the import was stopped is not called lost', async () => {
  const client = clientOf(100, Infinity)
  const { work, problems } = importOf(2, client)
  await work.run()
  for (const callback of client.waiting) callback(new DroppedError('close_timeout', 'stopped'))
  expect(work).toMatchObject({ accepted: 0, lost: 0, isUnfinished: true })
  expect(problems).toEqual([])
  expect(work.place).toEqual({ line: 0, offset: 0 })
})
