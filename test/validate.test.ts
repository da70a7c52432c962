import { describe, expect, onTestFinished, test } from 'vitest'
import { HooklineError, ValidationError, type MessageType } from '../src/index.js'
import { createClient, scriptedFetch, thrownBy, turns } from './collector.js'

type Fields = Record<string, unknown>

const valid: Record<MessageType, Fields> = {
  identify: { userId: 'u' },
  track: { userId: 'u', event: 'e' },
  page: { userId: 'u' },
  screen: { userId: 'u' },
  group: { userId: 'u', groupId: 'g' },
  alias: { userId: 'u', previousId: 'p' },
}
const types = Object.keys(valid) as MessageType[]

/** Calls a method as JavaScript may. */
function call(type: MessageType, given: unknown, ...rest: unknown[]): unknown {
  const analytics = createClient(scriptedFetch())
  return Reflect.apply(analytics[type].bind(analytics), undefined, [given, ...rest])
}

function refusal(type: MessageType, given: unknown, ...rest: unknown[]): ValidationError {
  const error = thrownBy(() => call(type, given, ...rest))
  expect(error).toBeInstanceOf(ValidationError)
  expect(error).toBeInstanceOf(HooklineError)
  expect(error).toMatchObject({ name: 'ValidationError', code: 'invalid_message' })
  return error as ValidationError
}

const ADVICE = / Pass String\(\w+\)\.$/
const not = {
  /** What is no non-empty string, and how messages call it. */
  text: [
    ['', '""'],
    [null, 'null'],
    [7, '7'],
    [0, '0'],
    [NaN, 'NaN'],
    [7n, '7n'],
    [true, 'true'],
    [{}, 'a plain object'],
    [[], 'an array'],
    [['u'], 'an array'],
    [new Date(0), 'an instance of Date'],
    [Symbol('u'), 'a symbol'],
    [() => 'u', 'a function'],
    [Object('u'), 'an instance of String'],
  ],
  label: [
    [null, 'null'],
    [7, '7'],
    [false, 'false'],
    [{}, 'a plain object'],
    [[], 'an array'],
  ],
  object: [
    [null, 'null'],
    ['', '""'],
    ['{}', '"{}"'],
    [7, '7'],
    [true, 'true'],
    [[], 'an array'],
    [[{}], 'an array'],
    [new Map(), 'an instance of Map'],
    [new Set(), 'an instance of Set'],
    [new Date(0), 'an instance of Date'],
    [new (class User extends Object {})(), 'an instance of User'],
    [new Error('x'), 'an instance of Error'],
    [() => ({}), 'a function'],
    [Buffer.from('x'), 'an instance of Buffer'],
    [Promise.resolve({}), 'an instance of Promise'],
  ],
} satisfies Record<string, [given: unknown, came: string][]>

const TEXT = 'a non-empty string'
const fields: { field: string; of: MessageType[]; rule: string; refused: [unknown, string][] }[] = [
  { field: 'userId', of: types, rule: TEXT, refused: not.text },
  { field: 'anonymousId', of: types, rule: TEXT, refused: not.text },
  { field: 'messageId', of: types, rule: TEXT, refused: not.text },
  { field: 'event', of: ['track'], rule: TEXT, refused: not.text },
  { field: 'groupId', of: ['group'], rule: TEXT, refused: not.text },
  { field: 'previousId', of: ['alias'], rule: TEXT, refused: not.text },
  { field: 'name', of: ['page', 'screen'], rule: 'a string', refused: not.label },
  { field: 'category', of: ['page', 'screen'], rule: 'a string', refused: not.label },
  {
    field: 'properties',
    of: ['track', 'page', 'screen'],
    rule: 'a plain object',
    refused: not.object,
  },
  {
    field: 'traits',
    of: ['identify', 'group', 'page', 'screen'],
    rule: 'a plain object',
    refused: not.object,
  },
  { field: 'context', of: types, rule: 'a plain object', refused: not.object },
  { field: 'integrations', of: types, rule: 'a plain object', refused: not.object },
]

