import { setImmediate } from 'node:timers/promises'
import { DroppedError, RejectedError, RetriesExhaustedError, type Callback } from 'hookline'
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

/** The refusal of a call, as the client reports it. */
const refusal = (status: number, detail = '') =>
  new RejectedError(`The endpoint answered ${status}.`, status, detail)

test.each([0, 301, 302, 304, 308, 401, 402, 403, 404, 405, 406, 410, 415, 421, 426, 431, 501, 505])(
  'calls that are refused with %d are not about the calls: the import stops, and none counts as refused',
  async (status) => {
    const client = clientOf(100, Infinity)
    const { work, problems } = importOf(5, client)
    await work.run()
    client.waiting[0]?.()
    for (const callback of client.waiting.slice(1)) callback(refusal(status))
    expect(work.fatal).toMatchObject({ status })
    expect(work).toMatchObject({ accepted: 1, bad: 0, lost: 0, isUnfinished: true })
    expect(problems).toEqual([])
    expect(work.place).toEqual({ line: 1, offset: 10 })
  },
)

test.each([
  [200, 'invalid_field'],
  [400, '{"success":false}'],
  [413, '<html><title>413 Request Entity Too Large</title></html>'],
  [422, ''],
])('a call that is refused with %d is bad, and the import continues', async (status, detail) => {
  const client = clientOf(100, Infinity)
  const { work, problems } = importOf(2, client)
  await work.run()
  client.waiting[0]?.(refusal(status, detail))
  client.waiting[1]?.()
  expect(work).toMatchObject({ accepted: 1, bad: 1, isUnfinished: false, fatal: undefined })
  expect(problems).toEqual([[1, `The endpoint answered ${status}.`]])
})

test.each(['<html>\r\n<head><title>400 Bad Request', '\n<!DOCTYPE html>', '<BODY>'])(
  'a 400 with the page %j is not about the call',
  async (page) => {
    const client = clientOf(100, Infinity)
    const { work } = importOf(1, client)
    await work.run()
    client.waiting[0]?.(refusal(400, page))
    expect(work).toMatchObject({ bad: 0, fatal: { status: 400 }, place: { line: 0 } })
  },
)
