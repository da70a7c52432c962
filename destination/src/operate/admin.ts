import type { FastifyInstance } from 'fastify'
import { createSyncAudience } from '../enqueue/audience.js'
import { createDeleteUser } from '../enqueue/deletion.js'
import type { Enqueue } from '../enqueue/enqueue.js'
import type { Store } from '../store/store.js'
import { addActRoutes } from './act-routes.js'
import { addAdminApi, type AdminApiParts } from './admin-api.js'
import { createTester } from './destination-routes.js'
import { addMetricsRoute, type MetricsRouteParts } from './metrics-route.js'
import { addPageRoutes } from './page.js'
import { Past } from './past.js'
import { addPortalApi } from './portal/routes.js'

/** What the operator's routes need. */
export interface AdminParts extends Omit<AdminApiParts, 'past' | 'test'> {
  store: Store
  enqueue: Enqueue
  metrics: MetricsRouteParts['metrics']
  tally: Past['tally']
}

/** Adds all routes for the operator: the page, the metrics, the admin API, the portal, and the routes for audiences and deletions. */
export function addAdmin(app: FastifyInstance, parts: AdminParts): void {
  const { store, dispatcher, enqueue, settings, metrics, isKeptLocal, clock } = parts
  const destinations = () => settings().destinations
  const past = new Past(store, parts.tally)
  addPageRoutes(app, () => settings().portal?.frameAncestors ?? [])
  addMetricsRoute(app, { metrics, settings, isKeptLocal, clock })
  addActRoutes(app, {
    settings,
    isKeptLocal,
    clock,
    syncAudience: createSyncAudience({ store, dispatcher, destinations, now: Date.now }),
    deleteUser: createDeleteUser({ enqueue, store, settings, now: Date.now }),
  })
  const test = createTester(clock)
  addAdminApi(app, { ...parts, past, test })
  addPortalApi(app, { ...parts, past, test })
}
