import { net } from './runtime.js'

/** The variables of an environment. */
export type Environment = Readonly<Record<string, string | undefined>>

/**
 * Gives the proxy that an environment names for an endpoint, if there is one. The rules are those of Go's
 * `http.ProxyFromEnvironment`: the endpoint's scheme chooses `HTTPS_PROXY` or `HTTP_PROXY`, `NO_PROXY` exempts
 * hosts, and an endpoint on this machine is never reached through a proxy.
 *
 * @returns an error for a value that names no proxy that Node can use: a proxy may be mandatory, so nothing may be sent
 * past one because of a typing error
 */
export function proxyFor(endpoint: URL, environment: Environment): URL | Error | undefined {
  const isSecure = endpoint.protocol === 'https:'
  const name = nameIn(environment, isSecure ? 'HTTPS_PROXY' : 'HTTP_PROXY')
  const given = environment[name]
  if (!given || isExempt(endpoint, environment[nameIn(environment, 'NO_PROXY')] ?? '')) {
    return undefined
  }
  // In a CGI program, HTTP_PROXY is the header Proxy of whoever made the request: https://go.dev/s/cgihttpproxy
  if (!isSecure && environment['REQUEST_METHOD']) return new Error(describeForgeable(name))
  return parse(given) ?? new Error(describeWrong(name, given))
}

/** The name under which a variable has a value: in upper or in lower case. */
function nameIn(environment: Environment, name: string): string {
  return environment[name] ? name : name.toLowerCase()
}

function parse(given: string): URL | undefined {
  const hasScheme = given.includes('://')
  // A scheme with a typing error would be the host. Without a scheme, nothing but the host and the port may follow.
  if (!hasScheme && /^https?:(?!\d)|\/./i.test(given)) return undefined
  if (isUnescaped(given)) return undefined
  const text = hasScheme ? given : `http://${given}`
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url && /^https?:$/.test(url.protocol) && url.hostname && isDecodable(url) ? url : undefined
}

/** Whether the user or the password has a character that ends them, or that a URL loses: the host would be another one. */
function isUnescaped(given: string): boolean {
  return /[/?#\\].*@/.test(given.replace('://', '')) || /[\t\r\n]/.test(given.trim())
}

/** Node decodes the user and the password when a client is made, and throws for a % that escapes nothing. */
function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

const ESCAPES =
  'In a user or a password, write % as %25, / as %2F, ? as %3F, # as %23 and \\ as %5C, and no tab or line break.'

/** Shows no more of the value than its scheme: it may have a password. */
function describeWrong(name: string, given: string): string {
  const [scheme] = /^[a-z][a-z\d+.-]*:\/\//i.exec(given) ?? []
  const isOther = scheme && !/^https?:/i.test(scheme)
  const got = isOther ? `a URL that starts with ${scheme}` : 'a value that is no such URL'
  const hint = given.includes('%') || isUnescaped(given) ? ` ${ESCAPES}` : ''
  return `${name}: expected http://host:port or https://host:port, got ${got}.${hint} Nothing is sent past the proxy: correct the variable and start again, or give the option agent.`
}

const describeForgeable = (name: string) =>
  `${name}: not used, since REQUEST_METHOD is set too: in a CGI program, whoever makes a request could choose the proxy. Nothing is sent past the proxy: unset REQUEST_METHOD elsewhere, or give the option agent.`

function isExempt({ protocol, hostname, port }: URL, list: string): boolean {
  const host = withoutBrackets(hostname)
  const family = ipFamily(host)
  if (host === 'localhost' || (family && LOOPBACK?.check(host, family))) return true
  const ownPort = port || (protocol === 'https:' ? '443' : '80')
  return list
    .toLowerCase()
    .split(',')
    .map((entry) => entry.trim())
    .some((entry) => matches(entry, host, ownPort))
}

/** `*`, a domain with those under it, `.domain` or `*.domain` for those alone, an ip, a range; or one with a port. */
function matches(entry: string, host: string, ownPort: string): boolean {
  if (entry === '*') return true
  if (entry.includes('/')) return isInRange(entry, host)
  const [, name = entry, port] = /^(\[.*\]|[^:]*):(\d+)$/.exec(entry) ?? []
  if (port && port !== ownPort) return false
  const wanted = withoutBrackets(name).replace(/^\*\./, '.')
  if (wanted === '' || wanted === '.') return false
  if (ipFamily(host)) return wanted === host
  if (wanted.startsWith('.')) return host.endsWith(wanted)
  return host === wanted || host.endsWith(`.${wanted}`)
}

/** The address of `[::1]`, the form that an IPv6 address has in a URL and before a port. */
function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}

function isInRange(range: string, host: string): boolean {
  const family = ipFamily(host)
  const [address = '', bits = ''] = range.split('/')
  const isValid = /^\d+$/.test(bits) && Number(bits) <= (family === 'ipv4' ? 32 : 128)
  if (!net || !family || !isValid || ipFamily(address) !== family) return false
  const list = new net.BlockList()
  list.addSubnet(address, Number(bits), family)
  return list.check(host, family)
}

function ipFamily(host: string): 'ipv4' | 'ipv6' | undefined {
  const version = net?.isIP(host)
  return version ? `ipv${version as 4 | 6}` : undefined
}

const LOOPBACK = net && new net.BlockList()
LOOPBACK?.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK?.addAddress('::1', 'ipv6')
