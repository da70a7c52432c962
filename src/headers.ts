import { describe, isPlainObject } from './describe.js'
import { OptionError } from './errors.js'

const BY_THE_CLIENT = 'The client sets it: leave it out.'
const BY_HTTP = 'It belongs to the connection and not to the request: leave it out.'

/** The headers that an application cannot set, in lower case, and what to do instead. */
const REFUSED: Readonly<Record<string, string>> = {
  authorization: 'The client makes it of the write key: pass the key as the first argument.',
  'accept-encoding': 'The client asks for answers that are not compressed: leave it out.',
  'content-encoding': 'The client sets it: use the option gzip.',
  'content-length': BY_THE_CLIENT,
  'content-type': BY_THE_CLIENT,
  host: 'The client takes it from the option endpoint: set that.',
  'user-agent': BY_THE_CLIENT,
  'x-retry-count': BY_THE_CLIENT,
  // RFC 9110, sections 7.6.1 and 10.1.1: these speak of one connection, or change how the body is framed.
  connection: BY_HTTP,
  expect: BY_HTTP,
  'keep-alive': BY_HTTP,
  'proxy-connection': BY_HTTP,
  te: BY_HTTP,
  trailer: BY_HTTP,
  'transfer-encoding': BY_HTTP,
  upgrade: BY_HTTP,
  // The endpoint would read it too.
  'proxy-authorization': 'Put the user and the password into the URL of the proxy.',
}

/** A token. Source: RFC 9110, section 5.6.2. */
const NAME = /^[!#$%&'*+.^_\x60|~0-9A-Za-z-]+$/

/** Visible ASCII, with spaces and tabs inside. Source: RFC 9110, section 5.5. */
const VALUE = /^(?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?$/

/**
 * Gives a checked copy of the option `headers`. No error quotes a value: it may be a secret.
 *
 * @throws {@link OptionError} that names the header, the rule and what to do.
 */
export function checkHeaders(given: unknown): Readonly<Record<string, string>> | undefined {
  if (given === undefined) return undefined
  if (!isPlainObject(given)) {
    throw new OptionError(
      'headers',
      `headers must be a plain object of strings, { 'X-Team': 'shop' }, got ${describe(given)}.`,
    )
  }
  const seen = new Set<string>()
  for (const [name, value] of Object.entries(given)) {
    const fault = faultOf(name, value, seen)
    if (fault) throw new OptionError(`headers.${name}`, fault)
    seen.add(name.toLowerCase())
  }
  return { ...given } as Record<string, string>
}

function faultOf(name: string, value: unknown, seen: ReadonlySet<string>): string | undefined {
  const shown = describe(name)
  const lowered = name.toLowerCase()
  const refused = Object.hasOwn(REFUSED, lowered) ? REFUSED[lowered] : undefined
  if (refused) return `headers cannot have ${shown}. ${refused}`
  if (seen.has(lowered)) {
    return `headers must have each name once, whatever its case: ${shown} came twice.`
  }
  if (!NAME.test(name)) {
    return `headers must have names of letters, digits and hyphens, got ${shown}.`
  }
  if (typeof value !== 'string') {
    return `headers must be a plain object of strings, got ${describe(value)} for ${shown}.`
  }
  if (VALUE.test(value)) return undefined
  return `headers must have values of visible ASCII, without line breaks and outer spaces. The value of ${shown} has other characters: trim it, and encode what is not ASCII.`
}
