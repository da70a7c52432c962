/** Headers that HTTP or this service sets. A static value would break the request or contradict its signature. */
const RESERVED = new Set([
  'host',
  'content-length',
  'content-type',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'user-agent',
  'x-signature',
  'x-message-id',
  'x-attempt',
  'x-hookline-test',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'traceparent',
  'tracestate',
])

/** The limit for all names and values together. Many receivers accept 8 KB of headers, and proxies add their own. */
const MAX_BYTES = 4_096

/** A problem of static headers. `name` is `undefined` if it concerns all headers together. Values are never shown. */
export interface HeaderProblem {
  name: string | undefined
  message: string
}

/** Checks the name and the value of each static header, so that no request fails because of one later. */
export function checkHeaders(headers: Record<string, unknown>): HeaderProblem[] {
  const problems: HeaderProblem[] = []
  const seen = new Map<string, string>()
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    const earlier = seen.get(name.toLowerCase())
    const message = checkName(name, earlier) ?? checkValue(value)
    if (message !== undefined) problems.push({ name, message })
    seen.set(name.toLowerCase(), name)
    bytes += name.length + (typeof value === 'string' ? value.length : 0)
  }
  if (bytes > MAX_BYTES) {
    const message = `expected at most 4,096 bytes for all names and values together, got ${bytes}.`
    problems.push({ name: undefined, message })
  }
  return problems
}

function checkName(name: string, earlier: string | undefined): string | undefined {
  // RFC 9110 section 5.6.2: a name is a token.
  if (!/^[!#$%&'*+\-.^_`|~\w]+$/.test(name)) {
    return 'expected a header name of letters, digits and "-", without spaces.'
  }
  if (name === '__proto__') return "a header with this name can't be sent. Remove it."
  const lowered = name.toLowerCase()
  if (RESERVED.has(lowered) || lowered.startsWith('proxy-')) {
    return `${name} is set by this service or by HTTP, and can't be changed here. Remove it.`
  }
  if (earlier !== undefined) {
    return (
      `is the same header as ${JSON.stringify(earlier)}, because upper and lower case do not matter in header names. ` +
      'Remove one of the two.'
    )
  }
  return undefined
}

function checkValue(value: unknown): string | undefined {
  if (typeof value !== 'string') return 'expected a string, got {shape}. Put the value in quotes.'
  if (/[\r\n]/.test(value))
    return 'expected one line, got {shape} with a line break. Remove the line break.'
  // RFC 9110 section 5.5: the characters of a field value.
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
    return 'expected only Latin-1 characters, got {shape} that contains others. Encode the others.'
  }
  return undefined
}
