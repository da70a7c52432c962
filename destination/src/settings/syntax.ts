import { isUtf8 } from 'node:buffer'
import {
  isScalar,
  LineCounter,
  parseAllDocuments,
  parseDocument,
  visit,
  type Document,
  type ErrorCode,
} from 'yaml'
import { REPEATED } from './problem.js'
import { SettingsError } from './settings-error.js'

/** An error in the syntax of a text. Line and column count from 1. */
export interface SyntaxFault {
  line: number
  column: number
  message: string
}

/**
 * Parses the text of a file, which may begin with a byte order mark.
 *
 * @param shown - The name of the file for messages.
 * @throws SettingsError with every error in the syntax, or with the first byte that no text in UTF-8 has.
 */
export function parseText(bytes: Buffer, isYaml: boolean, shown: string): unknown {
  const fault = zeroFault(bytes) ?? encodingFault(bytes)
  const parsed = fault
    ? { faults: [fault] }
    : (isYaml ? parseYaml : parseJson)(bytes.toString().replace(/^\uFEFF/, ''))
  if ('value' in parsed) return parsed.value
  const problems = parsed.faults.map(({ line, column, message }) => ({
    path: `line ${line}, column ${column}`,
    message,
  }))
  throw new SettingsError('settings_syntax', shown, problems)
}

/** Finds a byte 0. UTF-16 has one in each letter of English, and without its mark it is UTF-8 too. */
function zeroFault(bytes: Buffer): SyntaxFault | undefined {
  const at = bytes.indexOf(0)
  if (at < 0) return undefined
  const before = bytes.toString('utf8', 0, at)
  const message = 'there is a byte 0, as in UTF-16. Save the file as UTF-8.'
  return { ...placeOf(before, before.length), message }
}

/** Finds the first byte that is not UTF-8. It would become U+FFFD, and a secret with it would be another secret. */
function encodingFault(bytes: Buffer): SyntaxFault | undefined {
  if (isUtf8(bytes)) return undefined
  const changed = Buffer.from(bytes.toString())
  const at = bytes.findIndex((byte, i) => byte !== changed[i])
  // With `stream`, it leaves out the start of a character that is cut off. U+FFFD may begin with the same bytes.
  const before = new TextDecoder().decode(bytes.subarray(0, at), { stream: true })
  const message = 'there is a byte that is not UTF-8. Save the file as UTF-8.'
  return { ...placeOf(before, before.length), message }
}

/** Parses JSON. A field that occurs twice is a fault too, because nobody could see which of the two counts. */
export function parseJson(text: string): { value: unknown } | { faults: SyntaxFault[] } {
  try {
    const value: unknown = JSON.parse(text)
    const faults = repeatedFields(text)
    return faults.length > 0 ? { faults } : { value }
  } catch {
    // The message of JSON.parse can't be used, because it may quote a secret and often has no position.
    return { faults: [findFault(text)] }
  }
}

/** Parses YAML. */
function parseYaml(text: string): { value: unknown } | { faults: SyntaxFault[] } {
  const { document, faults } = checkYaml(text)
  if (faults.length > 0) return { faults }
  try {
    return { value: document.toJS() }
  } catch {
    const message = 'the aliases expand to too much data.'
    return { faults: [{ line: 1, column: 1, message }] }
  }
}

function checkYaml(text: string) {
  const lineCounter = new LineCounter()
  const options = { lineCounter, prettyErrors: false }
  const [document = parseDocument(text, options), second] = [
    ...parseAllDocuments(text, options),
  ].filter(hasContent)
  // The parser ignores a tag that it does not know, and `!env NAME` would be the text NAME.
  const tags = document.warnings.filter(({ code }) => code === 'TAG_RESOLVE_FAILED')
  const faults = [...document.errors, ...tags].map(({ code, message, pos }): SyntaxFault => {
    const { line, col: column } = lineCounter.linePos(pos[0])
    // After a colon, the message may quote the file, and the quoted text may be a secret.
    const [said = ''] = message.split(': ')
    return { line, column, message: OWN_MESSAGES[code] ?? `${said}.` }
  })
  if (second) {
    const { line, col: column } = lineCounter.linePos(second.range[0])
    const message = 'a second document begins here (---). Remove it: only one is read.'
    faults.push({ line, column, message })
  }
  return { document, faults: faults.length > 0 ? faults : aliasFaults(document, lineCounter) }
}

/** Whether a document is more than its line `---`. Programs that join files end with such a line. */
function hasContent({ contents, errors }: Document): boolean {
  return errors.length > 0 || !(isScalar(contents) && contents.value === null && !contents.source)
}

