import { getDefaultResultOrder, promises, type LookupAddress, type RecordWithTtl } from 'node:dns'
import { networkInterfaces } from 'node:os'
import { candidatesOf, type Completion } from './system-names.js'

/** The addresses of a name. */
export interface Answer {
  /** In the order in which they are tried; at least one. */
  addresses: readonly LookupAddress[]
  /** The time for which the addresses are valid, in ms. */
  ttlMs: number
}

/** Finds the addresses of a name. It rejects with an error that has a code of `node:dns`. */
export type Ask = (hostname: string) => Promise<Answer>

/** The time until a question is asked again, in ms. It doubles with each try. */
const TRY_MS = 500

/** Two lost packets are sent again. A name server then has 3.5 s to find an answer, which fits into an attempt's deadline. */
const TRIES = 3

/** How long the addresses of one family wait for those of the other, in ms. */
const OTHER_FAMILY_MS = 500

/**
 * Asks name servers with c-ares, which waits for answers in the event loop. `dns.lookup` waits in a thread of libuv. There
 * are four, and a few silent names would occupy all of them for many seconds.
 *
 * @param servers - IP addresses, with a port after a colon if it is not 53. Those of `/etc/resolv.conf` if left out.
 */
export function createNameServers(completion: Completion, servers?: readonly string[]): Ask {
  const resolvers = resolversOf(servers)
  return async (hostname) => {
    let failure: unknown
    for (const name of candidatesOf(hostname, completion)) {
      try {
        return await askInTurn(resolvers, name)
      } catch (error) {
        // As in glibc, a failure of one search domain does not hide a name in the next.
        if (!isAbsent(error) && !isFailedServer(error)) throw error
        if (failure === undefined || isAbsent(failure)) failure = error
      }
    }
    throw failure
  }
}

/** Whether the name servers answered that the name does not exist, or has no address. */
export function isAbsent(error: unknown): boolean {
  return ['ENOTFOUND', 'ENODATA'].includes(codeOf(error))
}

/** Whether another name server may have a better answer. */
function isFailedServer(error: unknown): boolean {
  return ['ESERVFAIL', 'EREFUSED', 'ENOTIMP', 'EFORMERR', 'EBADRESP'].includes(codeOf(error))
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? ''
}

/**
 * Makes a resolver for each server, which begins with that server. c-ares asks the next server only if one is silent, and
 * Node sets it up so that it does not do so if a server fails.
 */
function resolversOf(servers: readonly string[] | undefined): promises.Resolver[] {
  const first = new promises.Resolver({ timeout: TRY_MS, tries: TRIES })
  if (servers !== undefined) first.setServers(servers)
  const all = first.getServers()
  const others = all.slice(1).map((_, index) => {
    const resolver = new promises.Resolver({ timeout: TRY_MS, tries: TRIES })
    resolver.setServers([...all.slice(index + 1), ...all.slice(0, index + 1)])
    return resolver
  })
  return [first, ...others]
}

async function askInTurn(resolvers: readonly promises.Resolver[], name: string): Promise<Answer> {
  let failure: unknown
  for (const resolver of resolvers) {
    try {
      return await askBoth(resolver, name)
    } catch (error) {
      if (!isFailedServer(error)) throw error
      failure = error
    }
  }
  throw failure
}

/** What came of the question for the addresses of one family. */
interface Part {
  addresses: readonly LookupAddress[]
  ttls: readonly number[]
  error?: unknown
}

async function askBoth(resolver: promises.Resolver, name: string): Promise<Answer> {
  const parts = await bothParts(resolver, name)
  const addresses = inOrder(parts.flatMap((part) => part.addresses))
  if (addresses.length === 0) throw gravest(parts)
  const isWhole = parts.length === 2 && parts.every(({ error }) => !error || isAbsent(error))
  const ttls = parts.flatMap((part) => part.ttls)
  return { addresses, ttlMs: isWhole ? Math.min(...ttls) * 1_000 : 0 }
}

/**
 * Asks for the addresses of both families. Some name servers never answer one of the two questions. Then the addresses of
 * the other family are used after a short time. They are not kept, because the missing answer may only be late.
 *
 * What can fail is left to {@link askBoth}: an error in one of these callbacks would end the process.
 */
function bothParts(resolver: promises.Resolver, name: string): Promise<readonly Part[]> {
  return new Promise((resolve) => {
    const parts: Part[] = []
    let patience: NodeJS.Timeout | undefined
    const finish = (): void => {
      clearTimeout(patience)
      resolve([...parts])
    }
    const add = (part: Part): void => {
      parts.push(part)
      if (parts.length === 2) finish()
      else if (part.addresses.length > 0) patience = setTimeout(finish, OTHER_FAMILY_MS).unref()
    }
    void partOf(resolver.resolve4(name, { ttl: true }), 4).then(add)
    void partOf(resolver.resolve6(name, { ttl: true }), 6).then(add)
  })
}

async function partOf(query: Promise<RecordWithTtl[]>, family: number): Promise<Part> {
  try {
    const records = await query
    return {
      addresses: records.map(({ address }) => ({ address, family })),
      ttls: records.map(({ ttl }) => ttl),
    }
  } catch (error) {
    return { addresses: [], ttls: [], error }
  }
}

/** A name is absent only if both answers say so. */
function gravest(parts: readonly Part[]): Error {
  const errors = parts.map(({ error }) => error as Error)
  const [first = new Error('ENODATA')] = errors
  return errors.find((error) => !isAbsent(error)) ?? first
}

/**
 * Puts the family first that `dns.lookup` would: as `--dns-result-order` says, and by default IPv6 if this machine has an
 * address of its own in the public IPv6 network (RFC 6724). The servers' order within a family is kept.
 */
function inOrder(addresses: readonly LookupAddress[]): LookupAddress[] {
  const order = getDefaultResultOrder()
  const isV6First = order === 'ipv6first' || (order === 'verbatim' && hasPublicV6())
  const first = isV6First ? 6 : 4
  return [
    ...addresses.filter(({ family }) => family === first),
    ...addresses.filter(({ family }) => family !== first),
  ]
}

/**
 * 2000::/3 is all that is public in IPv6. A sandbox may forbid the question, as `RestrictAddressFamilies=` of systemd does
 * without AF_NETLINK. Then IPv4 comes first, which more machines have; the other family is still tried next.
 */
function hasPublicV6(): boolean {
  try {
    const own = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
    return own.some(({ address }) => /^[23][\da-f]{3}:/.test(address))
  } catch {
    return false
  }
}
