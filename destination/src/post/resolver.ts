import { promises, type LookupAddress } from 'node:dns'
import { createDnsCache } from './dns-cache.js'
import type { Lookup } from './guard.js'
import { createLimit } from './limit.js'
import { createNameServers, isAbsent, type Ask } from './name-servers.js'
import { followFile, parseCompletion, parseHosts } from './system-names.js'

export interface ResolverOptions {
  /** How long a lookup may take, in ms, before those who wait for it are told that no name server answered. */
  lateMs: number
  /**
   * The name servers: IP addresses, with a port after a colon if it is not 53.
   * @defaultValue Those of `/etc/resolv.conf`.
   */
  servers?: readonly string[]
  /** @defaultValue `/etc/hosts` */
  hostsFile?: string
  /** @defaultValue `/etc/resolv.conf` */
  resolvConf?: string
  /**
   * Looks up the names that DNS does not know.
   * @defaultValue The system's resolver, `dns.lookup`.
   */
  systemLookup?: (hostname: string) => Promise<LookupAddress[]>
  /**
   * A time in ms that never goes back.
   * @defaultValue `performance.now`
   */
  now?: () => number
}

/**
 * How many names are asked for at once. The answers to thousands of questions would not fit into the receive buffer of a
 * UDP socket, and be lost.
 */
const MAX_QUESTIONS = 100

/**
 * The time after which a question lets the next one start, in ms. A name server that is silent for so long sends no burst of
 * answers, and silent names must not hold up the others.
 */
const QUESTION_HOLD_MS = 250

/**
 * The system's lookups of the whole process. Each occupies a thread of libuv, and there are four by default. The file
 * system and gzip need the others.
 */
const systemLookups = createLimit(2)

/** How long a system lookup is valid, in ms. It does not tell a TTL. */
const SYSTEM_TTL_MS = 10_000

/** RFC 6761 section 6.3: these names never mean another machine. */
const LOCALHOST = /^(?:.+\.)?localhost\.?$/
const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

/**
 * Makes a resolver that finds the same addresses as `getaddrinfo` with the usual `hosts: files dns` of nsswitch.conf(5), so
 * that a name means the same as in every other program on this machine:
 *
 * 1. the hosts file,
 * 2. the name servers, with the search domains of resolv.conf(5), through a cache,
 * 3. the system's own resolver, if the name servers answered that they do not know the name. It also knows the other sources
 *    of nsswitch.conf(5), such as mDNS and the machine's own name.
 *
 * It does not ask the system's resolver if the name servers are silent: that would ask the same servers again, and wait in a
 * thread for them.
 */
export function createResolver(options: ResolverOptions): Lookup {
  const { lateMs, servers, now = () => performance.now() } = options
  const { hostsFile = '/etc/hosts', resolvConf = '/etc/resolv.conf' } = options
  const { systemLookup = (hostname: string) => promises.lookup(hostname, { all: true }) } = options

  const hosts = followFile(hostsFile, parseHosts, now)
  const makeNameServers = (text: string) => createNameServers(parseCompletion(text), servers)
  const nameServers = followFile(resolvConf, makeNameServers, now)
  const questions = createLimit(MAX_QUESTIONS, QUESTION_HOLD_MS)

  const ask: Ask = async (hostname) => {
    try {
      return await questions(() => nameServers()(hostname))
    } catch (error) {
      if (!isAbsent(error)) throw error
      const addresses = await systemLookups(() => systemLookup(hostname)).catch(() => [])
      if (addresses.length === 0) throw error
      return { addresses, ttlMs: SYSTEM_TTL_MS }
    }
  }

  const lookUp = createDnsCache(ask, { now, lateMs })
  return (hostname, callback) => {
    const known = hosts().get(hostname) ?? (LOCALHOST.test(hostname) ? LOOPBACK : undefined)
    if (known === undefined) lookUp(hostname, callback)
    else
      queueMicrotask(() => {
        callback(null, [...known])
      })
  }
}
