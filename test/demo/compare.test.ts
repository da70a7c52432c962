import { describe, expect, test } from 'vitest'
import {
  askedFor,
  compare,
  type AppBooks,
  type ReceiverBooks,
  type StoredDelivery,
} from '../../demo/compare.js'

const IDS = ['a', 'b', 'c']

/** Three calls in two batches; the crm answered 503 to the first once, and had the last in flight at the kill. */
function booksThatAgree() {
  const app: AppBooks = {
    called: new Map(IDS.map((id) => [id, { text: askedFor(callOf(id)), atMs: 0 }])),
    stored: [...IDS],
  }
  const sdk = {
    stats: { accepted: 3, delivered: 3, rejected: 0, dropped: 0, pending: 0, pendingBytes: 0 },
    reports: [
      { messages: 2, bytes: 500, attempts: 1, durationMs: 5 },
      { messages: 1, bytes: 300, attempts: 3, durationMs: 900 },
    ],
  }
  const deliveries = [
    deliveryOf('a', 'crm', [
      { attempt: 1, code: 'server_error', status: 503 },
      { attempt: 2, code: 'connection_refused', status: null },
      { attempt: 3, code: 'delivered', status: 204 },
    ]),
    deliveryOf('b', 'crm'),
    deliveryOf('c', 'crm', [{ attempt: 2, code: 'delivered', status: 204 }]),
    ...IDS.map((id) => deliveryOf(id, 'warehouse')),
  ]
  const crm = { ...receiverOf(...IDS, 'c'), answered503: 1 }
  const receivers = { crm, warehouse: receiverOf(...IDS) }
  return { app, sdk, deliveries, receivers }
}

function callOf(id: string) {
  return {
    type: 'track',
    userId: `user-${id}`,
    event: 'Order Completed',
    properties: { total: 42 },
  }
}

function bodyOf(id: string, changes: object = {}): string {
  const context = { library: { name: 'hookline' } }
  const timestamp = '2026-01-02T03:04:05.678Z'
  return JSON.stringify({ version: 1, timestamp, ...callOf(id), context, ...changes })
}

function deliveryOf(
  messageId: string,
  destination: string,
  attempts: StoredDelivery['attempts'] = [{ attempt: 1, code: 'delivered', status: 204 }],
): StoredDelivery {
  return { messageId, destination, state: 'done', body: bodyOf(messageId), attempts }
}

function receiverOf(...ids: string[]): ReceiverBooks {
  const received = ids.map((id) => ({ id, body: bodyOf(id), atMs: 0 }))
  return { received, answered503: 0, wrongSignatures: 0 }
}

type Books = ReturnType<typeof booksThatAgree>

function linesOf({ app, sdk, deliveries, receivers }: Books) {
  return compare(app, sdk, deliveries, receivers)
}

describe('books that agree', () => {
  test('have no wrong line', () => {
    expect(linesOf(booksThatAgree()).filter(({ isRight }) => isRight === false)).toEqual([])
  })

  test.each([
    ['cut off in flight / come twice', { destination: 1, receiver: 1 }],
    ['attempts answered 503', { destination: 1, receiver: 1 }],
    ['attempts that met a closed port', { destination: 1 }],
  ])('count for the crm: %s', (what, counts) => {
    const about = 'from the destination to crm'
    const line = linesOf(booksThatAgree()).find(
      (line) => line.about === about && line.what === what,
    )
    expect(line).toMatchObject(counts)
  })

  test('may tell of a message that came twice after an attempt without an answer', () => {
    const books = booksThatAgree()
    books.deliveries[3] = deliveryOf('a', 'warehouse', [
      { attempt: 1, code: 'timeout', status: null },
      { attempt: 2, code: 'delivered', status: 204 },
    ])
    books.receivers.warehouse = receiverOf('a', ...IDS)
    expect(linesOf(books).filter(({ isRight }) => isRight === false)).toEqual([])
  })

  test('need not have the key order of the call in the body, nor what the client adds', () => {
    const call = { context: { ip: '::1' }, userId: 'u', type: 'page', properties: {} }
    const body = { version: 1, type: 'page', userId: 'u', timestamp: '…', properties: {} }
    expect(askedFor({ ...body, context: { ip: '::1', library: {} } })).toBe(askedFor(call))
  })
})

describe('lines are wrong', () => {
  const messages = 'warehouse: messages'
  const lost = 'warehouse: lost'
  const changed = 'warehouse: not what the call asked for'
  const twice = 'warehouse: cut off in flight / come twice'

  test.each<[when: string, spoil: (b: Books) => unknown, wrong: string[]]>([
    ['the SDK missed a call', (b) => (b.sdk.stats.accepted = 2), ['destination: calls']],
    ['the SDK gave one up', (b) => (b.sdk.stats.dropped = 1), ['destination: lost']],
    ['a report is missing', (b) => b.sdk.reports.pop(), ['destination: stored']],
    [
      'a callback had an error',
      (b) => b.app.stored.pop(),
      ['destination: stored', 'destination: lost'],
    ],
    ['a callback came twice', (b) => b.app.stored.push('a'), ['destination: stored']],
    [
      'the store has a message for one of two receivers alone',
      (b) => b.deliveries.pop(),
      [messages, lost, changed],
    ],
    [
      'a delivery is not done',
      (b) => (b.deliveries[5] = { ...deliveryOf('c', 'warehouse'), state: 'backlog' }),
      [messages, lost],
    ],
    [
      'a receiver forgot a message that it answered 204',
      (b) => b.receivers.warehouse.received.pop(),
      [messages, lost],
    ],
    [
      'a forgotten message is hidden by one that came twice',
      (b) => (b.receivers.warehouse = receiverOf('b', 'c', 'c')),
      [messages, lost, twice],
    ],
    [
      'a message came twice, and another was cut off',
      (b) => {
        const second = { attempt: 2, code: 'delivered', status: 204 } as const
        b.deliveries[3] = deliveryOf('a', 'warehouse', [second])
        b.receivers.warehouse = receiverOf(...IDS, 'c')
      },
      [twice],
    ],
    [
      'a message came that nobody called',
      (b) => (b.receivers.warehouse = receiverOf(...IDS, 'd')),
      [messages, changed],
    ],
    [
      'a body is not the one in the store',
      (b) => (b.receivers.warehouse.received[0] = { id: 'a', body: bodyOf('b'), atMs: 0 }),
      [changed],
    ],
    [
      'store and receiver agree on what was never asked for',
      (b) => {
        const body = bodyOf('a', { properties: { total: '42' } })
        b.deliveries[3] = { ...deliveryOf('a', 'warehouse'), body }
        b.receivers.warehouse.received[0] = { id: 'a', body, atMs: 0 }
      },
      [changed],
    ],
    [
      'a signature was wrong',
      (b) => b.receivers.warehouse.wrongSignatures++,
      ['warehouse: wrong signatures'],
    ],
    [
      'the store knows of a 503 that no receiver answered',
      (b) => (b.receivers.crm = receiverOf(...IDS, 'c')),
      ['crm: attempts answered 503'],
    ],
  ])('if %s', (_when, spoil, wrong) => {
    const books = booksThatAgree()
    spoil(books)
    const wrongLines = linesOf(books).filter(({ isRight }) => isRight === false)
    const names = wrongLines.map(({ about, what }) => `${about.split(' ').at(-1)}: ${what}`)
    expect(names).toEqual(wrong)
  })
})