describe.each(fields)('$field', ({ field, of, rule, refused }) => {
  test.each(refused.map(([given, came]) => [came, given]))('refuses %s', (came, given) => {
    for (const type of of) {
      const error = refusal(type, { ...valid[type], [field]: given })
      expect(error.field).toBe(field)
      const expected = `${type}() needs ${field} to be ${rule}, got ${came}.`
      expect(error.message.slice(0, expected.length)).toBe(expected)
    }
  })
})

/** An object that counts as plain, as one of another realm does: what it inherits from inherits nothing. */
const inheriting = (properties: object): unknown =>
  Object.create(Object.assign(Object.create(null) as object, properties))

test('what a library has added to Object.prototype is no field of a message', () => {
  Object.assign(Object.prototype, { legacyHelper: () => undefined })
  onTestFinished(() => {
    delete (Object.prototype as { legacyHelper?: unknown }).legacyHelper
  })
  expect(() => call('track', valid.track)).not.toThrow()
})

test.each(['properties', 'context', 'integrations'])(
  '%s with a method toJSON is refused, whatever that returns',
  (field) => {
    for (const json of ['text', [1], undefined, { a: 1 }]) {
      for (const value of [{ toJSON: () => json }, inheriting({ toJSON: () => json })]) {
        expect(refusal('track', { ...valid.track, [field]: value })).toMatchObject({
          field,
          message: expect.stringMatching(
            /without a method toJSON.* Pass what toJSON\(\) returns\./,
          ) as unknown,
        })
      }
    }
    expect(() => call('track', { ...valid.track, [field]: { toJSON: true } })).not.toThrow()
  },
)

test.each(['userId', 'anonymousId', 'event', 'groupId', 'previousId', 'messageId'])(
  'a number as %s is refused with advice',
  (field) => {
    const type = types.find((name) => field in valid[name]) ?? 'track'
    for (const given of [7, 0, 7n]) {
      expect(refusal(type, { ...valid[type], [field]: given }).message).toMatch(ADVICE)
    }
    expect(refusal(type, { ...valid[type], [field]: '' }).message).not.toMatch(ADVICE)
  },
)

describe('identity', () => {
  const oneWillDo = types.filter((type) => type !== 'alias')
  test.each(oneWillDo)('%s needs userId or anonymousId', (type) => {
    const rest = { ...valid[type], userId: undefined }
    const error = refusal(type, rest)
    expect(error.field).toBe('userId')
    expect(error.message).toContain(`${type}() needs a userId or an anonymousId`)
    expect(() => call(type, { ...rest, anonymousId: 'a' })).not.toThrow()
    expect(() => call(type, { ...rest, userId: 'u' })).not.toThrow()
    expect(() => call(type, { ...rest, userId: 'u', anonymousId: 'a' })).not.toThrow()
    expect(() => call(type, { ...rest, userId: undefined, anonymousId: 'a' })).not.toThrow()
  })

  test('an empty userId is not made good by an anonymousId, nor the other way round', () => {
    expect(refusal('track', { ...valid.track, userId: '', anonymousId: 'a' }).field).toBe('userId')
    expect(refusal('track', { ...valid.track, anonymousId: '' }).field).toBe('anonymousId')
  })

  test('alias needs userId and previousId, an anonymousId replaces neither', () => {
    expect(refusal('alias', { previousId: 'p', anonymousId: 'a' }).field).toBe('userId')
    expect(refusal('alias', { userId: 'u', anonymousId: 'a' }).field).toBe('previousId')
    expect(() => call('alias', { ...valid.alias, anonymousId: 'a' })).not.toThrow()
  })
})

test('track needs an event, group a groupId', () => {
  expect(refusal('track', { userId: 'u' })).toMatchObject({
    field: 'event',
    message: 'track() needs event to be a non-empty string, got undefined.',
  })
  expect(refusal('group', { userId: 'u' })).toMatchObject({
    field: 'groupId',
    message: 'group() needs groupId to be a non-empty string, got undefined.',
  })
})

