import { isDeepStrictEqual } from 'node:util'
import { createPoster } from './attempt/poster.js'
import { createNetwork } from './attempt/network.js'
import { createAccept } from './accept.js'
import { createCollector } from './collector/collector.js'
import { aim } from './dispatcher/aim.js'
import { Dispatcher } from './dispatcher/dispatcher.js'
import type { Target } from './dispatcher/target.js'
import type { Log } from './log.js'
import { messageOf, reportTo } from './report.js'
import { startRetention } from './retention.js'
import { route, routesOf } from './route.js'
import type { Endpoint, Settings } from './settings/settings.js'
import { Settler } from './settle/settler.js'
import { openStore } from './store/open.js'
import type { Stats, Store } from './store/store.js'

/** A destination that collects and delivers. */
export interface RunningDestination {
  /** Where its collector listens. */
  readonly url: string
  /**
   * Goes on with other settings, without dropping a request. Where it listens and what it stores in can't change.
   *
   * @throws Error if one of these two would.
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
 * @throws StoreError if the store can't be opened; the system's error if the address can't be listened on.
 */
export async function startDestination(settings: Settings, log: Log): Promise<RunningDestination> {
  const store = await openStore(settings.store)
  try {
    return await start(settings, store, log)
  } catch (error) {
    await store.close()
    throw error
  }
}

async function start(settings: Settings, store: Store, log: Log): Promise<RunningDestination> {
  const now = () => performance.now()
  const report = reportTo(log)
  const settler = new Settler(store, report)
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
    targets = aim(next.destinations, before, isSameNetwork, { connect, now })
    dispatcher.aim(targets)
    await closeUnused(before, targets)
  }
  await use(settings)

  const accept = createAccept({
    store,
    dispatcher,
    route: (source, call) => route(source, call, routes),
  })
  const collector = createCollector({ sources: settings.sources, accept, log })
  const { host, port } = settings.listen
  const url = await collector.listen(host, port)
  const retention = startRetention(
    store,
    () => current.retentionMs,
    (error) => {
      log.error({ error: messageOf(error) }, 'what is too old could not be deleted; trying again')
    },
  )

  return {
    url,
    reload: async (next) => {
      if (!isDeepStrictEqual(next.listen, current.listen)) throw unchangeable('listen')
      if (next.store !== current.store) throw unchangeable('store')
      collector.use(next.sources)
      await use(next)
    },
    stats: () => store.stats(),
    close: async () => {
      dispatcher.stop()
      await Promise.all([collector.close(), retention.stop()])
      await dispatcher.close()
      await closeUnused(targets, [])
      await store.close()
    },
  }
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
