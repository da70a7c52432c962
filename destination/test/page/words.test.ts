import { describe, expect, test } from 'vitest'
import {
  NO_MESSAGES,
  type BreakerStatus,
  type Bucket,
  type DestinationStatus,
  type EndpointStatus,
  type EndpointHistories,
  type Status,
} from '../../src/model/answers.js'
import type { OutcomeCode } from '../../src/model/outcome.js'
import { healthInWords, missing, sentences, verb } from '../../page/words.js'
import { clockMinute } from '../../page/format.js'

const NOW = Date.UTC(2026, 10, 21, 12, 30)
const URL = 'https://crm.example.com/in'

const breakerOf = (changes: Partial<BreakerStatus> = {}): BreakerStatus => ({
  state: 'closed',
  allowed: 128,
  inFlight: 0,
  waiting: 0,
  requestsPerSecond: null,
  pausedMs: 0,
  ...changes,
})

const endpoint = (changes: Partial<EndpointStatus> = {}): EndpointStatus => ({
  url: URL,
  breaker: breakerOf(),
  delivered: 0,
  failed: 0,
  p50Ms: null,
  p99Ms: null,
  lastFailure: null,
  failuresInARow: 0,
  deliveredInARow: 0,
  ...changes,
})

const crm = (changes: Partial<DestinationStatus> = {}): DestinationStatus => ({
  name: 'crm',
  enabled: true,
  paused: null,
  sources: ['web'],
  filters: null,
  ...NO_MESSAGES,
  endpoints: [endpoint()],
  ...changes,
})

const status = (changes: Partial<Status> = {}): Status => ({
  version: '0.1.0',
  startedAt: NOW - 3_600_000,
  now: NOW,
  access: 'reader',
  store: 'sqlite',
  role: 'all',
  retentionMs: 0,
  sources: [{ name: 'web', accepted: 1_000, rejected: 0 }],
  destinations: [crm()],
  formerDestinations: [],
  ...changes,
})

const bucket = (minutesAgo: number, changes: Partial<Bucket> = {}): Bucket => ({
  at: NOW - minutesAgo * 60_000,
  delivered: 0,
  failed: 0,
  busy: 0,
  p50Ms: null,
  p99Ms: null,
  breaker: 'closed',
  ...changes,
})

const health = (buckets: Bucket[]): EndpointHistories => ({
  bucketMs: 60_000,
  endpoints: [{ destination: 'crm', url: URL, buckets }],
})

const failing = (code: OutcomeCode, answered: number | null): Partial<EndpointStatus> => ({
  lastFailure: { at: NOW - 1_000, code, status: answered, error: null },
})

const NO_HISTORY: EndpointHistories = { bucketMs: 60_000, endpoints: [] }

const sentencesOf = (given: Status, histories: EndpointHistories = NO_HISTORY) =>
  sentences({ ...given, histories })

const textsOf = (...given: Parameters<typeof sentencesOf>) =>
  sentencesOf(...given).map(({ weight, subject, text }) => `${weight} ${subject}: ${text}`)

const down = (state: 'open', backlog: number, changes: Partial<EndpointStatus> = {}) => {
  const breaker = breakerOf({ state, allowed: 1 })
  return crm({ backlog, endpoints: [endpoint({ breaker, ...changes })] })
}

test('when everything is healthy there is no sentence', () => {
  expect(sentencesOf(status(), health([bucket(1, { delivered: 50 })]))).toEqual([])
})

test('a server of the store that fails is named, and what it holds up', () => {
  const servers = [
    { name: 'a', error: null },
    { name: 'b', error: 'nothing listens there' },
  ]
  expect(textsOf(status({ servers }))).toEqual([
    'bad b: is a server of the store that fails. Calls of its sources are refused, and its messages wait. nothing listens there',
  ])
  expect(missing(['b', 'c'])).toMatch(/^The servers b, c of the store/)
  expect(missing([])).toMatch(/^A part of the store/)
})

