import type { Call } from '../model/call.js'
import type { Destination, Settings } from '../settings/settings.js'

/** Where a call goes: to one destination at least, or to none for a reason, in words for the log. */
export type Route =
  { to: readonly Destination[]; reason?: never } | { to: readonly []; reason: string }

/** Where the calls of a source go as far as the settings tell, by the source's name. */
export type Routes = ReadonlyMap<string, Route>

/** The name of this destination in the integrations object of a call, case-sensitive (spec, "What the service does"). */
const INTEGRATION = 'Webhooks'

const UNKNOWN: Route = { to: [], reason: 'no destination takes this source' }
const DISABLED: Route = { to: [], reason: 'the destination is disabled' }
const TURNED_OFF: Route = { to: [], reason: "turned off by the call's integrations" }

/** Works out what the settings tell, once for all calls. */
export function routesOf({
  sources,
  destinations,
}: Pick<Settings, 'sources' | 'destinations'>): Routes {
  return new Map(sources.map(({ name }) => [name, routeOfSource(name, destinations)]))
}

function routeOfSource(source: string, destinations: readonly Destination[]): Route {
  const takers = destinations.filter(({ sources }) => sources.includes(source))
  if (takers.length === 0) return UNKNOWN
  const to = takers.filter(({ enabled }) => enabled)
  return to.length > 0 ? { to } : DISABLED
}

/** Decides which destinations get a call of a source. */
export function route(source: string, call: Call, routes: Routes): Route {
  const found = routes.get(source) ?? UNKNOWN
  return found.to.length > 0 && isTurnedOff(call.integrations) ? TURNED_OFF : found
}

/** `All: false` turns off what is not turned on by name; an object by name turns on too, and carries settings. */
function isTurnedOff(integrations: Record<string, unknown> | undefined): boolean {
  if (integrations === undefined) return false
  const own = integrations[INTEGRATION]
  if (own === false) return true
  return integrations['All'] === false && own !== true && (typeof own !== 'object' || own === null)
}
