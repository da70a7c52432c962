import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Outcome, OutcomeCode, Verdict } from '../../src/model/outcome.js'
import { decide } from '../../src/deliver/decide.js'
import { WINDOW_MS } from '../../src/deliver/schedule.js'
import type { Delivery, Lane } from '../../src/model/delivery.js'
import { LANES } from '../../src/store/states.js'

const A = 'https://a.example.com/hook'
const B = 'https://b.example.com/hook'

const delivery: Delivery = {
  id: 7,
  attempt: 1,
  attemptsBefore: 0,
  lane: 'fresh',
  messageId: 'm1',
  source: 'web',
  destination: 'crm',
  type: 'track',
  body: '{}',
  sinceFirstMs: 0,
  refusedBy: [],
}

const VERDICTS: Partial<Record<OutcomeCode, Verdict>> = {
  delivered: 'delivered',
  client_error: 'refused',
  tls_error: 'refused',
}

function outcome(code: OutcomeCode, retryAfterMs?: number): Outcome {
  const verdict = VERDICTS[code] ?? 'retry'
  const error = verdict === 'delivered' ? undefined : `what went wrong: ${code}`
  return { code, verdict, status: undefined, ms: 3, retryAfterMs, response: 'r', error }
}

const settle = (
  outcomes: Record<string, Outcome>,
  changes: Partial<Delivery> = {},
  urls = [A, B],
  elapsedMs = 0,
) =>
  decide(
    { ...delivery, ...changes },
    elapsedMs,
    urls,
    Object.entries(outcomes).map(([url, outcome]) => ({ url, outcome })),
    () => 0,
  )

test('a refusal by former settings is not final: new ones may be accepted', () => {
  const outcomes = [{ url: A, outcome: outcome('client_error') }]
  const settled = decide(delivery, 0, [A], outcomes, () => 0, true)
  expect(settled).toMatchObject({ next: { state: 'backlog', delayMs: 2_000 }, refusedBy: [] })
  expect(settled.log).toMatchObject([{ url: A, code: 'client_error' }])
})

test('a message whose last endpoint is removed was refused in an earlier attempt', () => {
  const settled = decide({ ...delivery, refusedBy: [A] }, 0, [A], [], () => 0)
  expect(settled.next).toEqual({
    state: 'dead',
    reason: 'every endpoint refused it in an earlier attempt',
  })
})

test('a message that was refused by all former endpoints is sent to a new one soon', () => {
  const settled = decide({ ...delivery, refusedBy: [A] }, 0, [B], [], () => 0, true)
  expect(settled).toMatchObject({
    next: { state: 'backlog', delayMs: 1_000 },
    refusedBy: [A],
    isUnsent: true,
  })
})

test('whatever the settings were and are, a retry has a time', () => {
  const urls = ['a', 'b', 'c', 'd', 'e']
  const codes: OutcomeCode[] = [
    'delivered',
    'client_error',
    'server_error',
    'throttled',
    'endpoint_down',
  ]
  fc.assert(
    fc.property(
      fc.subarray(urls),
      fc.subarray(urls),
      fc.subarray(urls),
      fc.array(
        fc.tuple(fc.constantFrom(...codes), fc.option(fc.nat(100_000), { nil: undefined })),
        {
          minLength: 5,
          maxLength: 5,
        },
      ),
      fc.boolean(),
      (former, present, refusedBy, answers, isOutdated) => {
        const outcomes = former
          .filter((url) => !refusedBy.includes(url))
          .map((url, i) => ({
            url,
            outcome: outcome(answers[i]?.[0] ?? 'timeout', answers[i]?.[1]),
          }))
        const { next } = decide(
          { ...delivery, refusedBy },
          0,
          isOutdated ? present : former,
          outcomes,
          () => 0,
          isOutdated,
        )
        if ('delayMs' in next) expect(next.delayMs).toSatisfy(Number.isFinite)
        else expect(['done', 'dead']).toContain(next.state)
      },
    ),
  )
})