describe('an endpoint that is down', () => {
  test.each(['open', 'open'] as const)(
    '(%s) is described by its answer, the time since it is down, and the number of waiting calls',
    (state) => {
      const buckets = [
        bucket(60, { breaker: 'open' }),
        bucket(28, { delivered: 9 }),
        bucket(27, { breaker: 'open' }),
        bucket(26, { breaker: 'open' }),
        // The minute that has just begun, in which nobody has looked yet.
        bucket(0),
      ]
      const since = clockMinute(NOW - 27 * 60_000, NOW)
      const destinations = [down(state, 1_204, failing('server_error', 503))]
      expect(textsOf(status({ destinations }), health(buckets))).toEqual([
        `bad crm: crm.example.com/in answers 503 since ${since}; one call at a time is sent as a probe, at intervals of up to 30 s; 1,204 calls are waiting.`,
      ])
    },
  )

  test('is said to be down for an hour or longer where the history does not reach further back', () => {
    const buckets = Array.from({ length: 60 }, (_, i) => bucket(59.5 - i, { breaker: 'open' }))
    const destinations = [down('open', 0, failing('timeout', null))]
    expect(textsOf(status({ destinations }), health(buckets))).toEqual([
      'bad crm: crm.example.com/in does not answer in time for an hour or longer; one call at a time is sent as a probe, at intervals of up to 30 s.',
    ])
  })

  test('is said to be down even without a history', () => {
    expect(textsOf(status({ destinations: [down('open', 0)] }), undefined)).toEqual([
      'bad crm: crm.example.com/in is down; one call at a time is sent as a probe, at intervals of up to 30 s.',
    ])
  })
})

test('filters that let nothing through are named, and others are not', () => {
  const withFilters = (passed: number, stopped: number) =>
    textsOf(status({ destinations: [crm({ filters: { passed, stopped } })] }))
  expect(withFilters(0, 1_204)).toEqual([
    'warn crm: Its filters have let none of 1,204 calls through. Check them in the settings.',
  ])
  expect(withFilters(0, 99)).toEqual([])
  expect(withFilters(1, 1_204)).toEqual([])
})

test('an endpoint that asked for a pause is said to be paused, and for how long', () => {
  const breaker = breakerOf({ allowed: 0, requestsPerSecond: 75, pausedMs: 19_500 })
  const throttled = crm({ backlog: 3, endpoints: [endpoint({ breaker })] })
  expect(textsOf(status({ destinations: [throttled] }), undefined)).toEqual([
    'warn crm: crm.example.com/in asked for fewer requests: it gets the next one in 20 s; 3 calls are waiting.',
  ])
  const open = breakerOf({ state: 'open', allowed: 0, pausedMs: 290_000 })
  const failing = {
    lastFailure: { at: NOW, code: 'server_error', status: 503, error: null },
  } as const
  const paused = crm({ endpoints: [endpoint({ breaker: open, ...failing })] })
  expect(textsOf(status({ destinations: [paused] }), undefined)).toEqual([
    expect.stringContaining('it asked for a pause, and the next call is sent in 290 s'),
  ])
})

test('an endpoint that recovers is a note', () => {
  const breaker = breakerOf({ state: 'half-open', allowed: 4, inFlight: 4 })
  const back = crm({ fresh: 100, backlog: 200, endpoints: [endpoint({ breaker })] })
  expect(textsOf(status({ destinations: [back] }), undefined)).toEqual([
    'note crm: crm.example.com/in is recovering: it gets 4 requests at once, and more after each success; 300 calls are waiting.',
  ])
})

test('an endpoint that fails now and then is a warning from one failure in twenty on, in the last minutes', () => {
  const after = (failed: number) => [
    bucket(30, { failed: 500 }),
    bucket(2, { delivered: 100 - failed, failed }),
  ]
  const destinations = [crm({ endpoints: [endpoint(failing('timeout', null))] })]
  expect(textsOf(status({ destinations }), health(after(4)))).toEqual([])
  expect(textsOf(status({ destinations }), health(after(5)))).toEqual([
    'warn crm: crm.example.com/in: 5 of 100 requests failed in the last 5 minutes; sometimes it does not answer in time.',
  ])
})

test('a call that is close to its deadline is reported with the time that is left', () => {
  const late = crm({ oldestMs: 3.5 * 3_600_000, backlog: 1 })
  expect(textsOf(status({ destinations: [late] }), undefined)).toEqual([
    'bad crm: The oldest call has waited for 3 h 30 min. It becomes a dead letter in 30 min.',
  ])
})

