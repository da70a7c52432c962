import { randomUUID } from 'node:crypto'

/** A number of a JSON text that is forwarded with another value, because JavaScript's numbers have limits. */
export interface ChangedNumber {
  /** Where the number is, such as `properties.items[3].id`. */
  path: string
  /** The number, the value that is forwarded, and how to keep all digits. */
  message: string
}

/** A number that may change: it has 16 digits or an exponent. Shorter numbers are the same in JavaScript. */
const LONG = /(?:^|[:[,])\s*(-?(?:[\d.]{16,}(?:[eE][+-]?\d+)?|\d[\d.]*[eE][+-]?\d+))/g

/** The texts and numbers of JSON. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/** Begins the texts that stand for changed numbers. It is random, so that no text of a client begins with it. */
const MARK = randomUUID()

/** A mark in a text. No two numbers have the same one: `<MARK>#<index>`. */
const MARKS = new RegExp(`${MARK}#\\d+`, 'g')

let nextIndex = 0

/** In characters. A number or a path may be as long as the body, and an answer must stay small. */
const MAX_SHOWN_NUMBER = 40
const MAX_SHOWN_PATH = 200

/**
 * Parses JSON in which numbers change, and puts a marked text in the place of each of them, for {@link findChanges}. Most
 * texts have no such number, and then this costs one search by a regular expression.
 *
 * @param json - Valid JSON.
 * @returns `undefined` if no number changes.
 */
export function markChanges(json: string): unknown {
  if (!hasLongChange(json)) return undefined
  const marked = json.replace(TOKENS, (token) =>
    token.startsWith('"') || !isChanged(token) ? token : `"${MARK}#${nextIndex++}:${token}"`,
  )
  return marked === json ? undefined : JSON.parse(marked)
}

/** Takes the path and the text of a number, and the mark that {@link marksIn} finds in texts that have the number. */
type Found = (path: string, number: string, mark: string) => void

/** Finds the marks in a text that was made from values of {@link markChanges}. */
export function marksIn(text: string): ReadonlySet<string> {
  return new Set(text.match(MARKS))
}

/**
 * Finds the changed numbers in a value of {@link markChanges}.
 *
 * @param path - The path of the value.
 */
export function findChanges(marked: unknown, path: string, found: Found): void {
  if (typeof marked === 'string' && marked.startsWith(MARK)) {
    const end = marked.indexOf(':')
    found(path, marked.slice(end + 1), marked.slice(0, end))
  }
  if (typeof marked !== 'object' || marked === null) return
  const isArray = Array.isArray(marked)
  for (const [key, value] of Object.entries(marked)) {
    findChanges(value, isArray ? `${path}[${key}]` : path + step(key), found)
  }
}

/**
 * The changed numbers of a JSON text.
 *
 * @param path - The path of the value.
 */
export function changedNumbers(json: string, path: string): ChangedNumber[] {
  const changes: ChangedNumber[] = []
  findChanges(markChanges(json), path, (at, number) => changes.push(toChange(at, number)))
  return changes
}

/** A first search, which also looks into texts. */
function hasLongChange(json: string): boolean {
  for (const [, number = ''] of json.matchAll(LONG)) if (isChanged(number)) return true
  return false
}

/**
 * Whether a number is forwarded with another value. Another notation of the same value is no change: `1.0`, `1e2`. The
 * 17 digits in which some clients print every fraction are none either: `0.10000000000000001` is `0.1` in JavaScript, and
 * was before the client printed it.
 */
function isChanged(number: string): boolean {
  const forwarded = Number(number)
  if (String(forwarded) === number) return false // most numbers, so their digits need not be compared
  if (!Number.isFinite(forwarded)) return true
  const value = valueOf(number)
  if (value === valueOf(String(forwarded))) return false
  return Number.isInteger(forwarded) || value !== valueOf(forwarded.toPrecision(17))
}

/** The exact value of a decimal number, in one notation: its digits without zeros at the ends, and an exponent. */
function valueOf(decimal: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(decimal) ?? []
  const digits = whole + fraction
  let end = digits.length
  while (end > 0 && digits[end - 1] === '0') end--
  const significant = digits.slice(0, end).replace(/^0+/, '')
  if (significant === '') return '0'
  return `${sign}${significant}e${Number(exponent) + whole.length - end}`
}

/** Describes a changed number. */
export function toChange(path: string, number: string): ChangedNumber {
  const forwarded = Number(number)
  const change = Number.isFinite(forwarded)
    ? `${forwarded}, the closest number of JavaScript`
    : 'null, because it is too large for JavaScript'
  const message = `The number ${cut(number, MAX_SHOWN_NUMBER)} is forwarded as ${change}. Send it as a string to keep its value.`
  return { path: cut(path, MAX_SHOWN_PATH), message }
}

function step(key: string): string {
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`
}
