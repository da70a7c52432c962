/** Where a word begins in camelCase: a capital after a small letter or a digit, and the last of several capitals. */
const WORD_STARTS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

/** Matches everything but letters and digits. */
const GAPS = /[^\p{L}\p{N}]+/gu

/**
 * Makes the trait of an audience: its name in snake_case (spec, "Outbound request", rule 3). Accents are removed. Digits
 * belong to the word before them. Letters of other scripts are not changed.
 *
 * @returns an empty text if the name has no letter and no digit.
 */
export function traitOf(audience: string): string {
  return audience
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/['’]/g, '')
    .replace(WORD_STARTS, '_')
    .replace(GAPS, '_')
    .replace(/^_+|_+$/g, '')
    .toLowerCase()
    .normalize('NFC')
}
