import type { Call } from '../model/call.js'
import type { Destination, Settings } from '../settings/settings.js'

/** The destinations of a call: at least one, or none with a reason for the log. */
export type Route =
  { to: readonly Destination[]; reason?: never } | { to: readonly []; reason: string }

/** The destinations of each source by the settings alone. The key is the name of the source. */
export type Routes = ReadonlyMap<string, Route>

/** The name of this destination in the integrations object of a call, case-sensitive (spec, "What the service does"). */
const INTEGRATION = 'Webhooks'

const UNKNOWN: Route = { to: [], reason: 'no destination takes this source' }
const DISABLED: Route = { to: [], reason: 'the destination is disabled' }
const TURNED_OFF: Route = { to: [], reason: "turned off by the call's integrations" }

/** Finds the destinations of each source. It runs once for each version of the settings, not for each call. */
export function routesOf({
  sources,
  destinations,
}: Pick<Settings, 'sources' | 'destinations'>): Routes {
  const takers = new Map<string, Destination[]>(sources.map(({ name }) => [name, []]))
  for (const destination of destinations) {
    for (const source of destination.sources) takers.get(source)?.push(destination)
  }
  return new Map(Array.from(takers, ([source, found]) => [source, routeTo(found)]))
}

function routeTo(takers: readonly Destination[]): Route {
  if (takers.length === 0) return UNKNOWN
  const to = takers.filter(({ enabled }) => enabled)
  return to.length > 0 ? { to } : DISABLED
}

/** Decides which destinations get a call of a source. */
export function route(source: string, call: Call, routes: Routes): Route {
  const found = routes.get(source) ?? UNKNOWN
  return found.to.length > 0 && isTurnedOff(call.integrations) ? TURNED_OFF : found
}

/**
 * Whether a call turns off this destination. `All: false` turns off each destination that is not turned on by its name.
 * An object instead of `true` carries settings, and turns the destination on as well.
 */
export function isTurnedOff(integrations: Record<string, unknown> | undefined): boolean {
  if (integrations === undefined) return false
  const own = integrations[INTEGRATION]
  if (own === false) return true
  return integrations['All'] === false && own !== true && (typeof own !== 'object' || own === null)
}
