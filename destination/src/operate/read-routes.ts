import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../http/refusal.js'
import type {
  DeadCauses,
  DeliveryList,
  DestinationDetails,
  Overview,
  ShownMessage,
  ShownDelivery,
  Status,
} from '../model/answers.js'
import type { DeadGroup, DeadPlace, Summary, Trace, DeliveryId } from '../model/delivery.js'
import { writeKeysOf } from '../model/secrets.js'
import type { Source } from '../settings/settings.js'
import { joined } from '../store/dead-groups.js'
import type { ClockPort, ReadPort, Store } from '../store/store.js'
import type { Readiness } from '../observe/readiness.js'
import { version } from '../version.js'
import { pathOf, queryOf } from './body.js'
import { isSame } from './access.js'
import { roleIn } from './guard.js'
import { Overviews, readOverview } from './overview.js'
import type { Past } from './past.js'
import { shownRequests } from './shown-request.js'
import { shownTrace } from './shown-trace.js'
import { statusOf, type StatusParts } from './status.js'
import type { Fields } from '../model/fields.js'
import { HISTORY_SPANS, type HistorySpan } from '../model/history.js'
import { unknownDestination } from './destination-routes.js'
import { readList, type ListParameters } from './filter-parameters.js'
import { checkNames, count, invalid, oneOf, texts } from './parameters.js'

/** What the routes that read need. */
export interface ReadRoutesParts extends StatusParts {
  store: ReadPort & ClockPort
  readiness: Pick<Readiness, 'storeProblem'>
  past: Past
}

/** What is shown of a delivery depends on the current settings and pauses. */
type ShownParts = Pick<ReadRoutesParts, 'settings' | 'pauses'>

/** The time limit of a search, in ms. Afterwards it answers with the deliveries that it has found so far. */
const SEARCH_MS = 1_000

/** Adds the routes that show the status, the history and the stored deliveries. */
export function addReadRoutes(routes: FastifyInstance, parts: ReadRoutesParts): void {
  const { store } = parts
  const overviews = new Overviews(parts, parts.past)
  const startedAt = performance.now()
  const head = (request: FastifyRequest) => {
    const now = Math.round(parts.clock.wall())
    return {
      version,
      startedAt: Math.round(now - (performance.now() - startedAt)),
      now,
      access: roleIn(request),
    }
  }

  routes.get('/status', async (request): Promise<Status> => {
    const [status, storeProblem] = await Promise.all([
      statusOf(parts),
      parts.readiness.storeProblem(),
    ])
    return { ...head(request), ...(storeProblem !== undefined && { storeProblem }), ...status }
  })
  routes.get('/overview', async (request): Promise<Overview> => ({
    ...head(request),
    ...(await overviews.overview(readOverview(queryOf(request)))),
  }))
  routes.get('/destination', (request) =>
    getDestination(overviews, readDestination(queryOf(request))),
  )
  routes.get('/dead', (request) => getDead(store, readDead(queryOf(request))))
  routes.get('/deliveries', (request) => getDeliveries(store, readList(queryOf(request))))
  routes.get('/deliveries/:id', (request) => getDelivery(parts, readId(pathOf(request))))
  routes.get('/messages/:messageId', (request) => {
    const { messageId } = request.params as { messageId: string }
    return getMessage(parts, messageId, readWriteKey(request.headers))
  })
  // Every client that follows the URL standard resolves the ids "." and ".." in a path, even if they are encoded.
  routes.get('/messages', (request) => {
    const messageId = readMessageId(queryOf(request))
    return getMessage(parts, messageId, readWriteKey(request.headers))
  })
}

export async function getDestination(
  overviews: Pick<Overviews, 'destination'>,
  { name, span }: ReturnType<typeof readDestination>,
): Promise<DestinationDetails> {
  const found = await overviews.destination(name, span)
  if (found) return found
  throw unknownDestination(name)
}

/** The most dead letters that are grouped, and the most groups in one answer. */
const MAX_GROUPED = 10_000
const MAX_GROUPS = 100

/** How many dead letters one call reads, so that the store's other callers do not wait. */
const DEAD_SLICE = 500

/** Groups slice by slice, the destinations with the most dead letters first. */
export async function getDead(
  store: Pick<Store, 'deadGroups' | 'stats' | 'servers'>,
  destination: string | undefined,
): Promise<DeadCauses> {
  const endsAt = performance.now() + SEARCH_MS
  const found: DeadGroup[] = []
  let left = MAX_GROUPED
  // A server that does not answer may have dead letters of destinations of which the others have none.
  const failing = (store.servers?.list() ?? []).filter(({ error }) => error !== undefined)
  const away = new Set(failing.map(({ name }) => name))
  const answer = (isComplete: boolean): DeadCauses => {
    const groups = joined(found)
    return {
      groups: groups.slice(0, MAX_GROUPS),
      isComplete: isComplete && groups.length <= MAX_GROUPS,
      ...(away.size > 0 && { away: [...away] }),
    }
  }
  const isOver = () => left <= 0 || performance.now() >= endsAt
  for (const name of destination === undefined ? await namesOfDead(store) : [destination]) {
    let before: DeadPlace | undefined
    do {
      if (isOver()) return answer(false)
      const { groups, next, ...asked } = await store.deadGroups(
        name,
        before,
        Math.min(left, DEAD_SLICE),
      )
      for (const server of asked.away ?? []) away.add(server)
      found.push(...groups)
      left -= groups.reduce((sum, { count }) => sum + count, 0)
      before = next
    } while (before !== undefined)
  }
  return answer(away.size === 0)
}

