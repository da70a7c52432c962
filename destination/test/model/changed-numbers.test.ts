import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  changedNumbers,
  findChanges,
  markChanges,
  marksIn,
} from '../../src/model/changed-numbers.js'

const pathsOf = (json: string) => changedNumbers(json, 'v').map(({ path }) => path)
const isChanged = (number: string) => pathsOf(number).length === 1

describe('a number is forwarded with its value', () => {
  test.each([
    ...['0', '-0', '0.0', '1.0', '1e2', '1E+2', '100e-2', '0e999', '0.1', '0.30000000000000004'],
    ...['9007199254740992', '-9007199254740992', '1e21', '1e308', '5e-324'],
    ...[
      '123456789012345680000',
      '0.50000000000000000000',
      '1.7976931348623157e308',
      '51.50735091234567',
    ],
    // Clients with C's "%.17g", such as PHP before 7.1, print 0.1, 9.99 and 1e-7 so.
    ...['0.10000000000000001', '9.9900000000000002', '9.9999999999999995e-08'],
  ])('%s', (number) => {
    expect(changedNumbers(number, 'v')).toEqual([])
  })
})

describe('a number is forwarded with another value', () => {
  test.each([
    ['9007199254740993', '9007199254740992'],
    ['9007199254740993000e-3', '9007199254740992'],
    ['-9007199254740993', '-9007199254740992'],
    ['1234567890123456789', '1234567890123456800'],
    ['72057594037927936', '72057594037927940'], // 2^56, which JavaScript holds, but prints with other digits
    ['0.12345678901234567890', '0.12345678901234568'],
    ['0.1000000000000000055511151231257827', '0.1'],
    ['1.00000000000000001', '1'],
    ['4.9e-324', '5e-324'],
    ['5e-400', '0'],
    ['-1e-400', '0'],
  ])('%s becomes %s', (number, forwarded) => {
    expect(changedNumbers(number, 'v')).toEqual([
      {
        path: 'v',
        message: `The number ${number} is forwarded as ${forwarded}, the closest number of JavaScript. Send it as a string to keep its value.`,
      },
    ])
    expect(JSON.stringify(JSON.parse(number))).toBe(forwarded)
  })

  test.each(['1e400', '-1e400', '1e99999999999999999999', '9'.repeat(309)])(
    '%s is null',
    (number) => {
      expect(changedNumbers(number, 'v')).toMatchObject([
        {
          message: expect.stringContaining(
            'is forwarded as null, because it is too large',
          ) as string,
        },
      ])
    },
  )

  test('whenever its exact value is not that of the forwarded text', () => {
    const digits = (least: number, most: number) =>
      fc.string({
        unit: fc.constantFrom('0', '1', '2', '3', '4', '5', '6', '7', '8', '9'),
        minLength: least,
        maxLength: most,
      })
    const decimal = fc
      .tuple(
        fc.constantFrom('', '-'),
        digits(1, 22),
        digits(0, 22),
        fc.integer({ min: -30, max: 30 }),
      )
      .map(([sign, whole, fraction, exponent]) => {
        const unpadded = whole.replace(/^0+(?=.)/, '')
        return `${sign}${unpadded}${fraction && '.'}${fraction}${exponent ? `e${exponent}` : ''}`
      })
    fc.assert(
      fc.property(decimal, (number) => {
        const forwarded = Number(number)
        const is17Digits =
          !Number.isInteger(forwarded) && exact(forwarded.toPrecision(17)) === exact(number)
        const isSame = exact(JSON.stringify(forwarded)) === exact(number) || is17Digits
        expect(isChanged(number), number).toBe(!isSame)
      }),
      { numRuns: 5_000 },
    )
  })
})

/** The exact value of a decimal number, in units of 10^-400. */
function exact(decimal: string): bigint {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(decimal) ?? []
  const value = BigInt(whole + fraction) * 10n ** BigInt(400 - fraction.length + Number(exponent))
  return sign === '-' ? -value : value
}

describe('the path of a changed number', () => {
  test.each([
    ['{"total":1e400}', ['v.total']],
    ['{"items":[{"id":1},{"id":[0,1e400]}]}', ['v.items[1].id[1]']],
    ['{"a b":{"c.d":1e400},"":1e400,"ü_1":1e400}', ['v["a b"]["c.d"]', 'v[""]', 'v.ü_1']],
    ['{"__proto__":{"x":1e400}}', ['v.__proto__.x']],
    ['[ 1e400 ,\n\t-1e400]', ['v[0]', 'v[1]']],
    ['{"a":1,"b":1234567890123456789,"c":1234567890123456789}', ['v.b', 'v.c']],
  ])('in %s is %j', (json, paths) => {
    expect(pathsOf(json)).toEqual(paths)
  })

  test.each([
    '"1e400"',
    '{"1e400":"x,1234567890123456789"}',
    '["\\"",":1e400","\\\\",",1e400\\\\"]',
    '{"at":"2026-01-02T03:04:05.678901234567890Z"}',
  ])('is none in texts: %s', (json) => {
    expect(pathsOf(json)).toEqual([])
  })

  test('is none for a value that a later key replaces', () => {
    expect(pathsOf('{"a":1e400,"a":1}')).toEqual([])
    expect(pathsOf('{"a":1,"a":1e400}')).toEqual(['v.a'])
  })

  test('is found beside texts and numbers as long as a body may have', () => {
    expect(pathsOf(`{"text":"${'\\n'.repeat(240_000)}","a":1e400}`)).toEqual(['v.a'])
    const [number] = changedNumbers(`0.${'0'.repeat(490_000)}1`, 'k'.repeat(1_000))
    expect(number?.path).toBe(`${'k'.repeat(200)}…`)
    expect(number?.message.length).toBeLessThan(200)
  })
})

test('a text has the marks of the numbers that were put into it', () => {
  const marked = markChanges('{"a":1e400,"b":{"c":[1e400]}}') as { a: string; b: object }
  const marks = marksIn(JSON.stringify(marked.b))
  const found: string[] = []
  findChanges(marked, 'v', (path, _number, mark) => {
    if (marks.has(mark)) found.push(path)
  })
  expect(found).toEqual(['v.b.c[0]'])
})
