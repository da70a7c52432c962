import { describe, expect, test } from 'vitest'
import type { CallType } from '../../src/model/call.js'
import { normalise, type Shared } from '../../src/collect/normalise.js'

const RECEIVED_AT = Date.parse('2026-01-02T12:00:00.000Z')
const UUID_V4 = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/

const shared = (given: Partial<Shared> = {}): Shared => ({
  type: undefined,
  context: undefined,
  integrations: undefined,
  skewMs: 0,
  receivedAt: RECEIVED_AT,
  ...given,
})
const base = {
  type: 'track',
  messageId: 'm',
  timestamp: '2026-01-02T03:04:05.678Z',
  userId: 'u',
  event: 'E',
}
const same = { ...base }

describe('a call', () => {
  test.each<[string, object, object]>([
    ['as it is', base, same],
    [
      'without what no call has',
      { ...base, channel: 'server', _metadata: {}, options: {}, groupId: 'g' },
      same,
    ],
    [
      'without null',
      { ...base, properties: null, context: null, anonymousId: null, integrations: null },
      same,
    ],
    ['without empty ids', { ...base, anonymousId: '' }, same],
    ['whatever case its type is in', { ...base, type: 'Track' }, same],
    [
      'with digits for the number of an id',
      { ...base, userId: 42, anonymousId: 0 },
      { ...same, userId: '42', anonymousId: '0' },
    ],
    [
      'with digits for the number of a messageId',
      { ...base, messageId: 7 },
      { ...same, messageId: '7' },
    ],
    [
      'with the longest messageId',
      { ...base, messageId: 'é'.repeat(100) },
      { ...same, messageId: 'é'.repeat(100) },
    ],
    [
      'with all that a track has',
      {
        ...base,
        anonymousId: 'a',
        properties: { p: 1 },
        context: { c: 1 },
        integrations: { All: true },
      },
      {
        ...same,
        anonymousId: 'a',
        properties: { p: 1 },
        context: { c: 1 },
        integrations: { All: true },
      },
    ],
  ])('is taken %s', (_how, message, call) => {
    expect(normalise(message, shared())).toEqual(call)
  })

  const common = { messageId: 'm', timestamp: base.timestamp, userId: 'u' }
  test.each<[string, object, object?]>([
    ['identify', { type: 'identify', ...common, traits: { t: 1 } }],
    [
      "identify with its own traits, not its context's",
      { type: 'identify', ...common, traits: { t: 1 }, context: { traits: { t: 2 } } },
    ],
    [
      'identify with the traits of its context alone',
      { type: 'identify', ...common, context: { traits: { t: 2 } } },
      { type: 'identify', ...common, context: { traits: { t: 2 } }, traits: { t: 2 } },
    ],
    ['page', { type: 'page', ...common, name: 'n', category: '', properties: { url: 'x' } }],
    [
      'page with traits',
      { type: 'page', ...common, traits: { url: 'x' } },
      { type: 'page', ...common, properties: { url: 'x' } },
    ],
    ['screen', { type: 'screen', ...common, name: 'n', category: 'c', properties: {} }],
    ['group', { type: 'group', ...common, groupId: 'g', traits: { t: 1 } }],
    [
      'group with the number of an id',
      { type: 'group', ...common, groupId: 5 },
      { type: 'group', ...common, groupId: '5' },
    ],
    ['alias', { type: 'alias', ...common, previousId: 'p' }],
    [
      'alias with the number of an id',
      { type: 'alias', ...common, previousId: 5 },
      { type: 'alias', ...common, previousId: '5' },
    ],
    [
      'page of someone unknown',
      { type: 'page', messageId: 'm', timestamp: base.timestamp, anonymousId: 'a' },
    ],
  ])('is taken as %s', (_type, message, call = message) => {
    expect(normalise(message, shared())).toEqual(call)
  })

  test('without a messageId gets one of its own', () => {
    const ids = [undefined, null, '', undefined].map(
      (messageId) => normalise({ ...base, messageId }, shared()).messageId,
    )
    expect(new Set(ids).size).toBe(4)
    for (const id of ids) expect(id).toMatch(UUID_V4)
  })

  test('gets the type of its route where it has none', () => {
    const untyped = { ...base, type: undefined }
    expect(normalise(untyped, shared({ type: 'track' }))).toEqual(same)
    expect(normalise(base, shared({ type: 'track' }))).toEqual(same)
  })

  test('keeps a key __proto__ a key, also where a batch adds to it', () => {
    const message = JSON.parse(
      '{"type":"track","userId":"u","event":"E","context":{"__proto__":{"admin":1}},"__proto__":{"anonymousId":"x"}}',
    ) as object
    const batch = JSON.parse('{"__proto__":{"admin":2},"ip":"::"}') as Record<string, unknown>
    const call = normalise(message, shared({ context: batch }))
    expect(call.anonymousId).toBeUndefined()
    expect(JSON.stringify(call.context)).toBe('{"__proto__":{"admin":1},"ip":"::"}')
    expect(call.context?.['admin']).toBeUndefined()
    expect(({} as { admin?: unknown }).admin).toBeUndefined()
  })
})