test.each(types)('%s() refuses what is no message object', (type) => {
  const refused = [undefined, null, 'u', 7, true, [], [valid[type]], () => undefined, Symbol('m')]
  for (const given of refused) {
    const error = refusal(type, given)
    expect(error.field).toBe('message')
    expect(error.message).toContain(`${type}() takes one message object, got `)
  }
})

test.each([null, 7, 'done', {}, Promise.resolve()])(
  'a callback that is %s is refused',
  (callback) => {
    const error = refusal('track', valid.track, callback)
    expect(error.field).toBe('callback')
    expect(error.message).toMatch(/^track\(\) takes a function as its callback, got /)
  },
)

test('the arguments of other clients are refused by the first of them', () => {
  const error = refusal('track', 'Order Completed', { total: 1 })
  expect(error.field).toBe('message')
  expect(error.message).toBe('track() takes one message object, got "Order Completed".')
})

describe('a field that the type does not have', () => {
  test.each<[MessageType, string, string]>([
    ['track', 'userID', 'Did you mean userId?'],
    ['track', 'user_id', 'Did you mean userId?'],
    ['track', 'Anonymous-Id', 'Did you mean anonymousId?'],
    ['track', 'Event', 'Did you mean event?'],
    ['group', 'group_id', 'Did you mean groupId?'],
    ['track', 'traits', 'Its fields are '],
    ['identify', 'properties', 'Its fields are '],
    ['identify', 'event', 'Its fields are '],
    ['alias', 'traits', 'Its fields are '],
    ['page', 'groupId', 'Its fields are '],
    ['track', 'sentAt', 'Its fields are '],
  ])('%s: %s is refused: %s', (type, field, advice) => {
    const error = refusal(type, { ...valid[type], [field]: {} })
    expect(error.field).toBe(field)
    expect(error.message).toContain(`${type}() has no field "${field}". ${advice}`)
  })

  test('page takes traits or properties, not both', () => {
    const error = refusal('page', { ...valid.page, traits: {}, properties: {} })
    expect(error.field).toBe('properties')
  })

  test('a type is accepted where it is the call’s own, so that a lost message can be recorded again', () => {
    for (const type of types) {
      expect(() => call(type, { ...valid[type], type })).not.toThrow()
      const other = type === 'track' ? 'page' : 'track'
      expect(refusal(type, { ...valid[type], type: other }).field).toBe('type')
    }
  })
})

describe('messageId', () => {
  test.each(['x'.repeat(100), 'é'.repeat(100), 'm'])(
    'of up to 100 characters is accepted',
    (id) => {
      expect(() => call('track', { ...valid.track, messageId: id })).not.toThrow()
    },
  )

  test('of 101 is refused, and not repeated in full', () => {
    const error = refusal('track', { ...valid.track, messageId: 'x'.repeat(101) })
    expect(error.field).toBe('messageId')
    expect(error.message).toContain('at most 100 characters')
    expect(error.message).toContain('(101 characters)')
    expect(error.message).not.toContain('x'.repeat(41))
  })
})

