/** Where a word begins in camelCase: a capital after a small letter or a digit, and the last of several capitals. */
const WORD_STARTS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

/** Everything but Thai's and Lao's vowel am, which NFKD replaces by two characters that NFC does not join again. */
const DECOMPOSABLE = /[^\u0E33\u0EB3]+/gu

/** Marks that only choose how the character before them is drawn, as in emoji. */
const VARIATIONS = /\p{VS}+/gu

/**
 * The accents of alphabets in which a word without them is still the word, and marks without a letter. In other scripts, marks are
 * vowels or make other letters: パ is ハ with a mark.
 */
const ACCENTS =
  /(^|[\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}\p{sc=Hebrew}\p{scx=Arabic}]|[^\p{L}\p{M}])\p{M}+/gu

/** Matches everything but letters with their marks, and digits. */
const GAPS = /[^\p{L}\p{M}\p{N}]+/gu

/**
 * Makes the trait of an audience: its name in snake_case (spec, "Outbound request", rule 3). The accents of Latin, Greek and Cyrillic
 * and the points of Hebrew and Arabic are removed. Digits belong to the word before them. Other scripts keep their letters and marks.
 *
 * @returns an empty text if the name has no letter and no digit.
 */
export function traitOf(audience: string): string {
  return audience
    .replace(DECOMPOSABLE, (part) => part.normalize('NFKD'))
    .replace(VARIATIONS, '')
    .replace(ACCENTS, '$1')
    .replace(/['’]/g, '')
    .replace(WORD_STARTS, '_')
    .replace(GAPS, '_')
    .replace(/^_+|_+$/g, '')
    .toLowerCase()
    .normalize('NFC')
}
