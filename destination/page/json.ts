// JSON as it was written: numbers keep all their digits, and members their order. JavaScript has no numbers for `1.10` and for ids of
// 19 digits, and what is shown must be found in the logs of a receiver. This file uses no browser API, so that tests can run it in Node.

/** A value of a JSON text. */
export type Json =
  | { kind: 'object'; members: readonly (readonly [name: string, value: Json])[] }
  | { kind: 'list'; items: readonly Json[] }
  | { kind: 'string' | 'number' | 'boolean' | 'null'; text: string }

/** Of valid JSON: a string, a character of its structure, or a number or word. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g

/** @returns `undefined` if the text isn't JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const tokens = text.match(TOKENS) ?? []
  let next = 0
  const read = (): Json => {
    const token = tokens[next++] ?? ''
    if (token === '{') {
      const members = readAll('}', () => {
        const name = shown(tokens[next] ?? '')
        next += 2 // the name and the colon
        return [name, read()] as const
      })
      return { kind: 'object', members }
    }
    if (token === '[') return { kind: 'list', items: readAll(']', read) }
    if (token.startsWith('"')) return { kind: 'string', text: shown(token) }
    if (token === 'null') return { kind: 'null', text: token }
    return { kind: /^[tf]/.test(token) ? 'boolean' : 'number', text: token }
  }
  const readAll = <Item>(end: string, readOne: () => Item): Item[] => {
    const all: Item[] = []
    while (tokens[next] !== end) {
      all.push(readOne())
      if (tokens[next] === ',') next++
    }
    next++
    return all
  }
  return read()
}

/** A string of JSON without escapes that it doesn't need. */
const shown = (token: string): string => JSON.stringify(JSON.parse(token))

/** Indented JSON. A text that isn't JSON is returned unchanged. */
export function pretty(text: string): string {
  const json = parseJson(text)
  return json === undefined ? text : print(json, '\n')
}

/** @param line - The break of a line, with the indentation of the value. */
function print(json: Json, line: string): string {
  const block = (open: string, inner: readonly string[], close: string) =>
    inner.length === 0 ? open + close : `${open}${line}  ${inner.join(`,${line}  `)}${line}${close}`
  const printInner = (value: Json) => print(value, `${line}  `)
  if (json.kind === 'list') return block('[', json.items.map(printInner), ']')
  if (json.kind !== 'object') return json.text
  const members = json.members.map(([name, value]) => `${name}: ${printInner(value)}`)
  return block('{', members, '}')
}
