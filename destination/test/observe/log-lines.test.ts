import { expect, test } from 'vitest'
import type { Delivery } from '../../src/model/delivery.js'
import type { Outcome } from '../../src/model/outcome.js'
import { logLines } from '../../src/observe/log-lines.js'
import { StoreError } from '../../src/store/store-error.js'
import { silent } from '../run.js'

test('an attempt that failed has one line: what was tried where, how it ended, and when the next one is due', () => {
  const lines: object[] = []
  const { attempted } = logLines({ ...silent, warn: (details) => void lines.push(details) })
  const ids = { messageId: 'm', source: 'web', destination: 'crm' }
  const outcome: Outcome = {
    ...{ code: 'server_error', verdict: 'retry', status: 503, ms: 12.4 },
    ...{ retryAfterMs: undefined, response: 'no room', error: 'HTTP 503' },
  }
  attempted?.(
    { ...ids, attempt: 2 } as Delivery,
    [{ url: 'https://a.example.com/hook?key=s3cret', outcome }],
    { state: 'backlog', delayMs: 5_000.4 },
  )
  expect(lines).toEqual([
    {
      ...ids,
      ...{ endpoint: 'https://a.example.com/hook', attempt: 2 },
      ...{ code: 'server_error', status: 503, ms: 12, next: 'backlog', nextInMs: 5_000 },
      error: 'HTTP 503',
    },
  ])
})

test('messages that expired have one line for each destination', () => {
  const lines: unknown[] = []
  const { expired } = logLines({ ...silent, error: (...line) => void lines.push(line) })
  expired?.('crm', 30)
  expect(lines).toEqual([
    [{ destination: 'crm', count: 30, reason: 'older than the retention' }, 'dead letters'],
  ])
})

test('a message has its line as a dead letter once the store has it as one, and not when its attempt ends', () => {
  const lines: unknown[] = []
  const log = { ...silent, error: (...line: unknown[]) => void lines.push(line) }
  const { attempted, messagesEnded } = logLines(log)
  const ids = { messageId: 'm', source: 'web', destination: 'crm', attempt: 2 }
  const delivery = ids as Delivery
  const next = { state: 'dead', reason: 'every endpoint refused it' } as const
  attempted?.(delivery, [], next)
  expect(lines).toEqual([])
  messagesEnded?.([
    { delivery, next },
    { delivery, next: { state: 'done' } },
  ])
  expect(lines).toEqual([[{ ...ids, reason: next.reason }, 'dead letter']])
})

test('each reason for which the store takes no calls has one line, up to ten, until it takes calls again', () => {
  const lines: unknown[] = []
  const log = { ...silent, error: ({ error }: { error?: unknown }) => void lines.push(error) }
  const { callsNotAccepted, callsAccepted } = logLines(log)
  const fail = (...texts: string[]) => {
    for (const text of texts) callsNotAccepted?.(new StoreError('failed', text))
  }
  fail('no answer', 'no answer', 'cancelled', 'no answer', 'cancelled')
  expect(lines).toEqual(['no answer', 'cancelled'])
  callsAccepted?.('web', [])
  fail('no answer', ...Array.from({ length: 20 }, (_, n) => `block ${n}`))
  expect(lines.slice(2)).toEqual([
    'no answer',
    ...Array.from({ length: 9 }, (_, n) => `block ${n}`),
  ])
})
