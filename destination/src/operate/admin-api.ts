import type { FastifyInstance, FastifyReply } from 'fastify'
import { JSON_TYPE, type Refusal } from '../http/refusal.js'
import { readOwnBodies } from '../http/read-body.js'
import { errorHandler, type ServerLog } from '../http/server.js'
import type { Feed } from '../observe/feed.js'
import { checkReader, checkToken } from './access.js'
import { addReadRoutes, type ReadRoutesParts } from './read-routes.js'
import { addReplayRoute, type ReplayParts } from './replay.js'
import { addStreamRoute } from './stream-route.js'

/** What the admin API needs. */
export interface AdminApiParts extends Omit<ReadRoutesParts, 'store'>, Omit<ReplayParts, 'store'> {
  store: ReadRoutesParts['store'] & ReplayParts['store']
  feed: Feed
  /** Whether it has a listener of its own, on a loopback address. */
  isKeptLocal: boolean
  log: ServerLog
}

/**
 * Adds `/v1/admin`, which the page and the command line use. {@link checkReader} says who may read. Every change needs the
 * admin token.
 */
export function addAdminApi(app: FastifyInstance, parts: AdminApiParts): void {
  const { feed, settings, isKeptLocal, log } = parts
  const adminToken = () => settings().adminToken
  void app.register(
    (routes, _options, done) => {
      routes.addHook('onRequest', (request, reply, next) => {
        reply.header('cache-control', 'no-store')
        if (request.method === 'GET') checkReader(request.raw, { adminToken, isKeptLocal })
        else checkToken(request.raw, adminToken())
        next()
      })
      routes.setErrorHandler(errorHandler(log, refuse))
      readOwnBodies(routes)
      addReadRoutes(routes, parts)
      addReplayRoute(routes, parts)
      addStreamRoute(routes, feed)
      done()
    },
    { prefix: '/v1/admin' },
  )
}

function refuse(reply: FastifyReply, { status, code, message, headers }: Refusal): FastifyReply {
  reply.code(status).headers({ ...headers, 'content-type': JSON_TYPE })
  return reply.send(JSON.stringify({ error: { code, message } }))
}
