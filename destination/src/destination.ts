import { isDeepStrictEqual } from 'node:util'
import { createSyncAudience } from './enqueue/audience.js'
import { createDeleteUser } from './enqueue/deletion.js'
import { createPoster } from './post/poster.js'
import { createNetwork } from './post/network.js'
import { createAccept, type Accept } from './enqueue/calls.js'
import { isLoopback } from './operate/access.js'
import { addAdminApi } from './operate/read-routes.js'
import { addAdminRoutes } from './operate/act-routes.js'
import { addPageRoutes } from './operate/page.js'
import { Feed } from './observe/feed.js'
import { createCollector } from './collect/collector.js'
import { addHealthRoutes, Readiness } from './observe/readiness.js'
import { createServer, type Server } from './http/server.js'
import { Accord } from './deliver/shared-breakers.js'
import { aim } from './deliver/destination-queues.js'
import { Dispatcher } from './deliver/dispatcher.js'
import type { Target } from './deliver/destination-queue.js'
import { createForward } from './enqueue/enqueue.js'
import type { Log } from './observe/log.js'
import { History } from './observe/history.js'
import { Metrics } from './observe/metrics.js'
import { messageOf, reportTo } from './observe/log-lines.js'
import { startRetention } from './operate/retention.js'
import { checkRole, type Role } from './settings/role.js'
import { route, routesOf } from './enqueue/route.js'
import type { Endpoint, Settings } from './settings/settings.js'
import { Settler } from './deliver/settler.js'
import { openStore } from './store/open.js'
import { parseTraceParent } from './collect/trace-parent.js'
import type { Stats } from './model/delivery.js'
import type { Store } from './store/store.js'

/** A destination that collects and delivers. */
export interface RunningDestination {
  /** Where its collector listens. */
  readonly url: string
  /** Where the routes for whoever runs it are: where the collector is, or where `adminListen` says. */
  readonly adminUrl: string
  /**
   * Goes on with other settings, without dropping a request. Where it listens and what it stores in can't change.
   *
   * @throws Error if one of these would.
   */
  reload(settings: Settings): Promise<void>
  /** What waits, by destination. */
  stats(): Promise<Stats[]>
  /**
   * Stops accepting, ends what is under way, writes what came of it, and lets go of everything.
   */
  close(): Promise<void>
}

/**
 * Starts a destination: the one place that puts its stages together.
 *
 * @param role - A collector delivers nothing; a worker takes no calls, and listens for who asks after its health.
 * @throws StoreError if the store can't be opened, or is none for several processes; the system's error if the address
 * can't be listened on.
 */
export async function startDestination(
  settings: Settings,
  log: Log,
  role: Role = 'all',
): Promise<RunningDestination> {
  checkRole(role, settings.store)
  const store = await openStore(settings.store)
  try {
    return await start(settings, store, log, role)
  } catch (error) {
    await store.close()
    throw error
  }
}

