/**
 * Characters that databases can't store as they are: NUL and halves of surrogate pairs; and the escape character 0x1A.
 */
const EACH_UNKEPT = /[\0\x1a]|\p{Surrogate}/gu
const ESCAPED = /\x1a([0-9a-f]{4})/g

/**
 * Escapes a string for a database. Ids and names come from clients and may contain any character. Two different ids
 * must stay different in the database: otherwise the second message counts as a duplicate of the first and is lost.
 */
export function toStored(text: string): string {
  // Each body passes here. This takes a sixth of the time of a regular expression.
  if (text.isWellFormed() && !text.includes('\0') && !text.includes('\x1a')) return text
  return text.replace(EACH_UNKEPT, (unit) => '\x1a' + hex(unit.charCodeAt(0)))
}

/** Reverses {@link toStored}. */
export function fromStored(text: string): string {
  if (!text.includes('\x1a')) return text
  return text.replace(ESCAPED, (_, code: string) => String.fromCharCode(parseInt(code, 16)))
}

function hex(unit: number): string {
  return unit.toString(16).padStart(4, '0')
}
