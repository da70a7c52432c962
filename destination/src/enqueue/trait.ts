/** Where a word begins within one: after a small letter or a digit, and at the last of several capitals. */
const WORD_STARTS = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu

/** Everything but letters and digits. */
const GAPS = /[^\p{L}\p{N}]+/gu

/**
 * The trait of an audience: its name in snake_case (spec, "Outbound request", rule 3). Accents are left out, digits stay
 * with the word that they follow; letters of other scripts stay as they are.
 *
 * @returns an empty text if there is neither a letter nor a digit in the name.
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
