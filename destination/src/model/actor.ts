/** In characters. It is longer than any name of a person or a program. */
export const MAX_ACTOR = 100

/**
 * Characters that are seen, at least one of them no space, and the two that join letters in names of Persian and of Indian
 * languages.
 */
const NAME = /^(?=.*[^\s\p{C}])(?:[^\p{C}]|[\u200c\u200d])+$/u

/** Whether the audit log can have this name. */
export const isActorName = (name: string): boolean => name.length <= MAX_ACTOR && NAME.test(name)

/** How a name begins that is not in ASCII: https://www.rfc-editor.org/rfc/rfc8187#section-3.2 */
const ENCODED = "UTF-8''"

const ASCII = /^[\x20-\x7e]*$/

const isEncoded = (header: string): boolean =>
  header.slice(0, ENCODED.length).toUpperCase() === ENCODED

/** Writes a name for the header `X-Actor`. Headers of HTTP have only ASCII. */
export const encodeActor = (name: string): string =>
  ASCII.test(name) && !isEncoded(name) ? name : ENCODED + encodeURIComponent(name)

/** Reads a name from the header `X-Actor`. @returns `undefined` if it is not one. */
export function decodeActor(header: string): string | undefined {
  if (!ASCII.test(header)) return undefined
  try {
    const name = isEncoded(header) ? decodeURIComponent(header.slice(ENCODED.length)) : header
    return isActorName(name) ? name : undefined
  } catch {
    return undefined
  }
}
