import type { DestinationQueue } from '../deliver/destination-queue.js'
import type { EndpointQueue } from '../deliver/endpoint-queue.js'
import type { Pauses } from '../deliver/pauses.js'
import {
  NO_MESSAGES,
  type BreakerStatus,
  type DestinationStatus,
  type MessageCounts,
  type ServerStatus,
  type Status,
  type FormerDestination,
} from '../model/answers.js'
import { withoutQuery } from '../model/shown-url.js'
import { indexInSlices, mapInSlices, eachInSlices } from '../model/slices.js'
import type { Clock } from '../model/clock.js'
import type { FilterCounts } from '../observe/filter-counts.js'
import type { Totals } from '../observe/totals.js'
import type { Role } from '../settings/role.js'
import type { Destination, Settings } from '../settings/settings.js'
import { isPostgres } from '../store/kind.js'
import type { Servers, ServerState } from '../store/servers.js'
import type { ReadPort, Store } from '../store/store.js'
import type { Stats } from '../model/delivery.js'

/** What the status needs. */
export interface StatusParts {
  store: Pick<ReadPort, 'stats'> & Pick<Store, 'servers'>
  totals: Totals
  filterCounts: FilterCounts
  /** The current settings. */
  settings: () => Settings
  /** The queues for the current settings; empty if this process does not deliver. */
  queues: () => readonly DestinationQueue[]
  pauses: Pick<Pauses, 'of'>
  role: Role
  /** The store's clock: what is shown is compared with the times that the store has. */
  clock: Pick<Clock, 'wall'>
  /** The monotonic clock of the queues, in ms. */
  now: () => number
}

/** The status without the fields that depend on the request or on the process. */
export async function statusOf(
  parts: StatusParts,
): Promise<Omit<Status, 'version' | 'startedAt' | 'now' | 'access' | 'storeProblem'>> {
  const { totals, role } = parts
  const { servers } = parts.store
  const settings = parts.settings()
  const { sources, destinations } = settings
  const stats = await parts.store.stats()
  const counts = await indexInSlices(stats, ({ destination }) => destination)
  const queues = await queuesByName(parts)
  return {
    ...statusHead(settings, role, servers),
    sources: await mapInSlices(sources, ({ name }) => ({ name, ...totals.source(name) })),
    destinations: await mapInSlices(destinations, (destination) => {
      const { name } = destination
      return statusOfDestination(destination, counts.get(name), queues.get(name), parts)
    }),
    formerDestinations: await formerDestinations(stats, { destinations }),
  }
}

export function queuesByName({
  queues,
}: Pick<StatusParts, 'queues'>): Promise<Map<string, DestinationQueue>> {
  return indexInSlices(queues(), ({ destination }) => destination.name)
}

function shownServer({ name, error }: ServerState): ServerStatus {
  return { name, error: error?.message ?? null }
}

/** What the status says of the whole process. */
export function statusHead(
  { store, retentionMs }: Settings,
  role: Role,
  servers: Servers | undefined,
): Pick<Status, 'store' | 'servers' | 'role' | 'retentionMs'> {
  return {
    store: isPostgres(store) ? 'postgres' : 'sqlite',
    ...(servers && { servers: servers.list().map(shownServer) }),
    role,
    retentionMs,
  }
}

export function statusOfDestination(
  destination: Destination,
  { fresh, backlog, bulk, leased, dead, oldestMs }: MessageCounts = NO_MESSAGES,
  queue: DestinationQueue | undefined,
  {
    totals,
    filterCounts,
    pauses,
    now,
  }: Pick<StatusParts, 'totals' | 'filterCounts' | 'pauses' | 'now'>,
): DestinationStatus {
  const { name, enabled, sources, webhooks } = destination
  const filters = filterCounts.of(destination)
  // There may be tens of thousands of them, and copying an object takes several times as long as listing its fields.
  const endpoints = webhooks.map(({ url }) => {
    const counted = totals.endpoint(name, url)
    return {
      url: withoutQuery(url),
      breaker: breakerOf(
        queue?.endpoints.find(({ endpoint }) => endpoint.url === url),
        now(),
      ),
      delivered: counted.delivered,
      failed: counted.failed,
      p50Ms: counted.p50Ms,
      p99Ms: counted.p99Ms,
      lastFailure: counted.lastFailure,
      failuresInARow: counted.failuresInARow,
      deliveredInARow: counted.deliveredInARow,
    }
  })
  return {
    fresh,
    backlog,
    bulk,
    leased,
    dead,
    oldestMs,
    name,
    enabled,
    paused: pauses.of(name) ?? null,
    sources,
    filters,
    endpoints,
  }
}

function breakerOf(queue: EndpointQueue | undefined, now: number): BreakerStatus | null {
  if (!queue) return null
  const { breaker, pace, waiting } = queue
  const { state, inFlight } = breaker
  return {
    state,
    allowed: breaker.room(now) + inFlight,
    inFlight,
    waiting,
    requestsPerSecond: Number.isFinite(pace.rate) ? pace.rate : null,
    pausedMs: Math.ceil(Math.max(breaker.probeInMs(now), pace.pauseMs(now))),
  }
}

/**
 * The destinations of which the store has messages that wait or are dead letters, and that the settings do not have. They
 * were removed from the settings, or renamed.
 */
export async function formerDestinations(
  stats: readonly Stats[],
  { destinations }: Pick<Settings, 'destinations'>,
): Promise<FormerDestination[]> {
  const present = await indexInSlices(destinations, ({ name }) => name)
  const former: FormerDestination[] = []
  await eachInSlices(stats, ({ destination: name, ...counts }) => {
    if (!present.has(name)) former.push({ name, ...counts })
  })
  return former
}