describe('what a batch says for all', () => {
  const batch = shared({
    context: { ip: '::', locale: 'de' },
    integrations: { All: false, Webhooks: true },
  })

  test('is added to each call', () => {
    expect(normalise(base, batch)).toEqual({
      ...same,
      context: { ip: '::', locale: 'de' },
      integrations: { All: false, Webhooks: true },
    })
  })

  test("gives way to the call's own", () => {
    const message = {
      ...base,
      context: { locale: 'fr', app: {} },
      integrations: { Webhooks: false },
    }
    expect(normalise(message, batch)).toEqual({
      ...same,
      context: { ip: '::', locale: 'fr', app: {} },
      integrations: { All: false, Webhooks: false },
    })
  })
})

describe('the time of a call', () => {
  const time = (message: object, given?: Partial<Shared>) =>
    normalise({ ...base, timestamp: undefined, ...message }, shared(given)).timestamp
  const HOUR = 3_600_000

  test.each<[string, object, number, string]>([
    ['now where none came', {}, 0, '2026-01-02T12:00:00.000Z'],
    [
      "now, by the clock here, also where the client's is wrong",
      {},
      HOUR,
      '2026-01-02T12:00:00.000Z',
    ],
    ['its timestamp', { timestamp: '2026-01-02T03:04:05.678Z' }, 0, '2026-01-02T03:04:05.678Z'],
    [
      'its timestamp in UTC',
      { timestamp: '2026-01-02T03:04:05+0100' },
      0,
      '2026-01-02T02:04:05.000Z',
    ],
    [
      'its timestamp, corrected',
      { timestamp: '2026-01-02T03:04:05.678Z' },
      HOUR,
      '2026-01-02T04:04:05.678Z',
    ],
    [
      'its originalTimestamp',
      { originalTimestamp: '2026-01-02T03:04:05.678Z' },
      0,
      '2026-01-02T03:04:05.678Z',
    ],
    [
      'its originalTimestamp, corrected',
      { originalTimestamp: '2026-01-02T03:04:05.678Z' },
      -HOUR,
      '2026-01-02T02:04:05.678Z',
    ],
    [
      "what the caller said, uncorrected, where the clock's time is beside it",
      { timestamp: '2020-01-01T00:00:00.000Z', originalTimestamp: '2026-01-02T03:04:05.678Z' },
      HOUR,
      '2020-01-01T00:00:00.000Z',
    ],
    [
      "corrected by its own sentAt rather than its batch's",
      { timestamp: '2026-01-02T03:04:05.678Z', sentAt: '2026-01-02T11:00:00.000Z' },
      -HOUR,
      '2026-01-02T04:04:05.678Z',
    ],
    [
      'exact where the way took a while',
      { timestamp: '2026-01-02T03:04:05.678Z', sentAt: '2026-01-02T11:59:30.000Z' },
      0,
      '2026-01-02T03:04:05.678Z',
    ],
  ])('is %s', (_what, message, skewMs, expected) => {
    expect(time(message, { skewMs })).toBe(expected)
  })
})

