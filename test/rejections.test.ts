import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isCutJson, isListBegun, readRejections } from '../src/rejections.js'
import { createClient, listen, scriptedFetch, trackMany } from './collector.js'

const read = (answer: unknown, length = 3) =>
  Object.fromEntries(
    readRejections(typeof answer === 'string' ? answer : JSON.stringify(answer), length),
  )

test('the messages that an answer names are read by their index', () => {
  const rejected = [
    { index: 0, code: 'a', message: 'A' },
    { index: 2, code: 'c', message: 'C', more: true },
  ]
  expect(read({ rejected })).toEqual({
    0: { code: 'a', message: 'A' },
    2: { code: 'c', message: 'C' },
  })
})

test.each([-1, 3, 4, 1e9, 0.5, NaN, '0', null, true, [0], undefined])(
  'an index of %s, in a batch of three, names none',
  (index) => {
    expect(read({ rejected: [{ index, code: 'a', message: 'A' }] })).toEqual({})
  },
)

test.each([
  '',
  '{',
  'null',
  '[]',
  '"rejected"',
  '["rejected"]',
  '{"rejected":null}',
  '{"rejected":{"index":0}}',
  '{"rejected":"[0]"}',
  '{"rejected":[0,null,"x",[]]}',
  '{"data":{"rejected":[{"index":0}]}}',
  '<html>"rejected"</html>',
])('an answer of %j names none', (body) => {
  expect(read(body)).toEqual({})
})

test.each(['', ' ', ' :', ': [', ':[{', ':[[', ':[ 0', ':[] ,"rejected":['])(
  'a list may have begun with %j behind its name',
  (rest) => {
    expect(isListBegun(`{"success":true,"rejected"${rest}`)).toBe(true)
  },
)

test('each beginning of an object is cut, and the whole one is not, whatever follows', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), (object, rest) => {
      const whole = JSON.stringify(object)
      for (let length = 1; length < whole.length; length++) {
        expect(isCutJson(whole.slice(0, length))).toBe(true)
      }
      expect(isCutJson(whole)).toBe(false)
      expect(isCutJson(`${whole}${rest}`)).toBe(false)
      const refusing = JSON.stringify({ ...object, rejected: [{ index: 1 }] })
      expect(read(`${refusing}${rest}`)).toHaveProperty('1')
      expect(isCutJson(`x${whole}`)).toBe(false)
    }),
  )
  expect(isCutJson(`{"${'x'.repeat(8_000_000)}`)).toBe(true)
})

test('a message that is refused without a reason is told so', async () => {
  const { failed, hooks } = listen()
  const body = '{"rejected":[{"index":0},{"index":1,"code":"bad"}]}'
  const analytics = createClient(scriptedFetch({ body }), hooks)
  trackMany(analytics, 2)
  await analytics.flush()
  expect(failed.map(({ error }) => error.message)).toEqual([
    'The endpoint refused this message: it gave no reason.',
    'The endpoint refused this message: (bad).',
  ])
})

test('a list whose name is written with escapes is read, and may have begun', () => {
  const name = String.raw`"\u0072e\u006Aected"`
  expect(read(`{${name}:[{"index":1,"code":"a","message":"A"}]}`)).toEqual({
    1: { code: 'a', message: 'A' },
  })
  expect(isListBegun(`{${name}:[{"in`)).toBe(true)
})

test.each(['{{"rejected":[', '{ [', '{rejected:['])('%j is no beginning of an object', (text) => {
  expect(isCutJson(text)).toBe(false)
})
