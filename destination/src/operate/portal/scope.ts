import type { Destination, Settings, Source, Tenant } from '../../settings/settings.js'
import type { Filter } from '../../model/delivery.js'
import { portalCause } from '../../model/portal-words.js'
import type { ClockPort, MaintainPort, ReadPort } from '../../store/store.js'

/** What belongs to one tenant. */
export interface Scope {
  tenant: Tenant
  /** The settings with only the sources and destinations of the tenant. */
  settings: Settings
  sources: ReadonlySet<string>
  destinations: ReadonlySet<string>
}

/** Scopes are kept as long as the settings that they are made of. There may be thousands of destinations to look through. */
const kept = new WeakMap<Settings, Map<string, Scope | undefined>>()

/** @returns `undefined` if the settings do not have the tenant. */
export function scopeOf(settings: Settings, tenant: string): Scope | undefined {
  let scopes = kept.get(settings)
  if (!scopes) kept.set(settings, (scopes = new Map<string, Scope | undefined>()))
  if (!scopes.has(tenant)) scopes.set(tenant, makeScope(settings, tenant))
  return scopes.get(tenant)
}

function makeScope(settings: Settings, name: string): Scope | undefined {
  const tenant = settings.tenants?.find((one) => one.name === name)
  if (!tenant) return undefined
  const isOwn = (one: Source | Destination) => one.tenant === name
  const own = {
    sources: settings.sources.filter(isOwn),
    destinations: settings.destinations.filter(isOwn),
  }
  return {
    tenant,
    settings: { ...settings, ...own, tenants: [tenant] },
    sources: new Set(own.sources.map((source) => source.name)),
    destinations: new Set(own.destinations.map((destination) => destination.name)),
  }
}

/** The part of a store that a tenant uses. */
export type ScopedStore = Pick<
  ReadPort,
  'stats' | 'trace' | 'get' | 'find' | 'match' | 'deadGroups'
> &
  Pick<MaintainPort, 'replay'> &
  ClockPort

/**
 * A store in which there is nothing but the deliveries to the destinations of a tenant. Searches have the limit in their
 * query, so that neither a result nor the place of the next page comes from what others have.
 *
 * @param scope - What belongs to the tenant at that moment.
 */
export function storeOf(store: ScopedStore, scope: () => Scope): ScopedStore {
  const ownOf = (filter: Filter): Filter => {
    return { ...filter, destinations: [...scope().destinations], isInPortalWords: true }
  }
  const isOwn = ({ destination }: { destination: string }) => scope().destinations.has(destination)
  const own = async (ids: readonly number[]) => {
    const traces = await Promise.all(ids.map((id) => store.get(id)))
    return ids.filter((_, i) => {
      const trace = traces[i]
      return trace !== undefined && isOwn(trace)
    })
  }
  return {
    stats: async () => (await store.stats()).filter(isOwn),
    trace: async (messageId) => (await store.trace(messageId)).filter(isOwn),
    get: async (id) => {
      const trace = await store.get(id)
      return trace && isOwn(trace) ? trace : undefined
    },
    find: async (filter, before, limit) => {
      const found = await store.find(ownOf(filter), before, limit)
      const deliveries = found.deliveries.map((one) => ({
        ...one,
        cause: portalCause(one.cause, one.lastStatus),
      }))
      return { ...found, deliveries }
    },
    match: (filter, before, limit) => store.match(ownOf(filter), before, limit),
    deadGroups: async (destination, before, limit) => {
      if (!isOwn({ destination })) return { groups: [], next: undefined }
      const found = await store.deadGroups(destination, before, limit)
      // Groups that have the same cause in these words are joined.
      return {
        ...found,
        groups: found.groups.map((group) => ({
          ...group,
          cause: portalCause(group.cause, group.status),
        })),
      }
    },
    replay: async (ids, ...how) => store.replay(await own(ids), ...how),
    clock: store.clock,
  }
}
