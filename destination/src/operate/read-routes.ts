import type { FastifyInstance, FastifyReply } from 'fastify'
import { JSON_TYPE, Refusal } from '../http/refusal.js'
import { errorHandler, type ServerLog } from '../http/server.js'
import type { Target } from '../deliver/destination-queue.js'
import { BUCKET_MS, MAX_BUCKETS, type History } from '../observe/history.js'
import type { Role } from '../settings/role.js'
import { withoutQuery } from '../model/shown-url.js'
import type { Settings } from '../settings/settings.js'
import { isPostgres } from '../store/kind.js'
import type { Summary } from '../model/delivery.js'
import type { Store } from '../store/store.js'
import { version } from '../version.js'
import { checkReader, checkToken, hasToken } from './access.js'
import type { Feed } from '../observe/feed.js'
import { readId, readList, readMinutes, readReplay, type ListParameters } from './parameters.js'
import { replay, type ReplayParts } from './replay.js'
import { shown } from './shown-trace.js'

/** What the admin API works with. */
export interface ApiParts {
  store: Pick<Store, 'find' | 'get' | 'replay' | 'trace' | 'stats'>
  heard: ReplayParts['heard']
  history: History
  feed: Feed
  /** Those of the moment. */
  settings: () => Settings
  /** By the settings of the moment; none if nothing is delivered here. */
  targets: () => readonly Target[]
  role: Role
  /** Whether the address that it listens on is this machine's own. */
  isKeptLocal: boolean
  log: ServerLog
}

/** In ms: a search that has not come to its end by then tells what it has found. */
const SEARCH_MS = 1_000

/**
 * Adds what a page, or a command, shows and does: who is on this machine may read, and to change anything takes the admin
 * token.
 */
export function addAdminApi(app: FastifyInstance, parts: ApiParts): void {
  const { store, feed, history, settings, targets, isKeptLocal, log } = parts
  const startedAt = Date.now()
  const adminToken = () => settings().adminToken

  void app.register(
    (routes, _options, done) => {
      routes.addHook('onRequest', (request, reply, next) => {
        reply.header('cache-control', 'no-store')
        if (request.method === 'GET') checkReader(request.raw, adminToken(), isKeptLocal)
        else checkToken(request.raw, adminToken())
        next()
      })
      routes.setErrorHandler(errorHandler(log, refuse))

      routes.get('/status', async (request) => ({
        version,
        startedAt,
        now: Date.now(),
        canWrite: hasToken(request.raw, adminToken()),
        hasToken: adminToken() !== undefined,
        ...(await statusOf(parts)),
      }))
      routes.get('/health', (request, reply) => {
        const minutes = readMinutes(request.query as object as Record<string, unknown>, MAX_BUCKETS)
        const endpoints = targets().flatMap(({ destination: { name }, lines }) =>
          lines.map(({ endpoint: { url } }) => ({
            destination: name,
            url: withoutQuery(url),
            buckets: history.buckets(name, url, minutes),
          })),
        )
        return reply.send({ bucketMs: BUCKET_MS, endpoints })
      })
      routes.get('/deliveries', (request) =>
        list(store, readList(request.query as Record<string, unknown>)),
      )
      routes.get('/deliveries/:id', async (request) => {
        const id = readId(request.params as Record<string, unknown>)
        const trace = await store.get(id)
        if (trace) return shown(trace)
        const message = `There is no delivery ${id}: it never was, or is older than the retention.`
        throw new Refusal(404, 'unknown_delivery', message)
      })
      routes.get('/messages/:messageId', async (request) => {
        const { messageId } = request.params as { messageId: string }
        const traces = await store.trace(messageId)
        if (traces.length > 0) return { deliveries: traces.map(shown) }
        throw new Refusal(
          404,
          'unknown_message',
          `There is no message ${JSON.stringify(messageId)}: it never came, or is older than the retention.`,
        )
      })
      routes.post('/replay', (request, reply) =>
        replay(parts, readReplay(request.body), () => reply.raw.destroyed),
      )
      routes.get('/stream', { exposeHeadRoute: false }, (_request, reply) => {
        if (!feed.hasRoom) {
          const message = 'Too many listen already: close another page, or come again later.'
          throw new Refusal(503, 'too_many_listeners', message, { 'Retry-After': '5' })
        }
        reply.hijack()
        reply.raw.writeHead(200, {
          'content-type': 'text/event-stream; charset=utf-8',
          'cache-control': 'no-store',
          'x-accel-buffering': 'no', // or nginx keeps it back until there is more
        })
        feed.add(reply.raw)
      })
      routes.addHook('preClose', (closed) => {
        feed.close()
        closed()
      })
      done()
    },
    { prefix: '/v1/admin' },
  )
}

function refuse(reply: FastifyReply, { status, code, message, headers }: Refusal): FastifyReply {
  reply.code(status).headers({ ...headers, 'content-type': JSON_TYPE })
  return reply.send(JSON.stringify({ error: { code, message } }))
}

async function statusOf({ store, history, settings, targets, role }: ApiParts) {
  const { store: url, retentionMs, sources, destinations } = settings()
  const stats = await store.stats()
  return {
    store: isPostgres(url) ? 'postgres' : 'sqlite',
    role,
    retentionMs,
    sources: sources.map(({ name }) => ({ name, ...history.source(name) })),
    destinations: destinations.map(({ name, enabled, sources, webhooks }) => {
      const counts = stats.find(({ destination }) => destination === name)
      const { fresh = 0, backlog = 0, leased = 0, dead = 0, oldestMs = 0 } = counts ?? {}
      const lines = targets().find(({ destination }) => destination.name === name)?.lines ?? []
      const endpoints = webhooks.map(({ url }) => ({
        url: withoutQuery(url),
        gate: gateOf(lines.find(({ endpoint }) => endpoint.url === url)),
        ...history.endpoint(name, url),
      }))
      return { name, enabled, sources, fresh, backlog, leased, dead, oldestMs, endpoints }
    }),
  }
}

/** `null` where nothing is sent from here. */
function gateOf(line: Target['lines'][number] | undefined) {
  if (!line) return null
  const { gate, waiting } = line
  const { state, inFlight } = gate
  return { state, allowed: gate.room(line.now()) + inFlight, inFlight, waiting }
}

async function list(store: Pick<Store, 'find'>, { filter, before, limit }: ListParameters) {
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
