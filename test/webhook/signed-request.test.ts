import { describe, expect, test } from 'vitest'
import { signedRequest } from '../../src/testing.js'
import { parseWebhook, verifyWebhook } from '../../src/webhook/index.js'

const secret = 's3cret'
const timestamp = '2026-01-02T03:04:05.678Z'
const [userId, anonymousId, context] = ['u1', 'a1', { ip: '192.0.2.1' }]

test('has the headers and the method of the destination', () => {
  const { method, headers, body } = signedRequest('delete', { userId }, secret)
  expect(method).toBe('POST')
  expect(headers).toMatchObject({
    'Content-Type': 'application/json',
    'User-Agent': 'Service.io/1.0',
    'X-Attempt': '1',
  })
  const { headers: others } = signedRequest('delete', { userId }, secret)
  expect(headers['X-Message-Id']).toMatch(/^[\da-f-]{36}$/)
  expect(others['X-Message-Id']).not.toBe(headers['X-Message-Id'])
  expect(verifyWebhook(secret, body, headers['X-Signature'])).toBe(true)
})

describe('its body has the fields of the specification, in its order, however they were given', () => {
  test.each([
    [
      signedRequest('page', { properties: { url: '/' }, userId, timestamp }, secret),
      `{"version":1,"type":"page","userId":"u1","timestamp":"${timestamp}","properties":{"url":"/"}}`,
    ],
    [
      signedRequest('screen', { context: {}, name: 'Home', userId, timestamp }, secret),
      `{"version":1,"type":"screen","userId":"u1","timestamp":"${timestamp}","name":"Home","context":{}}`,
    ],
    [
      signedRequest('identify', { traits: { n: 1 }, timestamp, userId }, secret),
      `{"version":1,"type":"identify","userId":"u1","timestamp":"${timestamp}","traits":{"n":1}}`,
    ],
    [
      signedRequest(
        'track',
        { properties: {}, event: 'E', anonymousId, context, timestamp },
        secret,
      ),
      `{"version":1,"type":"track","timestamp":"${timestamp}","event":"E","properties":{},"context":{"ip":"192.0.2.1"},"anonymousId":"a1"}`,
    ],
    [
      signedRequest('alias', { 'User ID': 'u1', 'Previous ID': 'a1', timestamp }, secret),
      `{"version":1,"type":"alias","timestamp":"${timestamp}","Previous ID":"a1","User ID":"u1"}`,
    ],
    [
      signedRequest('group', { traits: {}, groupId: 'g1', userId, timestamp }, secret),
      `{"version":1,"type":"group","userId":"u1","timestamp":"${timestamp}","groupId":"g1","traits":{}}`,
    ],
    [
      signedRequest('delete', { timestamp, userId }, secret),
      `{"type":"delete","userId":"u1","timestamp":"${timestamp}"}`,
    ],
  ])('%#', ({ body, headers }, expected) => {
    expect(body).toBe(expected)
    expect(JSON.stringify(parseWebhook(secret, body, headers['X-Signature']))).toBe(expected)
  })
})

test('its timestamp is now, in milliseconds, unless one is given', () => {
  const before = Date.now()
  const event = JSON.parse(signedRequest('delete', { userId }, secret).body) as {
    timestamp: string
  }
  expect(event.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(Date.parse(event.timestamp)).toBeGreaterThanOrEqual(before)
  expect(Date.parse(event.timestamp)).toBeLessThanOrEqual(Date.now())
})

test.each<[unknown, unknown, string]>([
  [
    'trak',
    { userId },
    'type: expected one of page, screen, identify, track, alias, group, delete, got "trak".',
  ],
  [undefined, { userId }, 'got undefined.'],
  ['delete', null, 'fields: expected an object, got null.'],
  ['delete', undefined, 'got undefined.'],
  ['delete', [userId], 'got a list of 1.'],
  ['delete', userId, 'got a string of 2 characters.'],
])('of type %j with the fields %j it is refused', (type, fields, message) => {
  const sign = () => signedRequest(type as 'delete', fields as { userId: string }, secret)
  expect(sign).toThrow(TypeError)
  expect(sign).toThrow(message)
})
