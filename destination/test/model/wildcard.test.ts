import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { covers, finder, matcher } from '../../src/model/wildcard.js'

describe('a pattern', () => {
  test.each([
    ['Order Completed', ['Order Completed'], ['order completed', 'Order Completed ', 'Order', '']],
    ['Order *', ['Order Completed', 'Order '], ['Order', 'Reorder Completed', 'order x']],
    ['* Viewed', ['Product Viewed', ' Viewed'], ['Viewed', 'Product Viewed!']],
    ['*', ['', 'Order Completed', 'é€𝄞'], []],
    ['Order * Completed', ['Order 7 Completed', 'Order  Completed'], ['Order Completed']],
    ['a*a', ['aa', 'aba'], ['a', 'ab']],
    ['*ab*ab*', ['abab', 'xabyabz'], ['ab', 'aab', 'abb']],
    ['a**b', ['ab', 'axb'], ['a', 'b']],
    // These are special in regular expressions, and nothing special here.
    ['a.c', ['a.c'], ['abc']],
    ['a?', ['a?'], ['a', 'ab']],
    ['[ab]', ['[ab]'], ['a']],
    ['(a+)+$*', ['(a+)+$', '(a+)+$x'], ['aa']],
    ['\\d*', ['\\d', '\\d1'], ['1']],
  ])('%s matches %j and not %j', (pattern, matched, others) => {
    const matches = matcher(pattern)
    expect(matched.filter((text) => !matches(text))).toEqual([])
    expect(others.filter(matches)).toEqual([])
  })

  test('matches what its definition says, whatever the text', () => {
    fc.assert(
      fc.property(text('ab*', 8), text('ab*', 12), (pattern, given) => {
        expect(matcher(pattern)(given)).toBe(isLike(pattern, given))
      }),
      { numRuns: 3_000 },
    )
  })

  test('takes as long for a text made to be slow as its length says', () => {
    // With a regular expression or with steps back, this takes longer than the universe exists.
    const slow = matcher(`${'a*'.repeat(99)}b`)
    expect(slow('a'.repeat(30_000))).toBe(false)
  })
})

test('covers another pattern if it matches all of its texts', () => {
  fc.assert(
    fc.property(text('ab*', 5), text('ab*', 5), text('abc', 8), (pattern, other, given) => {
      if (covers(pattern, other))
        expect(isLike(other, given) && !isLike(pattern, given)).toBe(false)
      // A text with letters that the pattern does not have shows that it does not cover the other one.
      else expect(isLike(pattern, other.replaceAll('*', 'z'))).toBe(false)
    }),
    { numRuns: 3_000 },
  )
})

test('the first pattern that matches is found, an exact one before those with wildcards', () => {
  const find = finder(['Order *', 'Order Viewed', '* Viewed'])
  expect(find('Order Viewed')).toBe('Order Viewed')
  expect(find('Order Completed')).toBe('Order *')
  expect(find('Page Viewed')).toBe('* Viewed')
  expect(find('Signed Up')).toBeUndefined()
})

/** Texts of a few letters, so that they often match. */
function text(letters: string, maxLength: number) {
  return fc.string({ unit: fc.constantFrom(...Array.from(letters)), maxLength })
}

/** The definition of a pattern, as slow as it may be: `*` stands for each possible number of characters. */
function isLike(pattern: string, given: string): boolean {
  if (pattern === '') return given === ''
  if (pattern.startsWith('*')) {
    for (let taken = 0; taken <= given.length; taken++) {
      if (isLike(pattern.slice(1), given.slice(taken))) return true
    }
    return false
  }
  return given.startsWith(pattern.charAt(0)) && isLike(pattern.slice(1), given.slice(1))
}
