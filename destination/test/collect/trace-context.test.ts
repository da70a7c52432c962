import { describe, expect, test } from 'vitest'
import { parseTraceState, traceContextOf } from '../../src/collect/trace-context.js'

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const entries = (count: number, length = 4) =>
  Array.from(
    { length: count },
    (_, i) => `k${String(i).padStart(2, '0')}=`.padEnd(length, 'v') + 'v',
  )

describe('a tracestate', () => {
  test.each([
    ['congo=t61rcWkgMzE', 'congo=t61rcWkgMzE'],
    ['rojo=1,congo=2', 'rojo=1,congo=2'],
    ['rojo=1 ,\t congo=2,', 'rojo=1,congo=2'],
    [', ,a=1', 'a=1'],
    ['fw529a3039@dt=FfAAAA,a_b-c*d/e=!~', 'fw529a3039@dt=FfAAAA,a_b-c*d/e=!~'],
    ['a= two words', 'a= two words'],
    [entries(32).join(), entries(32).join()],
    ['', ''],
  ])('%j is kept as %j', (header, expected) => {
    expect(parseTraceState(header)).toBe(expected)
  })

  test.each([
    'a',
    '=1',
    'a=',
    'A=1',
    '_a=1',
    'a=1=2',
    'a=ü',
    'a=1\u00002',
    'a =1',
    'a=1,a=2',
    `${'k'.repeat(257)}=1`,
    `a=${'v'.repeat(257)}`,
    entries(33).join(),
    'a=1,b',
  ])('%j is ignored', (header) => {
    expect(parseTraceState(header)).toBe('')
  })

  test('of more than 512 characters loses its longest entries first, and then its last ones', () => {
    const long = `long=${'v'.repeat(200)}`
    const some = entries(16, 31)
    expect(some.join()).toHaveLength(16 * 33 - 1)
    expect(parseTraceState([long, ...some].join())).toBe(some.slice(0, 15).join())
    expect(parseTraceState(['a=1', long, 'b=2'].join())).toBe(`a=1,${long},b=2`)
    expect(
      parseTraceState(
        ['a=1', long, `${long}2`.replace('long', 'more'), 'b=2', ...entries(4, 40)].join(),
      ),
    ).toBe(['a=1', long, 'b=2', ...entries(4, 40)].join())
  })
})

describe('the trace of a request', () => {
  test.each([
    [{ traceparent: PARENT }, PARENT],
    [{ traceparent: PARENT, tracestate: 'a=1' }, `${PARENT} a=1`],
    [{ traceparent: PARENT, tracestate: 'a' }, PARENT],
    [{ traceparent: 'none', tracestate: 'a=1' }, undefined],
    [{ tracestate: 'a=1' }, undefined],
  ])('%j is %j', (headers, expected) => {
    expect(traceContextOf(headers)).toBe(expected)
  })
})