async function namesOfDead(store: Pick<ReadPort, 'stats'>): Promise<string[]> {
  const stats = (await store.stats()).filter(({ dead }) => dead > 0)
  return stats.sort((a, b) => b.dead - a.dead).map(({ destination }) => destination)
}

export async function getDeliveries(
  store: Pick<ReadPort, 'find'>,
  { filter, before, limit }: ListParameters,
): Promise<DeliveryList> {
  const endsAt = performance.now() + SEARCH_MS
  const deliveries: Summary[] = []
  const away = new Set<string>()
  let next = before
  do {
    const found = await store.find(filter, next, limit - deliveries.length)
    deliveries.push(...found.deliveries)
    for (const name of found.away ?? []) away.add(name)
    next = found.next
  } while (next !== undefined && deliveries.length < limit && performance.now() < endsAt)
  return {
    deliveries,
    next: next === undefined ? null : String(next),
    isComplete: away.size === 0 && (next === undefined || deliveries.length === limit),
    ...(away.size > 0 && { away: [...away] }),
  }
}

export async function getDelivery(
  { store, ...parts }: ShownParts & { store: Pick<ReadPort, 'get'> },
  id: number,
): Promise<ShownDelivery> {
  const trace = await store.get(id)
  if (trace) return shownDelivery(trace, parts)
  const message = `There is no delivery ${id}. It never existed, it was deleted or discarded, or it is older than the retention.`
  throw new Refusal(404, 'unknown_delivery', message)
}

function shownDelivery(trace: Trace, { settings, pauses }: ShownParts): ShownDelivery {
  const present = settings()
  const isPaused = (destination: string) => pauses.of(destination) !== undefined
  return {
    ...shownTrace(trace, present.destinations, isPaused),
    requests: shownRequests(trace, present),
  }
}

/** @param writeKey - Of the source whose deliveries are shown; `undefined` for those of all sources. */
export async function getMessage(
  { store, ...parts }: ShownParts & { store: Pick<ReadPort, 'trace'> & ClockPort },
  messageId: string,
  writeKey?: string,
): Promise<ShownMessage> {
  const found = await store.trace(messageId)
  const { sources } = parts.settings()
  const traces =
    writeKey === undefined ? found : found.filter(({ source }) => hasKey(sources, source, writeKey))
  if (traces.length > 0) {
    const deliveries = traces.map((trace) => shownDelivery(trace, parts))
    return { deliveries, now: Math.round(store.clock.wall()) }
  }
  const whose = writeKey === undefined ? '' : ' from a source with this write key'
  throw new Refusal(
    404,
    'unknown_message',
    `There is no message ${JSON.stringify(messageId)}${whose}. It never arrived, it was deleted or discarded, or it is older than the retention.`,
  )
}

/** Whether a source has a write key, also one that is being replaced. */
function hasKey(sources: readonly Source[], name: string, key: string): boolean {
  const source = sources.find((one) => one.name === name)
  return source !== undefined && writeKeysOf(source).some((one) => isSame(key, one))
}

/** @throws {@link Refusal} */
export function readDestination(query: Fields): { name: string; span: HistorySpan } {
  checkNames(query, ['name', 'span'])
  const { name } = texts(query, ['name'])
  if (name === undefined) throw invalid('name', 'a single string', name)
  return { name, span: oneOf(query, 'span', HISTORY_SPANS) ?? '1h' }
}

/** @throws {@link Refusal} */
export function readDead(query: Fields): string | undefined {
  checkNames(query, ['destination'])
  return texts(query, ['destination']).destination
}

/** @throws {@link Refusal} */
export function readId(params: Fields): DeliveryId {
  return count(params, 'id', 1, Number.MAX_SAFE_INTEGER) as DeliveryId
}

/** @throws {@link Refusal} */
export function readMessageId(query: Fields): string {
  checkNames(query, ['messageId'])
  const { messageId } = texts(query, ['messageId'])
  if (messageId === undefined) throw invalid('messageId', 'a single string', messageId)
  return messageId
}

/** Reads `X-Write-Key`: the key of the source that a message came from. @throws {@link Refusal} */
function readWriteKey(headers: Fields): string | undefined {
  const { 'x-write-key': encoded } = texts(headers, ['x-write-key'])
  if (encoded === undefined) return undefined
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw invalid('X-Write-Key', 'a percent-encoded write key', encoded)
  }
}
