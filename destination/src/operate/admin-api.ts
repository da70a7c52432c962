import type { FastifyInstance } from 'fastify'
import { readOwnBodies } from '../http/read-body.js'
import type { AccessRole } from '../model/answers.js'
import type { Feed, Viewpoint } from '../observe/feed.js'
import type { Access } from './access.js'
import { addDestinationRoutes, type DestinationRoutesParts } from './destination-routes.js'
import { guard, roleIn } from './guard.js'
import { addFilterPreviewRoute, type FilterPreviewParts } from './filter-preview.js'
import { addLinkRoute, type LinkParts } from './portal/link-route.js'
import { addReadRoutes, type ReadRoutesParts } from './read-routes.js'
import { addReplayRoute, type ReplayParts } from './replay.js'
import { addSettingsRoutes, type SettingsRoutesParts } from './settings-routes.js'
import { addStreamRoute } from './stream-route.js'
import type { Settings } from '../settings/settings.js'

/** What the admin API needs. */
export interface AdminApiParts
  extends
    Access,
    Omit<ReadRoutesParts, 'store' | 'pauses' | 'settings'>,
    Omit<ReplayParts, 'store'>,
    Omit<FilterPreviewParts, 'store'> {
  pauses: DestinationRoutesParts['pauses']
  test: DestinationRoutesParts['test']
  store: ReadRoutesParts['store'] & ReplayParts['store'] & SettingsRoutesParts['store']
  feed: Feed
  changes: SettingsRoutesParts['changes']
  managed: SettingsRoutesParts['managed']
  adminUrl: LinkParts['adminUrl']
  log: LinkParts['log']
  /** The current settings. */
  settings: () => Settings
}

/** Adds `/v1/admin`, which the page and the command line use. */
export function addAdminApi(app: FastifyInstance, parts: AdminApiParts): void {
  const { feed, settings } = parts
  void app.register(
    (routes, _options, done) => {
      routes.addHook('onRequest', (_request, reply, next) => {
        reply.header('cache-control', 'no-store')
        next()
      })
      guard(routes, parts)
      readOwnBodies(routes)
      addReadRoutes(routes, parts)
      addReplayRoute(routes, parts)
      addFilterPreviewRoute(routes, parts)
      addDestinationRoutes(routes, parts)
      addStreamRoute(routes, feed, (request) => viewpointOf(settings, roleIn(request)))
      addSettingsRoutes(routes, parts)
      addLinkRoute(routes, parts)
      done()
    },
    { prefix: '/v1/admin' },
  )
}

const asItIs = (error: string) => error

/** What a listener of the stream sees: everything, until the settings have another token for its role. */
function viewpointOf(settings: () => Settings, role: AccessRole): Viewpoint {
  const tokenNow = () => settings()[role === 'operator' ? 'operatorToken' : 'adminToken']
  const token = tokenNow()
  return {
    group: undefined,
    seesSource: () => true,
    seesDestination: () => true,
    wordsOf: asItIs,
    isOver: () => tokenNow() !== token,
  }
}
