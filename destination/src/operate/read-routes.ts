import type { FastifyInstance } from 'fastify'
import { Refusal } from '../http/refusal.js'
import type {
  DeliveryList,
  EndpointHistories,
  ShownMessage,
  ShownTrace,
  Status,
} from '../model/answers.js'
import type { Summary } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { BUCKET_MS, MAX_BUCKETS } from '../observe/history.js'
import type { ReadPort } from '../store/store.js'
import { version } from '../version.js'
import { readId, readList, readMessageId, readMinutes, type ListParameters } from './parameters.js'
import { shownTrace } from './shown-trace.js'
import { statusOf, type StatusParts } from './status.js'

/** What the routes that read need. */
export interface ReadRoutesParts extends StatusParts {
  store: ReadPort
}

type Given = Record<string, unknown>

/** The time limit of a search, in ms. Afterwards it answers with the deliveries that it has found so far. */
const SEARCH_MS = 1_000

/** Adds the routes that show the status, the history and the stored deliveries. */
export function addReadRoutes(routes: FastifyInstance, parts: ReadRoutesParts): void {
  const { store } = parts
  const startedAt = performance.now()

  routes.get('/status', async (): Promise<Status> => {
    const now = Date.now()
    return {
      version,
      startedAt: Math.round(now - (performance.now() - startedAt)),
      now,
      canWrite: parts.settings().adminToken !== undefined,
      ...(await statusOf(parts)),
    }
  })
  routes.get('/history', (request, reply) =>
    reply.send(historyOf(parts, readMinutes(request.query as Given, MAX_BUCKETS))),
  )
  routes.get('/deliveries', (request) => list(store, readList(request.query as Given)))
  routes.get('/deliveries/:id', (request) => getDelivery(store, readId(request.params as Given)))
  routes.get('/messages/:messageId', (request) => {
    const { messageId } = request.params as { messageId: string }
    return getMessage(store, messageId)
  })
  // Every client that follows the URL standard resolves the ids "." and ".." in a path, even if they are encoded.
  routes.get('/messages', (request) => getMessage(store, readMessageId(request.query as Given)))
}

function historyOf({ queues, history }: ReadRoutesParts, minutes: number): EndpointHistories {
  const endpoints = queues().flatMap(({ destination: { name }, endpoints }) =>
    endpoints.map(({ endpoint: { url } }) => ({
      destination: name,
      url: withoutQuery(url),
      buckets: history.buckets(name, url, minutes),
    })),
  )
  return { bucketMs: BUCKET_MS, endpoints }
}

async function list(
  store: Pick<ReadPort, 'find'>,
  { filter, before, limit }: ListParameters,
): Promise<DeliveryList> {
  const endsAt = performance.now() + SEARCH_MS
  const deliveries: Summary[] = []
  let next = before
  do {
    const found = await store.find(filter, next, limit - deliveries.length)
    deliveries.push(...found.deliveries)
    next = found.next
  } while (next !== undefined && deliveries.length < limit && performance.now() < endsAt)
  return {
    deliveries,
    next: next === undefined ? null : String(next),
    isComplete: next === undefined || deliveries.length === limit,
  }
}

async function getDelivery(store: Pick<ReadPort, 'get'>, id: number): Promise<ShownTrace> {
  const trace = await store.get(id)
  if (trace) return shownTrace(trace)
  const message = `There is no delivery ${id}. It never existed, or it is older than the retention.`
  throw new Refusal(404, 'unknown_delivery', message)
}

async function getMessage(
  store: Pick<ReadPort, 'trace'>,
  messageId: string,
): Promise<ShownMessage> {
  const traces = await store.trace(messageId)
  if (traces.length > 0) return { deliveries: traces.map(shownTrace) }
  throw new Refusal(
    404,
    'unknown_message',
    `There is no message ${JSON.stringify(messageId)}. It never arrived, or it is older than the retention.`,
  )
}
