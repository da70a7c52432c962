import { isIP } from 'node:net'
import { createAddressRule, type AddressRule } from '../model/address.js'
import type { Problem } from './problem.js'
import type { Destination, Settings } from './settings.js'

/**
 * Finds the endpoints that nothing can ever be sent to, because their URL names an address that is not allowed. Without
 * this, each of their messages would become a dead letter at once. Other names are judged when they are resolved.
 */
export function refusedEndpoints({ destinations, allowNetworks }: Settings): Problem[] {
  const isAllowed = createAddressRule(allowNetworks)
  return destinations.flatMap((destination, index) =>
    refusedEndpointsOf(destination, isAllowed).map(({ path, message }) => ({
      path: `destinations[${index}].${path}`,
      message,
    })),
  )
}

/**
 * Finds the endpoints of one destination that nothing can ever be sent to, as {@link refusedEndpoints} does.
 *
 * @param isAllowed - The rule of `allowNetworks`.
 * @param known - URLs that are not judged again.
 */
export function refusedEndpointsOf(
  { webhooks }: Pick<Destination, 'webhooks'>,
  isAllowed: AddressRule,
  known: ReadonlySet<string> = new Set(),
): Problem[] {
  return webhooks.flatMap(({ url }, place) => {
    const address = addressOf(url)
    if (address === undefined || isAllowed(address) || known.has(url)) return []
    return [
      {
        path: `webhooks[${place}].url`,
        message: `${address} is not a public address, so every message would be refused.${ADVICE}["${address}"].`,
      },
    ]
  })
}

const ADVICE = ' To allow it, set "allowNetworks": '

/** A message for somebody who can't change the settings of the process. */
export function withoutAdvice(message: string): string {
  const [first = ''] = message.split(ADVICE)
  return first
}

/** The address that a URL names; `undefined` if it names a host that has to be looked up. */
function addressOf(url: string): string | undefined {
  const host = new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
  if (/(?:^|\.)localhost\.?$/.test(host)) return '127.0.0.1'
  return isIP(host) === 0 ? undefined : host
}
