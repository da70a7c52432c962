import { describe, isPlainObject } from './describe.js'

/** What a server said of one message that it refused. */
export interface Rejection {
  readonly code: string
  readonly message: string
}

/** Longer words of a server are cut: they end up in errors and logs. */
const MAX_WORDS_LENGTH = 500

/**
 * Reads which messages of an accepted batch the server refused, by their place in the batch: from
 * `{ "rejected": [{ "index": 3, "code": "…", "message": "…" }] }`. An answer of another form refuses none.
 */
export function readRejections(body: string, batchLength: number): Map<number, Rejection> {
  const rejections = new Map<number, Rejection>()
  for (const item of rejectedList(body)) {
    if (!isPlainObject(item)) continue
    const { index, code, message } = item
    if (!Number.isInteger(index) || (index as number) < 0 || (index as number) >= batchLength)
      continue
    rejections.set(index as number, { code: words(code), message: words(message) })
  }
  return rejections
}

/** Whether a body is the beginning of an object, and not all of it. */
export function isCutJson(body: string): boolean {
  return /^\s*\{\s*(["}]|$)/.test(body) && endOfObject(body) === Infinity
}

/** Whether a cut object may have begun a list of refused messages: it is not empty, and no other value. */
export function isListBegun(body: string): boolean {
  // JSON may write any letter as an escape.
  const text = body.replace(/\\u00([67][\da-f])/gi, (_, hex: string) =>
    String.fromCharCode(parseInt(hex, 16)),
  )
  return /"rejected"(?!\s*(?:[^:\s]|:\s*(?:\[\s*\]|[^[\s])))/.test(text)
}

/** Where the object ends with which a body begins: Infinity if it is cut, 0 if there is none. Other text may follow. */
function endOfObject(body: string): number {
  if (!body.trimStart().startsWith('{')) return 0
  let open = 0
  let isInText = false
  // Not a regular expression: one that repeats a choice has no room for 8 MB.
  for (let at = 0; at < body.length; at++) {
    const char = body[at]
    if (char === '"') isInText = !isInText
    else if (isInText && char === '\\') at++
    else if (!isInText && (char === '{' || char === '[')) open++
    else if (!isInText && (char === '}' || char === ']') && --open === 0) return at + 1
  }
  return Infinity
}

function rejectedList(body: string): unknown[] {
  try {
    const answer: unknown = JSON.parse(body.slice(0, endOfObject(body)))
    return isPlainObject(answer) && Array.isArray(answer['rejected']) ? answer['rejected'] : []
  } catch {
    return []
  }
}

/**
 * A stranger's value as text. Only text is repeated: to make text of an object would call its own `toString`, and of
 * one that is nested 100,000 times would exceed the stack.
 */
function words(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value.slice(0, MAX_WORDS_LENGTH) : describe(value)
}