test('what is kept for a destination that the settings no longer have is reported', () => {
  const former = [
    { ...NO_MESSAGES, name: 'waits', fresh: 1, backlog: 2, dead: 1 },
    { ...NO_MESSAGES, name: 'dead', dead: 2 },
  ]
  const back =
    'but the settings no longer have this destination. Put it back under this name to send them.'
  expect(textsOf(status({ formerDestinations: former }), undefined)).toEqual([
    `bad waits: 3 calls are waiting and 1 dead letter is kept, ${back}`,
    `warn dead: 2 dead letters are kept, ${back}`,
  ])
})

test('the most important sentence comes first', () => {
  const { endpoints } = down('open', 0)
  const sources = [{ name: 'web', accepted: 1_000_000, rejected: 1 }]
  const found = sentencesOf(
    status({ sources, destinations: [crm({ dead: 2, enabled: false, endpoints })] }),
    undefined,
  )
  expect(found.map(({ weight }) => weight)).toEqual(['bad', 'warn', 'note', 'note'])
})

test('the sentence about dead letters links to their list', () => {
  const name = 'a & b'
  const [found] = sentencesOf(status({ destinations: [crm({ name, dead: 1 })] }), undefined)
  expect(found).toMatchObject({
    text: '1 dead letter. Dead letters are sent again only if you replay them.',
    href: '#/deliveries?state=dead&destination=a%20%26%20b',
  })
})

test.each([
  ['server_error', 503, 'answers 503'],
  ['request_timeout', 408, 'answers 408'],
  ['client_error', 410, 'answers 410'],
  ['redirect', 302, 'answers 302'],
  ['connection_refused', null, 'refuses connections'],
  ['a_code_of_tomorrow', null, 'fails'],
])('%s (%s) reads %j', (code, answered, words) => {
  expect(verb({ code, status: answered })).toBe(words)
})

describe('an endpoint whose requests all fail', () => {
  const buckets = [bucket(3, { failed: 4 }), bucket(1, { failed: 8 })]

  test('is bad although its breaker is closed, and the sentence leads to its failures', () => {
    const endpoints = [endpoint({ ...failing('client_error', 422), failuresInARow: 12 })]
    const [found] = sentencesOf(status({ destinations: [crm({ endpoints })] }), health(buckets))
    expect(found).toEqual({
      weight: 'bad',
      subject: 'crm',
      text: 'crm.example.com/in fails 100 %: 12 of 12 requests failed in the last 5 minutes; it answers 422.',
      href: `#/deliveries?destination=crm&endpoint=${encodeURIComponent(URL)}&code=client_error`,
    })
  })

  test('is only worth a look once a request has succeeded', () => {
    const endpoints = [endpoint({ failuresInARow: 0 })]
    const [found] = sentencesOf(status({ destinations: [crm({ endpoints })] }), health(buckets))
    expect(found?.weight).toBe('warn')
  })

  test('is recovering once it delivers again and again, and no more said to fail', () => {
    const after = [bucket(3, { failed: 4 }), bucket(1, { delivered: 10 })]
    const endpoints = [endpoint({ ...failing('server_error', 503), deliveredInARow: 10 })]
    const destinations = [crm({ endpoints, backlog: 2 })]
    expect(textsOf(status({ destinations }), health(after))).toEqual([
      'note crm: crm.example.com/in is recovering: 4 of 14 requests failed in the last 5 minutes, and the last 10 were delivered; 2 calls are waiting.',
    ])
  })

  test('is judged by its last minute with requests if there are few', () => {
    const endpoints = [endpoint({ failuresInARow: null })]
    expect(
      textsOf(
        status({ destinations: [crm({ endpoints })] }),
        health([bucket(40, { delivered: 9 }), bucket(20, { failed: 1 }), bucket(0)]),
      ),
    ).toEqual([
      'bad crm: crm.example.com/in fails 100 %: 1 of 1 request failed in its last minute with requests.',
    ])
  })

  test('is called failing, with the share', () => {
    expect(healthInWords('failing', 1)).toBe('failing 100 %')
    expect(healthInWords('unsteady', 0.125)).toBe('failing 12.5 %')
    expect(healthInWords('healthy', 0)).toBe('healthy')
    expect(healthInWords('down', 1)).toBe('down')
  })
})