describe('what is next for a delivery', () => {
  test.each(['server_error', 'endpoint_down'] as const)(
    'bulk work waits in its own lane after %s, and others in the backlog',
    (code) => {
      const laneAfter = (lane: Lane) => settle({ [A]: outcome(code) }, { lane }, [A]).next.state
      expect(LANES.map(laneAfter)).toEqual(['backlog', 'backlog', 'bulk'])
    },
  )

  test.each<[string, Record<string, Outcome>, Partial<Delivery>, object, string[]]>([
    ['one success ends it', { [A]: outcome('delivered') }, {}, { state: 'done' }, []],
    [
      'a success beside a failure ends it',
      { [A]: outcome('server_error'), [B]: outcome('delivered') },
      {},
      { state: 'done' },
      [],
    ],
    [
      'a success beside a refusal ends it',
      { [A]: outcome('client_error'), [B]: outcome('delivered') },
      {},
      { state: 'done' },
      [A],
    ],
    [
      'two failures: again after the schedule',
      { [A]: outcome('server_error'), [B]: outcome('timeout') },
      {},
      { state: 'backlog', delayMs: 2_000 },
      [],
    ],
    [
      'a refusal beside a failure: again, without the one that refused',
      { [A]: outcome('client_error'), [B]: outcome('timeout') },
      {},
      { state: 'backlog', delayMs: 2_000 },
      [A],
    ],
    [
      'the last endpoint refuses: dead, with its reason',
      { [B]: outcome('client_error') },
      { attempt: 2, refusedBy: [A] },
      { state: 'dead', reason: 'every endpoint refused it: what went wrong: client_error' },
      [A, B],
    ],
    [
      'an untrusted certificate is no reason to try again',
      { [A]: outcome('tls_error'), [B]: outcome('tls_error') },
      {},
      { state: 'dead', reason: 'every endpoint refused it: what went wrong: tls_error' },
      [A, B],
    ],
    [
      'Retry-After delays',
      { [A]: outcome('throttled', 60_000) },
      { refusedBy: [B] },
      { state: 'backlog', delayMs: 60_000 },
      [B],
    ],
    [
      'the endpoint that asks for less decides when',
      { [A]: outcome('throttled', 60_000), [B]: outcome('server_error') },
      {},
      { state: 'backlog', delayMs: 2_000 },
      [],
    ],
    [
      'the fifth attempt waits for two minutes',
      { [A]: outcome('timeout'), [B]: outcome('timeout') },
      { attempt: 5, sinceFirstMs: 67_000 },
      { state: 'backlog', delayMs: 120_000 },
      [],
    ],
    [
      'the window is over: dead, with the last reason',
      { [A]: outcome('timeout'), [B]: outcome('server_error') },
      { attempt: 20, sinceFirstMs: WINDOW_MS },
      {
        state: 'dead',
        reason: 'not delivered within 4 hours: what went wrong: server_error',
      },
      [],
    ],
    [
      'nothing could be sent: again, however late it is',
      { [A]: outcome('endpoint_down'), [B]: outcome('endpoint_busy') },
      { attempt: 20, sinceFirstMs: 2 * WINDOW_MS },
      { state: 'backlog', delayMs: 1_000 },
      [],
    ],
    [
      'nothing could be sent: again when the first endpoint may be probed',
      { [A]: outcome('endpoint_down', 30_000), [B]: outcome('endpoint_down', 12_000) },
      {},
      { state: 'backlog', delayMs: 12_000 },
      [],
    ],
  ])('%s', (_, outcomes, changes, next, refusedBy) => {
    const settlement = settle(outcomes, changes)
    expect(settlement).toMatchObject({ id: 7, attempt: changes.attempt ?? 1, next, refusedBy })
  })

  test('the time that the attempt took counts', () => {
    const changes = { attempt: 20, sinceFirstMs: WINDOW_MS - 5_000 }
    const failed = { [A]: outcome('timeout'), [B]: outcome('timeout') }
    expect(settle(failed, changes).next).toEqual({ state: 'backlog', delayMs: 5_000 })
    expect(settle(failed, changes, [A, B], 5_000).next).toMatchObject({ state: 'dead' })
  })

  test('endpoints that the settings have no more are not waited for', () => {
    expect(settle({ [A]: outcome('client_error') }, { refusedBy: [B] }, [A]).next).toMatchObject({
      state: 'dead',
    })
  })

  test('a new endpoint is tried although all before refused it', () => {
    const settlement = settle({ [A]: outcome('server_error') }, { refusedBy: [B] }, [A])
    expect(settlement.next).toEqual({ state: 'backlog', delayMs: 2_000 })
  })
})

test('the log has what came of each endpoint', () => {
  const { log } = settle({ [A]: { ...outcome('delivered'), status: 204 }, [B]: outcome('timeout') })
  expect(log).toEqual([
    { url: A, code: 'delivered', status: 204, ms: 3, error: null, response: 'r' },
    {
      url: B,
      code: 'timeout',
      status: null,
      ms: 3,
      error: 'what went wrong: timeout',
      response: 'r',
    },
  ])
})

test('the log has nothing of a claim that sent nothing', () => {
  const { log } = settle({ [A]: outcome('endpoint_down'), [B]: outcome('endpoint_busy') })
  expect(log).toEqual([])
})
