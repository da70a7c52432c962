import type { FastifyInstance } from 'fastify'
import { readOwnBodies } from '../http/read-body.js'
import type { Feed } from '../observe/feed.js'
import { checkReader, checkToken } from './access.js'
import { addDestinationRoutes, type DestinationRoutesParts } from './destination-routes.js'
import type { Manager } from '../manage/manager.js'
import { addFilterPreviewRoute, type FilterPreviewParts } from './filter-preview.js'
import { addReadRoutes, type ReadRoutesParts } from './read-routes.js'
import { addReplayRoute, type ReplayParts } from './replay.js'
import { addSettingsRoutes } from './settings-routes.js'
import { addStreamRoute } from './stream-route.js'

/** What the admin API needs. */
export interface AdminApiParts
  extends
    Omit<ReadRoutesParts, 'store' | 'pauses'>,
    Omit<ReplayParts, 'store'>,
    Omit<FilterPreviewParts, 'store'> {
  pauses: DestinationRoutesParts['pauses']
  store: ReadRoutesParts['store'] & ReplayParts['store']
  feed: Feed
  manager: Manager
  /** Whether it has a listener of its own, on a loopback address. */
  isKeptLocal: boolean
}

/**
 * Adds `/v1/admin`, which the page and the command line use. {@link checkReader} says who may read. Every change needs the
 * admin token.
 */
export function addAdminApi(app: FastifyInstance, parts: AdminApiParts): void {
  const { feed, manager, settings, isKeptLocal } = parts
  const adminToken = () => settings().adminToken
  void app.register(
    (routes, _options, done) => {
      routes.addHook('onRequest', (request, reply, next) => {
        reply.header('cache-control', 'no-store')
        if (request.method === 'GET') checkReader(request.raw, { adminToken, isKeptLocal })
        else checkToken(request.raw, adminToken())
        next()
      })
      readOwnBodies(routes)
      addReadRoutes(routes, parts)
      addReplayRoute(routes, parts)
      addFilterPreviewRoute(routes, parts)
      addDestinationRoutes(routes, parts)
      addStreamRoute(routes, feed)
      addSettingsRoutes(routes, manager)
      done()
    },
    { prefix: '/v1/admin' },
  )
}
