import type { LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { createAddressRule } from '../model/address.js'
import { describeDnsError } from './dns-errors.js'
import type { Verdict } from '../model/outcome.js'

/** Finds all addresses of a host name. It must call back exactly once. */
export type Lookup = (
  hostname: string,
  callback: (error: Error | null, addresses: LookupAddress[]) => void,
) => void

/** A host has no address, or none that may be reached. Nothing was sent. */
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

/** Allows connections only to addresses that may be reached. */
export interface Guard {
  /**
   * The error for a host that is a refused IP address; `undefined` for any other host. This check is separate because
   * sockets do not call `lookup` for IP addresses.
   */
  refusal(hostname: string): NoAddressError | undefined
  /**
   * The option `lookup` of a socket. It gives only addresses that may be reached. The socket connects to exactly these
   * addresses, so that a change of the DNS record between check and connection has no effect (DNS rebinding).
   */
  lookup: LookupFunction
}

export function createGuard(allowNetworks: readonly string[], lookup: Lookup): Guard {
  const isAllowed = createAddressRule(allowNetworks)
  return {
    refusal: (hostname) =>
      isIP(hostname) === 0 || isAllowed(hostname) ? undefined : literalRefused(hostname),
    lookup: (hostname, options, callback) => {
      lookup(hostname, (error, found) => {
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

/** It is refused for good, because only a change of the settings can fix it. A replay sends the message afterwards. */
function literalRefused(address: string): NoAddressError {
  return new NoAddressError(
    'address_refused',
    'refused',
    `The address ${address} is private or reserved: nothing was sent. ` +
      'To allow it, add its network to the setting allowNetworks.',
  )
}

/** It is retried, because the addresses of a name can change at any time. */
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
  const { found, fix } = describeDnsError(hostname, cause)
  return new NoAddressError('dns_error', 'retry', `${found} ${fix}`, { cause })
}
