import type { Destination, Settings } from './settings.js'

/**
 * The destination that gets the alerts; `undefined` if they are only logged. It has no tenant: the alerts name the destinations of all
 * tenants, and a tenant sees what its destinations get.
 */
export function recipientOf({
  alerts,
  destinations,
}: Pick<Settings, 'alerts' | 'destinations'>): Destination | undefined {
  const named = destinations.find(({ name }) => name === alerts?.destination)
  return named?.enabled === true && named.tenant === undefined ? named : undefined
}
