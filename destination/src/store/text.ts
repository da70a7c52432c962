/** What no database keeps as it is: NUL, halves of surrogate pairs, and the mark of this escape itself. */
const UNKEPT = /[\0\x1a]|\p{Surrogate}/u
const EACH_UNKEPT = new RegExp(UNKEPT, 'gu')
const ESCAPED = /\x1a([0-9a-f]{4})/g

/**
 * A string as databases keep it. Ids and names are a client's and may hold anything; two that differ must not
 * become the same by being stored, or the second message would be taken for a duplicate of the first.
 */
export function toStored(text: string): string {
  if (!UNKEPT.test(text)) return text
  return text.replace(EACH_UNKEPT, (unit) => '\x1a' + hex(unit.charCodeAt(0)))
}

/** The string that {@link toStored} was given. */
export function fromStored(text: string): string {
  if (!text.includes('\x1a')) return text
  return text.replace(ESCAPED, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
}

function hex(unit: number): string {
  return unit.toString(16).padStart(4, '0')
}
