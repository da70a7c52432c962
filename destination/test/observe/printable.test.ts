import { expect, test } from 'vitest'
import { printable } from '../../src/observe/printable.js'

test.each([
  ['a\nb\r\tc', 'a\\nb\\r\\tc'],
  ['\u001b[31mred\u009b0m\u0007', '\\u001b[31mred\\u009b0m\\u0007'],
  ['a\u202eb\u2066c\u200fd\u061ce', 'a\\u202eb\\u2066c\\u200fd\\u061ce'],
  ['a\u2028b\u2029c', 'a\\u2028b\\u2029c'],
])('%j is shown as %s', (text, shown) => {
  expect(printable(text)).toBe(shown)
})

test.each(['Zoë 🚀', 'שלום', 'a\u200db', '👩‍👩‍👧'])('%s is shown as it is', (text) => {
  expect(printable(text)).toBe(text)
})