async function start(
  settings: Settings,
  store: Store,
  log: Log,
  role: Role,
): Promise<RunningDestination> {
  const isDelivering = role !== 'collector'
  const now = () => performance.now()
  const metrics = new Metrics({ stats: () => store.stats(), targets: () => targets })
  const history = new History()
  const feed = new Feed()
  const report = reportTo(log, {
    attempted: (delivery, outcomes, next) => {
      metrics.attempted(delivery, outcomes, next)
      history.attempted(delivery, outcomes)
      feed.attempted(delivery, outcomes, next)
    },
  })
  const settler = new Settler(store, report, now)
  const accord =
    isDelivering && store.crew
      ? await Accord.join({ crew: store.crew, failed: report.crewFailed, now })
      : undefined
  const dispatcher = new Dispatcher({ store, settler, report, now, random: Math.random })

  let current = settings
  let routes = routesOf(settings)
  let targets: Target[] = []
  const use = async (next: Settings) => {
    const network = createNetwork(next)
    const before = targets
    const isSameNetwork = isDeepStrictEqual(
      [next.allowNetworks, next.ca],
      [current.allowNetworks, current.ca],
    )
    current = next
    routes = routesOf(next)
    const connect = (endpoint: Endpoint) => createPoster(endpoint, network)
    // A dispatcher without targets claims nothing, and leaves what is put to others.
    targets = aim(isDelivering ? next.destinations : [], before, isSameNetwork, { connect, now })
    accord?.use(targets)
    dispatcher.aim(targets)
    await closeUnused(before, targets)
  }

  const readiness = new Readiness({
    dispatcher,
    settler,
    // The cheapest question that every store answers from what it has stored.
    look: () => store.trace(''),
    now,
  })
  const refused = () => {
    readiness.refused()
  }
  const forward = createForward({ store, dispatcher, counts: metrics, refused, now })
  const accept =
    role === 'worker'
      ? undefined
      : createAccept(
          forward,
          (source, call) => route(source, call, routes),
          (header) => (current.traceContext ? parseTraceParent(header) : undefined),
        )
  const collector = createCollector({
    sources: settings.sources,
    accept: accept && telling(accept, feed),
    log,
    counts: {
      answered: (source, answer) => {
        metrics.answered(source, answer)
      },
      called: (source, answer, count) => {
        metrics.called(source, answer, count)
        history.called(source, answer, count)
      },
    },
  })
  const admin = settings.adminListen ? createServer(log, ADMIN_HINT) : collector
  const servers = new Set([admin, collector])
  for (const { app } of servers) addHealthRoutes(app, readiness)
  addPageRoutes(admin.app)
  addAdminRoutes(admin.app, {
    adminToken: () => current.adminToken,
    metrics,
    syncAudience: createSyncAudience({
      store,
      dispatcher,
      destinations: () => current.destinations,
      now: Date.now,
    }),
    deleteUser: createDeleteUser({ forward, store, settings: () => current, now: Date.now }),
  })
  addAdminApi(admin.app, {
    store,
    heard: (destination, lane) => {
      dispatcher.heard(destination, lane)
    },
    history,
    feed,
    settings: () => current,
    targets: () => targets,
    role,
    isKeptLocal: settings.adminListen !== undefined && isLoopback(settings.adminListen.host),
    log,
  })
  const looking = setInterval(() => {
    history.look(targets)
  }, LOOK_AT_GATES_MS).unref()
  const close = async () => {
    clearInterval(looking)
    await Promise.all(Array.from(servers, (server) => server.close()))
  }
  // First, so that nothing is sent by one that can't listen.
  const { url, adminUrl } = await listen(settings, collector, admin).catch(
    async (error: unknown) => {
      await Promise.all([close(), dispatcher.close(), accord?.close()])
      throw error
    },
  )
  await use(settings)
  if (isDelivering) {
    store.onPut?.((destination, lane) => {
      dispatcher.heard(destination, lane)
    })
  }
  const sweepFailed = (error: unknown) => {
    log.error({ error: messageOf(error) }, 'what is too old could not be deleted; trying again')
  }
  const retention = isDelivering
    ? startRetention(store, () => current.retentionMs, sweepFailed)
    : undefined

  return {
    url,
    adminUrl,
    reload: async (next) => {
      if (!isDeepStrictEqual(next.listen, current.listen)) throw unchangeable('listen')
      if (!isDeepStrictEqual(next.adminListen, current.adminListen)) {
        throw unchangeable('adminListen')
      }
      if (next.store !== current.store) throw unchangeable('store')
      collector.use(next.sources)
      await use(next)
    },
    stats: () => store.stats(),
    close: async () => {
      readiness.stop()
      dispatcher.stop()
      await Promise.all([close(), retention?.stop()])
      await dispatcher.close()
      await accord?.close()
      await closeUnused(targets, [])
      await store.close()
    },
  }
}

/** Tells whoever listens of the calls that were taken. */
function telling(accept: Accept, feed: Feed): Accept {
  return async (source, calls, traceParent) => {
    await accept(source, calls, traceParent)
    feed.called(source, calls)
  }
}

/** How often the history looks at the gates, in ms. */
const LOOK_AT_GATES_MS = 1_000

const ADMIN_HINT = 'This is the address of whoever runs the destination: calls go to the other one.'

async function listen(settings: Settings, collector: Server, admin: Server) {
  const { listen, adminListen } = settings
  const adminUrl = adminListen && (await admin.listen(adminListen.host, adminListen.port))
  const url = await collector.listen(listen.host, listen.port)
  return { url, adminUrl: adminUrl ?? url }
}

/** Lets go of the connections of endpoints that are used no more, once what is under way there has ended. */
async function closeUnused(before: readonly Target[], after: readonly Target[]): Promise<void> {
  const posters = (targets: readonly Target[]) =>
    new Set(targets.flatMap(({ lines }) => lines.map(({ poster }) => poster)))
  const used = posters(after)
  const unused = Array.from(posters(before)).filter((poster) => !used.has(poster))
  await Promise.all(unused.map((poster) => poster.close()))
}

function unchangeable(field: string): Error {
  return new Error(
    `${field}: it can't change while the destination runs. Stop it, and start it again.`,
  )
}