/** The messages for errors of the parser whose own message is meant for programmers, or quotes the file. */
const OWN_MESSAGES: Partial<Record<ErrorCode, string>> = {
  DUPLICATE_KEY: REPEATED,
  TAG_RESOLVE_FAILED:
    'the tag (!name) of this value cannot be used. Remove it. Write ${NAME} for an environment variable, and put a text that begins with ! in quotes.',
}

/** Finds the fields that an object has twice. JSON.parse does not report them. The text must be valid JSON. */
function repeatedFields(text: string): SyntaxFault[] {
  const faults: SyntaxFault[] = []
  /** The names in each open object; `undefined` for an open array. */
  const open: (Set<unknown> | undefined)[] = []
  let isNameNext = false
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],]/g)) {
    if (token === '{' || token === '[') open.push(token === '{' ? new Set() : undefined)
    else if (token === '}' || token === ']') open.pop()
    else if (token !== ',' && isNameNext) {
      const name: unknown = JSON.parse(token)
      const names = open.at(-1)
      if (names?.has(name) === true) faults.push({ ...placeOf(text, index), message: REPEATED })
      names?.add(name)
    }
    isNameNext = (token === '{' || token === ',') && open.at(-1) !== undefined
  }
  return faults
}

/** Finds aliases that can't be replaced by a value. The parser accepts an alias within its own value, which has no end. */
function aliasFaults(document: Document, lineCounter: LineCounter): SyntaxFault[] {
  const faults: SyntaxFault[] = []
  visit(document, {
    Alias: (_key, alias, path) => {
      const value = alias.resolve(document)
      if (value && !path.includes(value)) return
      const { line, col: column } = lineCounter.linePos(alias.range?.[0] ?? 0)
      const message = value
        ? 'this alias (*name) is inside the value that it refers to. Remove it.'
        : 'this alias (*name) has no anchor (&name) before it.'
      faults.push({ line, column, message })
    },
  })
  return faults
}

const SPACE = /[ \t\r\n]*/y
const TOKEN =
  /([[\]{},:])|("(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*")|(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.])/uy

/** Finds the first place where a text is not JSON (RFC 8259). The text must be invalid. */
function findFault(text: string): SyntaxFault {
  const open: ('{' | '[')[] = []
  let wanted = 'a value'
  let index = 0
  for (;;) {
    index = endOf(SPACE, text, index) ?? index
    const end = endOf(TOKEN, text, index)
    const next = end === undefined ? undefined : step(wanted, text.slice(index, end), open)
    if (end === undefined || next === undefined) return faultAt(text, index, wanted)
    wanted = next
    index = end
  }
}

function endOf(pattern: RegExp, text: string, index: number): number | undefined {
  pattern.lastIndex = index
  return pattern.test(text) ? pattern.lastIndex : undefined
}

const NAME = 'a name in double quotes'

/** What is expected after a token; `undefined` if the token itself is not expected. */
function step(wanted: string, token: string, open: ('{' | '[')[]): string | undefined {
  const after = () => {
    const inside = open.at(-1)
    return inside === undefined ? 'the end of the file' : `a comma or ${inside === '{' ? '}' : ']'}`
  }
  if (wanted === 'a colon') return token === ':' ? 'a value' : undefined
  if (wanted.endsWith(`or ${token}`)) {
    open.pop()
    return after()
  }
  if (wanted.startsWith('a comma')) {
    if (token !== ',') return undefined
    return open.at(-1) === '{' ? NAME : 'a value'
  }
  if (wanted.startsWith(NAME)) return token.startsWith('"') ? 'a colon' : undefined
  if (!wanted.startsWith('a value')) return undefined
  if (token !== '{' && token !== '[') return /^[\]},:]$/.test(token) ? undefined : after()
  open.push(token)
  return token === '{' ? `${NAME} or }` : 'a value or ]'
}

function faultAt(text: string, index: number, wanted: string): SyntaxFault {
  const found = String.fromCodePoint(text.codePointAt(index) ?? 0)
  const isEnd = index >= text.length
  return {
    ...placeOf(text, index),
    message: `expected ${wanted}, got ${isEnd ? 'the end of the file' : found}${fixFor(found, wanted)}`,
  }
}

function placeOf(text: string, index: number): { line: number; column: number } {
  const before = text.slice(0, index).split('\n')
  return { line: before.length, column: (before.at(-1) ?? '').length + 1 }
}

function fixFor(found: string, wanted: string): string {
  if (/[}\]]/.test(found) && /^(a value|a name in double quotes)$/.test(wanted)) {
    return '. Remove the comma before it.'
  }
  if (found === '/' || found === '#')
    return '. JSON does not allow comments. A YAML file (*.yaml) does.'
  if (found === "'") return '. Write strings in double quotes.'
  if (found === '"' && !wanted.startsWith('a comma')) {
    return '. The string does not end on its line, or it contains an invalid escape (\\).'
  }
  return '.'
}
