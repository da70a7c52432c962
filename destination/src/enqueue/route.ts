import type { Call } from '../model/call.js'
import { eachInSlices } from '../model/slices.js'
import type { Destination, Settings } from '../settings/settings.js'
import { compileFilters, type Filter, type Stop } from './filter.js'

/** Where a call goes. At least one of the fields says something. */
export interface Route {
  /** The destinations that get the call. */
  readonly to: readonly Destination[]
  /** The destinations whose filters stop the call. Left out if none of the destinations has filters. */
  readonly stopped?: readonly Stopped[]
  /** Why no destination of the source is asked. */
  readonly reason?: string
}

/** A destination that does not get a call, because of its filters. */
export interface Stopped extends Stop {
  readonly destination: Destination
}

/** The destinations of one source. */
interface SourceRoute {
  readonly route: Route
  /** The filter of each destination in `route.to` that has one; `undefined` if none has. */
  readonly filters: ReadonlyMap<Destination, Filter> | undefined
}

/** The destinations of each source by the settings alone. The key is the name of the source. */
export type Routes = ReadonlyMap<string, SourceRoute>

/** The name of this destination in the integrations object of a call, case-sensitive (spec, "What the service does"). */
const INTEGRATION = 'Webhooks'

const UNKNOWN: Route = { to: [], reason: 'no destination takes this source' }
const DISABLED: Route = { to: [], reason: 'the destination is disabled' }
const TURNED_OFF: Route = { to: [], reason: "turned off by the call's integrations" }

/**
 * Finds the destinations of each source. It runs once for each version of the settings, not for each call, and in slices,
 * because there may be thousands of destinations.
 */
export async function routesOf({
  sources,
  destinations,
}: Pick<Settings, 'sources' | 'destinations'>): Promise<Routes> {
  const takers = new Map<string, Destination[]>()
  const tenants = new Map<string, string | undefined>()
  await eachInSlices(sources, ({ name, tenant }) => {
    takers.set(name, [])
    tenants.set(name, tenant)
  })
  const filters = new Map<Destination, Filter>()
  await eachInSlices(destinations, (destination) => {
    const { tenant } = destination
    for (const source of destination.sources) {
      // The settings hold this already, unless the processes of a store have files with different tenants. Even then, no tenant
      // may get the calls of another one.
      if (tenant === undefined || tenant === tenants.get(source)) {
        takers.get(source)?.push(destination)
      }
    }
    const filter = filterOf(destination)
    if (filter) filters.set(destination, filter)
  })
  const routes = new Map<string, SourceRoute>()
  await eachInSlices(takers, ([source, found]) => {
    const route = routeTo(found)
    const isFiltered = route.to.some((destination) => filters.has(destination))
    routes.set(source, { route, filters: isFiltered ? filters : undefined })
  })
  return routes
}

const compiled = new WeakMap<Destination, Filter>()

/** The compiled filters of a destination; `undefined` if it has none. They are compiled once. */
function filterOf(destination: Destination): Filter | undefined {
  if (!hasFilters(destination)) return undefined
  let filter = compiled.get(destination)
  if (!filter) compiled.set(destination, (filter = compileFilters(destination.filters)))
  return filter
}

/** Whether calls for a destination are filtered. */
export function hasFilters(
  destination: Destination,
): destination is Destination & { filters: object } {
  return destination.filters !== undefined && destination.filters.length > 0
}

function routeTo(takers: readonly Destination[]): Route {
  if (takers.length === 0) return UNKNOWN
  const to = takers.filter(({ enabled }) => enabled)
  return to.length > 0 ? { to } : DISABLED
}

/** Decides which destinations get a call of a source. */
export function route(source: string, call: Call, routes: Routes): Route {
  const found = routes.get(source)
  if (!found) return UNKNOWN
  if (found.route.to.length > 0 && isTurnedOff(call.integrations)) return TURNED_OFF
  return found.filters ? filtered(source, call, found.route, found.filters) : found.route
}

function filtered(
  source: string,
  call: Call,
  route: Route,
  filters: ReadonlyMap<Destination, Filter>,
): Route {
  const to: Destination[] = []
  const stopped: Stopped[] = []
  for (const destination of route.to) {
    const stop = filters.get(destination)?.(source, call)
    if (stop) stopped.push({ ...stop, destination })
    else to.push(destination)
  }
  return { to, stopped }
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
