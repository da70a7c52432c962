import { readFileSync, statSync } from 'node:fs'
import type { LookupAddress } from 'node:dns'
import { isIP } from 'node:net'

/** How names are completed, from `/etc/resolv.conf`. */
export interface Completion {
  /** The domains that are appended to a name, in their order. */
  search: readonly string[]
  /** A name with at least this many dots is first looked up as it is. */
  ndots: number
}

/**
 * Reads the names of a hosts file (hosts(5)): each line has an address and its names. Names are returned in lower case,
 * as URLs have them.
 */
export function parseHosts(text: string): Map<string, LookupAddress[]> {
  const hosts = new Map<string, LookupAddress[]>()
  for (const [address = '', ...names] of fieldsOf(text)) {
    const family = isIP(address)
    if (family === 0) continue
    for (const name of names.map((name) => name.toLowerCase()))
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }])
  }
  return hosts
}

/**
 * Reads `search`, `domain` and `ndots` of resolv.conf(5). The last `search` or `domain` counts. c-ares reads the name
 * servers itself.
 */
export function parseCompletion(text: string): Completion {
  let search: string[] = []
  let ndots = 1
  for (const [keyword, ...values] of fieldsOf(text)) {
    if (keyword === 'search') search = values
    if (keyword === 'domain') search = values.slice(0, 1)
    const option =
      keyword === 'options' ? values.findLast((one) => /^ndots:\d+$/.test(one)) : undefined
    // The highest value that resolv.conf(5) permits.
    if (option !== undefined) ndots = Math.min(Number(option.slice('ndots:'.length)), 15)
  }
  return { search: search.map((domain) => domain.replace(/\.$/, '')), ndots }
}

/** A longer name is invalid (RFC 1035 section 2.3.4), and c-ares would refuse the whole question. */
const MAX_NAME = 253

/** The full names that a name may stand for, in the order of their lookups (resolv.conf(5), `search` and `ndots`). */
export function candidatesOf(name: string, { search, ndots }: Completion): string[] {
  if (name.endsWith('.')) return [name]
  const completed = search
    .filter(Boolean)
    .map((domain) => `${name}.${domain}`)
    .filter(({ length }) => length <= MAX_NAME)
  const dots = name.split('.').length - 1
  return dots >= ndots ? [name, ...completed] : [...completed, name]
}

/** The words of each line, without comments. */
function fieldsOf(text: string): string[][] {
  return text.split('\n').map((line) =>
    line
      .replace(/[#;].*/, '')
      .trim()
      .split(/\s+/),
  )
}

/** A file is checked for changes at most this often, in ms. */
const CHECK_EVERY_MS = 1_000

/**
 * Keeps the parsed content of a system file, and reads the file again when it has changed: containers and VPNs rewrite
 * these files while the process runs. It reads synchronously, because a busy thread pool must not delay a lookup, and
 * these files are small and local. A file that cannot be read counts as empty.
 *
 * @param now - A time in ms that never goes back.
 */
export function followFile<T>(
  path: string,
  parse: (text: string) => T,
  now: () => number,
): () => T {
  let last: { version: string; content: T } | undefined
  let checkedAt = -Infinity
  return () => {
    if (last !== undefined && now() - checkedAt < CHECK_EVERY_MS) return last.content
    checkedAt = now()
    const version = versionOf(path)
    if (last?.version !== version) last = { version, content: parse(textOf(path)) }
    return last.content
  }
}

function versionOf(path: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(path)
    return `${mtimeMs} ${size} ${ino}`
  } catch {
    return 'none'
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
