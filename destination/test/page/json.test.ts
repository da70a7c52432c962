import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pretty } from '../../page/json.js'

test('JSON is spread over lines; what is none stays as it is', () => {
  expect(pretty('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}')
  for (const text of ['<html>', '', '{"a":1', '[1]x']) expect(pretty(text)).toBe(text)
})

test('JSON keeps the digits of its numbers, the order of its members, and each of them', () => {
  const text = '{"id":1234567890123456789,"ratio":1.10,"e":1E400,"2":[-0],"1":{},"id":"\\u00e4\\n"}'
  expect(pretty(text).split('\n')).toEqual([
    '{',
    '  "id": 1234567890123456789,',
    '  "ratio": 1.10,',
    '  "e": 1E400,',
    '  "2": [',
    '    -0',
    '  ],',
    '  "1": {},',
    '  "id": "ä\\n"',
    '}',
  ])
})

test('JSON is as JavaScript spreads it where that changes nothing (random)', () => {
  fc.assert(
    fc.property(fc.json(), fc.constantFrom(0, 1, '\t'), (text, indent) => {
      const given = JSON.stringify(JSON.parse(text), null, indent)
      expect(pretty(given)).toBe(JSON.stringify(JSON.parse(text), null, 2))
    }),
  )
})
