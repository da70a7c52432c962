import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { verifyWebhook } from 'hookline'
import { describe, expect, test } from 'vitest'
import { callOf, deletionBody, webhookBody } from '../../src/enqueue/webhook-body.js'
import type { Call, CallType } from '../../src/model/call.js'
import { anyCharacter } from '../../../test/characters.js'
import { rounds } from '../rounds.js'

const common = { messageId: 'm1', timestamp: '2026-01-02T03:04:05.678Z' }
const at = '"timestamp":"2026-01-02T03:04:05.678Z"'

describe('the body of', () => {
  test.each<[string, Call, string]>([
    [
      'page',
      {
        ...common,
        type: 'page',
        userId: 'u',
        properties: { path: '/', url: 'https://a.example/' },
      },
      `{"version":1,"type":"page","userId":"u",${at},"properties":{"path":"/","url":"https://a.example/"}}`,
    ],
    [
      'page with a name, a category and more',
      {
        ...common,
        type: 'page',
        userId: 'u',
        anonymousId: 'a',
        name: 'n',
        category: 'c',
        context: { ip: '::' },
      },
      `{"version":1,"type":"page","userId":"u",${at},"properties":{},"name":"n","category":"c","anonymousId":"a","context":{"ip":"::"}}`,
    ],
    [
      'screen',
      { ...common, type: 'screen', userId: 'u', name: 'Home', context: { os: { name: 'iOS' } } },
      `{"version":1,"type":"screen","userId":"u",${at},"name":"Home","context":{"os":{"name":"iOS"}}}`,
    ],
    [
      'screen with a category, properties and more',
      {
        ...common,
        type: 'screen',
        userId: 'u',
        anonymousId: 'a',
        category: 'c',
        properties: { p: 1 },
      },
      `{"version":1,"type":"screen","userId":"u",${at},"name":"","context":{},"category":"c","properties":{"p":1},"anonymousId":"a"}`,
    ],
    [
      'identify',
      { ...common, type: 'identify', userId: 'u', traits: { plan: 'pro', age: 3 } },
      `{"version":1,"type":"identify","userId":"u",${at},"traits":{"plan":"pro","age":3}}`,
    ],
    [
      'identify without a userId or traits',
      { ...common, type: 'identify', anonymousId: 'a' },
      `{"version":1,"type":"identify",${at},"traits":{},"anonymousId":"a"}`,
    ],
    [
      'track',
      { ...common, type: 'track', userId: 'u', event: 'E', properties: { total: 1.5 } },
      `{"version":1,"type":"track","userId":"u",${at},"event":"E","properties":{"total":1.5}}`,
    ],
    [
      'track with all else that a call can carry',
      {
        ...common,
        type: 'track',
        userId: 'u',
        anonymousId: 'a',
        event: 'E',
        context: {},
        integrations: { All: true },
      },
      `{"version":1,"type":"track","userId":"u",${at},"event":"E","properties":{},"anonymousId":"a","context":{}}`,
    ],
    [
      'alias',
      { ...common, type: 'alias', previousId: 'p', userId: 'u' },
      `{"version":1,"type":"alias",${at},"Previous ID":"p","User ID":"u"}`,
    ],
    [
      'group',
      { ...common, type: 'group', userId: 'u', groupId: 'g', traits: { seats: 5 } },
      `{"version":1,"type":"group","userId":"u",${at},"groupId":"g","traits":{"seats":5}}`,
    ],
    [
      'group without traits',
      { ...common, type: 'group', anonymousId: 'a', groupId: 'g' },
      `{"version":1,"type":"group",${at},"groupId":"g","traits":{},"anonymousId":"a"}`,
    ],
  ])(
    '%s has the fields of the spec in its order, then what the call carried',
    (_name, call, body) => {
      expect(webhookBody(call)).toBe(body)
    },
  )

  test('a deletion has no version', () => {
    expect(deletionBody('u', common.timestamp)).toBe(`{"type":"delete","userId":"u",${at}}`)
  })
})

/** JSON texts as clients send them, with values that parsers and printers treat differently. */
const jsonText = fc
  .tuple(
    fc.dictionary(
      fc.oneof(
        fc.string({ unit: anyCharacter }),
        fc.constantFrom('__proto__', '10', '9', '-1', '01', 'toJSON', 'constructor', '\uD800'),
      ),
      fc.jsonValue({ noUnicodeString: false }),
    ),
    fc.constantFrom(
      '-0',
      '1e400',
      '-1e-400',
      '1.0',
      '123456789012345678901',
      '"\\ud800"',
      '{"2":0,"1":0}',
    ),
    fc.constantFrom('10', '__proto__', '\\u0000', 'a'),
  )
  .map(([object, raw, key]) => {
    const text = JSON.stringify(object)
    return `{"${key}":${raw}${text === '{}' ? '' : ','}${text.slice(1)}`
  })

describe('every body', () => {
  const calls = fc.record({
    type: fc.constantFrom<CallType>('identify', 'track', 'page', 'screen', 'group', 'alias'),
    userId: fc.string({ unit: anyCharacter }),
    object: jsonText,
  })

  test('is a JSON fixed point, and its signature holds for the bytes and for the parsed body', () => {
    fc.assert(
      fc.property(calls, ({ type, userId, object }) => {
        const fields = JSON.parse(object) as Record<string, unknown>
        const text = webhookBody({
          ...common,
          type,
          userId,
          event: userId,
          properties: fields,
          traits: fields,
          context: { ...fields, ...(JSON.parse(object) as object) },
        })
        const parsed = JSON.parse(text) as Record<string, unknown>
        expect(JSON.stringify(parsed)).toBe(text)
        // The call that a preview of filters makes of the text says the same.
        expect(webhookBody(callOf(text, common.messageId))).toBe(text)
        const signature = createHmac('sha1', 'secret').update(text).digest('hex')
        expect(verifyWebhook('secret', text, signature)).toBe(true)
        expect(verifyWebhook('secret', parsed, signature)).toBe(true)
      }),
      { numRuns: rounds(200) },
    )
  })

  test('is made into the call again', () => {
    const call: Call = { ...common, type: 'alias', userId: 'u', previousId: 'p', anonymousId: 'a' }
    expect(callOf(webhookBody(call), 'm1')).toEqual(call)
    const screen: Call = { ...common, type: 'screen', userId: 'u', name: 'Home', context: {} }
    expect(callOf(webhookBody(screen), 'm1')).toEqual(screen)
  })

  test('keeps a key __proto__ a key', () => {
    const properties = JSON.parse('{"__proto__":{"admin":true}}') as Record<string, unknown>
    expect(
      webhookBody({ ...common, type: 'track', userId: 'u', event: 'E', properties }),
    ).toContain('"properties":{"__proto__":{"admin":true}}')
  })
})
