import * as fc from 'fast-check'

/** The first and the last code point that is no character by itself. */
const SURROGATES = [0xd800, 0xdfff] as const
const COUNT = SURROGATES[1] - SURROGATES[0] + 1

/**
 * Any character, as a `unit` of `fc.string`: the same ones as those of the unit `binary`. For that one, fast-check fills a map
 * with all million characters, which takes a second and 100 MB in each process.
 */
export const anyCharacter = fc
  .nat(0x10ffff - COUNT)
  .map((index) => String.fromCodePoint(index < SURROGATES[0] ? index : index + COUNT), indexOf)

/** By this, fast-check knows which strings it can make of characters. Those that it cannot make have to throw. */
function indexOf(text: unknown): number {
  const [character = '', more] = typeof text === 'string' ? text : []
  const code = character.codePointAt(0)
  if (code === undefined || more !== undefined || !character.isWellFormed())
    throw new TypeError(`${String(text)} is not one character`)
  return code < SURROGATES[0] ? code : code - COUNT
}