describe('what a collector can not store or pass on is refused at the call', () => {
  const ids: [MessageType, string][] = [
    ['track', 'userId'],
    ['track', 'anonymousId'],
    ['group', 'groupId'],
    ['alias', 'previousId'],
  ]
  test.each(ids)('%s: a NUL character in %s', (type, field) => {
    for (const id of ['\0', 'u\0', 'u\0v']) {
      const error = refusal(type, { ...valid[type], [field]: id })
      expect(error.field).toBe(field)
      const expected = `${type}() needs ${field} to be a string without NUL characters, got "`
      expect(error.message).toContain(expected)
      expect(error.message).toContain('Remove them')
    }
    expect(() => call(type, { ...valid[type], [field]: 'u\u0001\n' })).not.toThrow()
  })

  test.each(['\0', '\t', '\n', '\r', '\u001f', '\u007f'])(
    'the control character %j in messageId',
    (character) => {
      const error = refusal('track', { ...valid.track, messageId: `m${character}1` })
      expect(error.field).toBe('messageId')
      expect(error.message).toContain('messageId to be a string without control characters')
      expect(error.message).toContain('Remove them')
    },
  )

  test('any other character in messageId is accepted', () => {
    for (const messageId of [' ', '~', '\u0080', 'é', '€', '𝄞', '\u2028']) {
      expect(() => call('track', { ...valid.track, messageId })).not.toThrow()
    }
  })

  test.each([new Date(8.64e15), new Date(-8.64e15), '9999-12-31T23:59:59-01:00'])(
    'a timestamp beyond the years of four digits: %s',
    (timestamp) => {
      const error = refusal('track', { ...valid.track, timestamp })
      expect(error.field).toBe('timestamp')
      expect(error.message).toContain('timestamp to be in the years 0 to 9999 (UTC)')
    },
  )

  test('timestamps at the ends of these years are accepted', () => {
    for (const timestamp of ['0000-01-01', '9999-12-31T23:59:59.999Z']) {
      expect(() => call('track', { ...valid.track, timestamp })).not.toThrow()
    }
  })
})

describe('timestamp', () => {
  test.each([
    [new Date('2026-01-02T03:04:05.678Z'), '2026-01-02T03:04:05.678Z'],
    [new Date(0), '1970-01-01T00:00:00.000Z'],
    ['2026-01-02T03:04:05.678Z', '2026-01-02T03:04:05.678Z'],
    ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02T03:04Z', '2026-01-02T03:04:00.000Z'],
    ['2026-01-02', '2026-01-02T00:00:00.000Z'],
    ['2026-01-02T03:04:05+01:00', '2026-01-02T02:04:05.000Z'],
    ['2026-01-02T03:04:05-0800', '2026-01-02T11:04:05.000Z'],
    ['2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.100Z'],
    ['2026-01-02T03:04:05.678901Z', '2026-01-02T03:04:05.678Z'],
    ['2026-01-02 03:04:05Z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02 03:04:05.25+0530', '2026-01-01T21:34:05.250Z'],
    ['2026-01-02t03:04:05z', '2026-01-02T03:04:05.000Z'],
    ['2026-01-02T23:59:59.999-12:00', '2026-01-03T11:59:59.999Z'],
    ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
    ['2000-02-29', '2000-02-29T00:00:00.000Z'],
    ['2026-12-31T00:00:00Z', '2026-12-31T00:00:00.000Z'],
    ['1969-12-31T23:59:59Z', '1969-12-31T23:59:59.000Z'],
    ['0012-11-10 10:00Z', '0012-11-10T10:00:00.000Z'],
    ['0050-01-01t00:00:00+0130', '0049-12-31T22:30:00.000Z'],
    ['0000-02-29T00:00:00z', '0000-02-29T00:00:00.000Z'],
  ])('%s travels as %s', async (timestamp, wire) => {
    const net = scriptedFetch()
    createClient(net, { flushAt: 1 }).track({ userId: 'u', event: 'e', timestamp })
    await turns()
    expect(net.arrivals[0]?.messages[0]?.timestamp).toBe(wire)
  })

  test.each([
    '',
    'yesterday',
    '2026',
    '2026-01',
    '01/02/2026',
    '2026-1-2',
    'Fri, 02 Jan 2026 03:04:05 GMT',
    '2026-01-02T03:04:05',
    '2026-01-02 03:04:05',
    '2026-13-01',
    '2026-00-01',
    '2026-01-00',
    '2026-01-32',
    '2026-02-29',
    '2026-02-30T00:00:00Z',
    '1900-02-29',
    '2026-04-31',
    '2026-01-02T25:00:00Z',
    '2026-01-02T03:60:00Z',
    '2026-01-02T03:04:61Z',
    '2026-01-02T03:04:05+25:00',
    '2026-01-02T03:04:05ZZ',
    ' 2026-01-02',
    '2026-01-02T03:04:05Z (about)',
    '+002026-01-02T03:04:05Z',
    '２０２６-01-02',
  ])('%j is refused', (timestamp) => {
    const error = refusal('track', { ...valid.track, timestamp })
    expect(error.field).toBe('timestamp')
    expect(error.message).toContain('an ISO 8601 string with its time zone')
  })

  test.each([null, true, {}, [], 1_767_323_045_678, NaN, 1n, () => 1])(
    '%s is refused',
    (timestamp) => {
      expect(refusal('track', { ...valid.track, timestamp }).field).toBe('timestamp')
    },
  )

  test('milliseconds are refused with advice, and so is an Invalid Date', () => {
    expect(refusal('track', { ...valid.track, timestamp: 1 }).message).toContain(
      'Pass new Date(milliseconds).',
    )
    expect(refusal('track', { ...valid.track, timestamp: new Date(NaN) }).message).toContain(
      'It is an Invalid Date.',
    )
  })
})

