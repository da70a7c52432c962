import { lookup as systemLookup, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { createAddressRule } from './address.js'
import type { Verdict } from '../model/outcome.js'

/** Finds all addresses of a name. It must call back once, sooner or later. */
export type Lookup = (
  hostname: string,
  callback: (error: Error | null, addresses: LookupAddress[]) => void,
) => void

/** A host has no address to connect to: none at all, or none that may be reached. Nothing was sent. */
export class NoAddressError extends Error {
  override readonly name = 'NoAddressError'

  constructor(
    readonly code: 'dns_error' | 'address_refused',
    readonly verdict: Verdict,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options)
  }
}

/** Keeps connections to addresses that may be reached. */
export interface Guard {
  /** Why a host that is an address itself is refused; `undefined` if it is not. Sockets look no such host up. */
  refusal(hostname: string): NoAddressError | undefined
  /**
   * For a socket's option `lookup`: finds the addresses that may be reached. A socket connects to just what it is
   * given here, so that a name can't point elsewhere once it has been checked.
   */
  lookup: LookupFunction
}

export function createGuard(
  allowNetworks: readonly string[],
  lookup: Lookup = (hostname, callback) => {
    systemLookup(hostname, { all: true }, callback)
  },
): Guard {
  const isAllowed = createAddressRule(allowNetworks)
  const lookUp = shareLookups(lookup)
  return {
    refusal: (hostname) =>
      isIP(hostname) === 0 || isAllowed(hostname) ? undefined : literalRefused(hostname),
    lookup: (hostname, options, callback) => {
      lookUp(hostname, (error, found) => {
        const addresses = found.filter(({ address }) => isAllowed(address))
        const [first] = addresses
        if (error !== null) callback(noAddress(hostname, error), '')
        else if (first === undefined) callback(noneAllowed(hostname, found), '')
        else if (options.all === true) callback(null, addresses)
        else callback(null, first.address, first.family)
      })
    },
  }
}

/**
 * Whoever asks for a name that is being looked up waits for that answer. The system's lookups hold one of a few
 * threads each, for many seconds if the name's server is dead: one name must not hold them all.
 */
function shareLookups(lookup: Lookup): Lookup {
  const waiting = new Map<string, Parameters<Lookup>[1][]>()
  return (hostname, callback) => {
    const callbacks = waiting.get(hostname)
    if (callbacks !== undefined) {
      callbacks.push(callback)
      return
    }
    const all = [callback]
    waiting.set(hostname, all)
    lookup(hostname, (error, addresses) => {
      waiting.delete(hostname)
      for (const answer of all) answer(error, error === null ? addresses : [])
    })
  }
}

/** Only the settings can fix it, and a replay sends it then. */
function literalRefused(address: string): NoAddressError {
  return new NoAddressError(
    'address_refused',
    'refused',
    `The address ${address} is private or reserved: nothing was sent. ` +
      'To allow it, add its network to the setting allowNetworks.',
  )
}

/** A name's answer can change at any time, by itself or by a fixed DNS: it is worth another attempt. */
function noneAllowed(hostname: string, found: readonly LookupAddress[]): NoAddressError {
  if (found.length === 0)
    return new NoAddressError('dns_error', 'retry', `The name ${hostname} has no address.`)
  return new NoAddressError(
    'address_refused',
    'retry',
    `The name ${hostname} resolves to ${found.map(({ address }) => address).join(', ')}, which is private or ` +
      'reserved: nothing was sent. To allow it, add its network to the setting allowNetworks.',
  )
}

function noAddress(hostname: string, cause: Error): NoAddressError {
  const reason = (cause as NodeJS.ErrnoException).code ?? cause.message
  return new NoAddressError(
    'dns_error',
    'retry',
    `The name ${hostname} could not be resolved (${reason}). Check its DNS records, and the DNS of this machine.`,
    { cause },
  )
}