describe('a call is refused', () => {
  test.each<[string, unknown, string, string, CallType?]>([
    ['that is null', null, 'invalid_call', 'A call must be an object, got null.'],
    ['that is an array', [base], 'invalid_call', 'A call must be an object, got an array.'],
    ['that is a text', 'track', 'invalid_call', 'A call must be an object, got "track".'],
    [
      'without a type',
      { ...base, type: undefined },
      'unknown_type',
      'type must be one of identify, track, page, screen, group, alias; got undefined.',
    ],
    [
      'of another type',
      { ...base, type: 'merge' },
      'unknown_type',
      'type must be one of identify, track, page, screen, group, alias; got "merge".',
    ],
    [
      'whose type is no text',
      { ...base, type: ['track'] },
      'unknown_type',
      'type must be one of identify, track, page, screen, group, alias; got an array.',
    ],
    [
      "whose type is not its route's",
      base,
      'invalid_field',
      'type must be left out or "page" at /v1/page; got "track".',
      'page',
    ],
    [
      'of nobody',
      { ...base, userId: '' },
      'missing_field',
      'track needs a userId or an anonymousId, a non-empty string; got neither.',
    ],
    [
      'without an event',
      { ...base, event: undefined },
      'missing_field',
      'track needs event, a non-empty string; got none.',
    ],
    [
      'with an empty event',
      { ...base, event: '' },
      'missing_field',
      'track needs event, a non-empty string; got none.',
    ],
    [
      'whose event is a number',
      { ...base, event: 5 },
      'invalid_field',
      'event must be a string; got 5.',
    ],
    [
      'without a group',
      { ...base, type: 'group' },
      'missing_field',
      'group needs groupId, a non-empty string; got none.',
    ],
    [
      'without a previous id',
      { ...base, type: 'alias' },
      'missing_field',
      'alias needs previousId, a non-empty string; got none.',
    ],
    [
      'that is an alias of nobody',
      { ...base, type: 'alias', previousId: 'p', userId: null, anonymousId: 'a' },
      'missing_field',
      'alias needs userId, a non-empty string; got none.',
    ],
    [
      'whose id lost digits',
      { ...base, userId: 12345678901234567890 },
      'invalid_field',
      'userId must be a string or a whole number below 2^53; got 12345678901234567000.',
    ],
    [
      'whose id is no id',
      { ...base, anonymousId: {} },
      'invalid_field',
      'anonymousId must be a string or a whole number below 2^53; got an object.',
    ],
    [
      'whose id is infinite',
      { ...base, userId: Infinity },
      'invalid_field',
      'userId must be a string or a whole number below 2^53; got Infinity.',
    ],
    [
      'whose id no database holds',
      { ...base, userId: 'a\0' },
      'invalid_field',
      'userId must be free of NUL characters; got "a\\u0000".',
    ],
    [
      'whose messageId is too long',
      { ...base, messageId: 'x'.repeat(101) },
      'invalid_field',
      `messageId must be at most 100 characters long; got "${'x'.repeat(40)}"… (101 characters).`,
    ],
    [
      'whose messageId would end a header',
      { ...base, messageId: 'a\r\nb' },
      'invalid_field',
      'messageId must be free of control characters; got "a\\r\\nb".',
    ],
    [
      'whose timestamp is none',
      { ...base, timestamp: '2026-02-30' },
      'invalid_field',
      'timestamp must be ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from 100000000000 (a lower one is probably in seconds) to 253402300799999; got "2026-02-30".',
    ],
    [
      'whose timestamp is in seconds',
      { ...base, timestamp: 1767323045 },
      'invalid_field',
      'timestamp must be ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from 100000000000 (a lower one is probably in seconds) to 253402300799999; got 1767323045.',
    ],
    [
      'whose timestamp is just below the lowest number',
      { ...base, timestamp: 99_999_999_999 },
      'invalid_field',
      'timestamp must be ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from 100000000000 (a lower one is probably in seconds) to 253402300799999; got 99999999999.',
    ],
    [
      'whose timestamp is just above the highest number',
      { ...base, timestamp: 253_402_300_800_000 },
      'invalid_field',
      'timestamp must be ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from 100000000000 (a lower one is probably in seconds) to 253402300799999; got 253402300800000.',
    ],
    [
      'whose originalTimestamp is none',
      { ...base, timestamp: null, originalTimestamp: '' },
      'invalid_field',
      'originalTimestamp must be ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from 100000000000 (a lower one is probably in seconds) to 253402300799999; got "".',
    ],
    [
      'whose properties are a list',
      { ...base, properties: [] },
      'invalid_field',
      'properties must be an object; got an array.',
    ],
    [
      'whose traits are a text',
      { ...base, type: 'identify', traits: 'x' },
      'invalid_field',
      'traits must be an object; got "x".',
    ],
    [
      'whose context is a number',
      { ...base, context: 1 },
      'invalid_field',
      'context must be an object; got 1.',
    ],
    [
      'whose integrations are false',
      { ...base, integrations: false },
      'invalid_field',
      'integrations must be an object; got false.',
    ],
    [
      'whose name is a number',
      { ...base, type: 'page', name: 1 },
      'invalid_field',
      'name must be a string; got 1.',
    ],
  ])('%s', (_what, message, code, text, type) => {
    expect(() => normalise(message, shared({ type }))).toThrow(
      expect.objectContaining({ code, message: text }),
    )
  })
})
