import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { signWebhook } from 'hookline/webhook'
import { expect, test } from 'vitest'
import {
  encodeMessageId,
  fixedHeaders,
  messageHeaders,
  signatureHeaders,
} from '../../src/post/headers.js'
import { anyCharacter } from '../../../test/characters.js'

test('every request says who sends it and what, and then what the settings add', () => {
  expect(fixedHeaders({ 'X-Team': 'growth', Authorization: 'Bearer t' })).toEqual([
    'User-Agent',
    'Service.io/1.0',
    'Content-Type',
    'application/json',
    'X-Team',
    'growth',
    'Authorization',
    'Bearer t',
  ])
})

test('a message is signed, and named and counted in any case', () => {
  const signature = createHmac('sha1', 's3cret').update('{"a":"ü"}').digest('hex')
  const named = ['X-Message-Id', 'm 1', 'X-Attempt', '7'].map((text) => text.replace(' ', '%20'))
  expect(messageHeaders('s3cret', '{"a":"ü"}', 'm 1', 7)).toEqual([
    'X-Signature',
    signature,
    ...named,
  ])
  expect(messageHeaders(undefined, '{}', 'm 1', 7)).toEqual(named)
})

test('the signature is the published one of RFC 2202, and what the SDK verifies', () => {
  expect(signatureHeaders('Jefe', 'what do ya want for nothing?')[1]).toBe(
    'effcdf6ae5eb2fa2d27416d5f184df9c259a7c79',
  )
  fc.assert(
    fc.property(
      fc.string({ minLength: 1 }),
      fc.string({ unit: anyCharacter, minLength: 1 }),
      (s, b) => {
        expect(signatureHeaders(s, b)[1]).toBe(signWebhook(s, b))
      },
    ),
  )
})

test.each([
  ['0123-abc', '0123-abc'],
  ['', ''],
  ['a b', 'a%20b'],
  ['100%', '100%25'],
  ['a\r\nX-Evil: 1', 'a%0D%0AX-Evil:%201'],
  ['ü€🚀', '%C3%BC%E2%82%AC%F0%9F%9A%80'],
  ['a\ud800b', 'a%EF%BF%BDb'],
  ['\0\x7f', '%00%7F'],
])('the id %j goes out as %j', (id, encoded) => {
  expect(encodeMessageId(id)).toBe(encoded)
})

test('any id makes visible ASCII, from which decodeURIComponent gets it back', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 100 }), (id) => {
      expect(encodeMessageId(id)).toMatch(/^[!-~]*$/)
      expect(decodeURIComponent(encodeMessageId(id))).toBe(id)
    }),
  )
})