test('each field is read once: what was checked is what is sent', async () => {
  const net = scriptedFetch()
  const reads: string[] = []
  const message = {}
  for (const [field, value] of Object.entries({ userId: 'u', event: 'e', messageId: 'm' })) {
    Object.defineProperty(message, field, {
      enumerable: true,
      get: () => {
        reads.push(field)
        return reads.filter((name) => name === field).length === 1 ? value : 7
      },
    })
  }
  createClient(net, { flushAt: 1 }).track(message as { userId: string; event: string })
  await turns()
  expect(reads.sort()).toEqual(['event', 'messageId', 'userId'])
  expect(net.arrivals[0]?.messages[0]).toMatchObject({ userId: 'u', event: 'e', messageId: 'm' })
})

test('a message that throws when it is read is refused, with what it threw as the cause', () => {
  const cause = new Error('from the getter')
  const message = {
    event: 'e',
    get userId(): string {
      throw cause
    },
  }
  const error = refusal('track', message)
  expect(error.message).toContain('from the getter')
  expect(error.cause).toBe(cause)
  const proxy = new Proxy(
    {},
    {
      ownKeys: () => {
        throw cause
      },
    },
  )
  expect(refusal('track', proxy).cause).toBe(cause)
})

test('a message of another realm, without a prototype, or of a class is one all the same', async () => {
  const { runInNewContext } = await import('node:vm')
  const foreign = runInNewContext(
    '({ userId: "u", event: "e", timestamp: new Date(0), properties: { a: 1 }, context: {} })',
  ) as { userId: string; event: string }
  const bare = Object.assign(Object.create(null) as object, valid.track, {
    properties: Object.create(null) as object,
  }) as unknown as { userId: string; event: string }
  class Signup {
    readonly userId = 'u'
    readonly event = 'e'
  }
  const net = scriptedFetch()
  const analytics = createClient(net)
  analytics.track(foreign)
  analytics.track(bare)
  analytics.track(new Signup())
  await analytics.flush()
  expect(net.arrivals[0]?.messages).toHaveLength(3)
  expect(net.arrivals[0]?.messages[0]).toMatchObject({
    timestamp: '1970-01-01T00:00:00.000Z',
    properties: { a: 1 },
  })
})

test('a call that was refused leaves nothing behind', async () => {
  const net = scriptedFetch()
  const analytics = createClient(net)
  expect(() => {
    Reflect.apply(analytics.track.bind(analytics), undefined, [{ event: 'e' }])
  }).toThrow(ValidationError)
  expect(analytics.stats()).toEqual({
    accepted: 0,
    delivered: 0,
    rejected: 0,
    dropped: 0,
    pending: 0,
    pendingBytes: 0,
  })
  expect(await analytics.flush()).toEqual({ delivered: 0, failed: 0 })
  expect(net.arrivals).toEqual([])
})
