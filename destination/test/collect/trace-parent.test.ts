import { describe, expect, test } from 'vitest'
import { parseTraceParent } from '../../src/collect/trace-parent.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'

describe('a traceparent', () => {
  test.each([
    [`00-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`],
    [`00-${TRACE}-${PARENT}-00`, `00-${TRACE}-${PARENT}-00`],
    [`cc-${TRACE}-${PARENT}-01`, `00-${TRACE}-${PARENT}-01`],
    [`cc-${TRACE}-${PARENT}-01-what-the-future-will-be-like`, `00-${TRACE}-${PARENT}-01`],
  ])('%s is kept', (header, expected) => {
    expect(parseTraceParent(header)).toBe(expected)
  })

  test.each([
    undefined,
    '',
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-01-more`,
    `cc-${TRACE}-${PARENT}-01.what`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${PARENT}-1`,
    `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`,
    ` 00-${TRACE}-${PARENT}-01`,
  ])('%j is none', (header) => {
    expect(parseTraceParent(header)).toBeUndefined()
  })
})
