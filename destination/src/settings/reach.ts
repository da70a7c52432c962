import { isIP } from 'node:net'
import { createAddressRule, type AddressRule } from '../model/address.js'
import type { Problem } from './problem.js'
import type { Destination, Settings } from './settings.js'

/**
 * Finds the endpoints that nothing can ever be sent to, because their URL names an address that is not allowed, or a host that
 * cannot exist. Without this, each of their messages would become a dead letter. Other names are judged when they are resolved.
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
    const message = known.has(url) ? undefined : whyUnreachable(url, isAllowed)
    return message === undefined ? [] : [{ path: `webhooks[${place}].url`, message }]
  })
}

function whyUnreachable(url: string, isAllowed: AddressRule): string | undefined {
  const { hostname } = new URL(url)
  // RFC 1035, 2.3.1: only the root has an empty label, and it may be written at the end.
  if (/^\.|\.\./.test(hostname)) {
    return `${hostname} is not a host name, because a part beside a dot is empty. No message could be sent.`
  }
  const address = addressOf(hostname)
  if (address === undefined || isAllowed(address)) return undefined
  return `${address} is not a public address, so every message would be refused.${ADVICE}["${address}"].`
}

const ADVICE = ' To allow it, set "allowNetworks": '

/** A message for somebody who can't change the settings of the process. */
export function withoutAdvice(message: string): string {
  const [first = ''] = message.split(ADVICE)
  return first
}

/** The address that the host of a URL is; `undefined` if it is a name that has to be looked up. */
function addressOf(hostname: string): string | undefined {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  if (/(?:^|\.)localhost\.?$/.test(host)) return '127.0.0.1'
  return isIP(host) === 0 ? undefined : host
}
