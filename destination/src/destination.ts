import { Monitor } from './alert/monitor.js'
import { createCollector } from './collect/collector.js'
import { readCall } from './collect/receive.js'
import { traceContextOf } from './collect/trace-context.js'
import { Deliverer } from './deliver/deliverer.js'
import { Pauses } from './deliver/pauses.js'
import { MAX_UNDER_WAY } from './deliver/process-room.js'
import { createEnqueueCalls } from './enqueue/calls.js'
import { createEnqueue } from './enqueue/enqueue.js'
import { route, routesOf } from './enqueue/route.js'
import { Waiting } from './enqueue/waiting.js'
import { webhookBody } from './enqueue/webhook-body.js'
import { connectionLimit } from './http/connection-limit.js'
import { PendingBytes } from './http/pending-bytes.js'
import type { Call } from './model/call.js'
import { systemClock } from './model/clock.js'
import type { Stats } from './model/delivery.js'
import { LiveSettings } from './manage/live-settings.js'
import { Managed } from './manage/managed.js'
import { Changes } from './manage/changes.js'
import { unusableError } from './manage/unusable.js'
import { tellAll, type Observer } from './observe/events.js'
import { errorMessage } from './observe/error-message.js'
import type { Log } from './observe/log.js'
import { createObservers } from './observe/observers.js'
import {
  warnOfAlerts,
  warnOfFiles,
  warnOfFormer,
  warnOfFormerServers,
  warnOfRefused,
} from './operate/warnings.js'
import { ownersKeeper } from './manage/keep-owners.js'
import { freeNames, keepOwners } from './manage/owners.js'
import { resealAll } from './manage/reseal.js'
import { startRetention } from './operate/retention.js'
import { createServers } from './operate/servers.js'
import { watchStore } from './operate/store-watch.js'
import { waitForStore } from './operate/wait-for-store.js'
import { checkRole, type Role } from './settings/role.js'
import type { Settings } from './settings/settings.js'
import { Follower, type OnRecords } from './store/follower.js'
import { isPostgres, type StorePlace } from './store/kind.js'
import { openStore } from './store/open.js'
import type { Store } from './store/store.js'

/** A running destination. */
export interface RunningDestination {
  /** The URL of the collector. */
  readonly url: string
  /** The URL of the operator's routes. Without `adminListen` in the settings it is the URL of the collector. */
  readonly adminUrl: string
  /**
   * Replaces the settings without dropping a request. The addresses and the store can't change. It resolves once the new settings are
   * in use; requests under way end as usual.
   *
   * @throws Error if the new settings have another address or store.
   */
  reload(settings: Settings): Promise<void>
  /** The number of deliveries by destination and state. */
  stats(): Promise<Stats[]>
  /**
   * Stops accepting calls, waits for the current requests, stores their outcomes, and closes everything. It waits for a store that is
   * away, however long that takes.
   */
  close(): Promise<void>
}

/**
 * Starts a destination. It waits while the server of its store can't be reached.
 *
 * @param role - A `collector` takes calls and delivers nothing. A `worker` delivers and takes no calls; it listens only for
 * the operator's requests. `all` does both.
 * @param signal - Ends the waiting for the store. Then this rejects with the reason of the signal.
 * @throws StoreError if the store can't be opened, or if the role needs a store that several processes can share. The error
 * of the operating system if it can't listen on the address.
 */
export async function startDestination(
  settings: Settings,
  log: Log,
  role: Role = 'all',
  signal?: AbortSignal,
): Promise<RunningDestination> {
  checkRole(role, settings.store)
  const prepared = await waitForStore(() => prepare(settings, log, role), settings, log, signal)
  try {
    return await prepared.run()
  } catch (error) {
    await prepared.close()
    throw error
  }
}

interface Closable {
  close(): Promise<void>
}

/** A destination that has read from its store what it needs, and does not listen yet. */
interface Prepared extends Closable {
  run(): Promise<RunningDestination>
}

/** Opens the store, and connects the rooms. If that fails, nothing is left, so that it can be tried again. */
async function prepare(settings: Settings, log: Log, role: Role): Promise<Prepared> {
  const store = await open(settings.store, log)
  const opened: Closable[] = [store]
  const close = async () => {
    for (const one of opened.reverse()) await one.close()
  }
  try {
    return { run: await connect(settings, store, log, role, opened), close }
  } catch (error) {
    await close()
    throw error
  }
}

/** Opens the store, and says in the log if a file of an older version is being changed, because that may take long. */
async function open(place: StorePlace, log: Log): Promise<Store> {
  let startedAt: number | undefined
  const store = await openStore(place, {
    upgrading: (versions) => {
      startedAt = performance.now()
      log.info(versions, 'the store is being upgraded, which takes 3 to 7 s for a million messages')
    },
  })
  if (startedAt !== undefined) {
    log.info({ ms: Math.round(performance.now() - startedAt) }, 'the store is upgraded')
  }
  return store
}

/**
 * Connects the rooms. Everything that has to be asked of the store before the start is asked here.
 *
 * @param opened - Gets what must be closed before the store if this rejects.
 * @returns what listens and delivers.
 */
async function connect(
  file: Settings,
  store: Store,
  log: Log,
  role: Role,
  opened: Closable[],
): Promise<Prepared['run']> {
  await store.ping()
  const managed = await Managed.open(file, store.clock.now)
  let follow = async (...changes: Parameters<OnRecords>) => {
    const unusable = await managed.take(...changes)
    if (unusable.length > 0) throw unusableError(unusable)
  }
  const follower = new Follower(store, (...changes) => follow(...changes))
  // Before the settings: a destination that is deleted meanwhile, and its pause with it, is paused or gone, and never sent to.
  const pauses = await Pauses.open(store)
  await follower.catchUp()
  managed.checkOwners()
  const live = new LiveSettings(managed, log)
  follow = (...changes) => live.follow(...changes)
  const settings = () => live.current
  const isDelivering = role !== 'collector'
  const { now } = systemClock()

  const observers: Observer[] = []
  const events = tellAll(observers)
  store.servers?.onChange((state) => {
    events.serverChanged(state)
  })
  const deliverer = await Deliverer.join({
    store,
    events,
    isDelivering,
    now,
    wall: store.clock.wall,
    maxUnderWay: underWayLimit(),
  })
  opened.push(deliverer)
  const { dispatcher } = deliverer
  const { readiness, ...observing } = createObservers(
    { store, deliverer, pauses, log, now },
    observers,
  )

  const waiting = new Waiting(() => store.stats())
  waiting.use(live.current)
  await waiting.ask()
  observers.push(waiting)
  const enqueue = createEnqueue({ store, dispatcher, events, waiting, now })
  const monitor = isDelivering
    ? await Monitor.open({ store, enqueue, pauses, settings, events })
    : undefined
  if (monitor) observers.push(monitor)
  let routes = await routesOf(live.current)
  const routeOf = (source: string, call: Call) => route(source, call, routes)
  const enqueueCalls = createEnqueueCalls(enqueue, routeOf, new PendingBytes(), (headers) =>
    live.current.traceContext ? traceContextOf(headers) : undefined,
  )
  const collector = await createCollector({
    settings: live.current,
    waiting,
    enqueueCalls: role === 'worker' ? undefined : enqueueCalls,
    behind: () => dispatcher.behind(),
    forwarding: {
      isForwarded: (source, call) => routeOf(source, call).to.length > 0,
      bodyOf: webhookBody,
    },
    log,
    events,
  })
  const changes = new Changes({ store, managed, follower, pauses })
  const recordParts = { store, managed, follower, pauses, changes }
  const servers = createServers(live.current, collector, readiness, {
    store,
    enqueue,
    dispatcher,
    log,
    role,
    changes,
    managed,
    pauses,
    settings,
    now,
    ...observing,
    clock: store.clock,
    queues: () => deliverer.queues,
    readCall: (given) => readCall(given, Date.now()),
  })
  opened.push(servers)

  const prepareSending = (next: Settings) => {
    const destinations = next.destinations.filter(({ name }) => pauses.of(name) === undefined)
    return deliverer.prepare({ ...next, destinations })
  }
  live.usedBy(prepareSending)
  live.usedBy((next) => collector.prepare(next))
  live.usedBy(async (next) => {
    const nextRoutes = await routesOf(next)
    return () => {
      routes = nextRoutes
      waiting.use(next)
    }
  })
  live.afterwards(async (next) => {
    monitor?.keep()
    await observing.totals.keep(next)
    await observing.metrics.keep(next)
  })

  await keepOwners(recordParts)

  return async () => {
    // Delivery starts only after this: a process that can't listen must not send anything.
    const urls = await servers.listen()
    /** The requests under way to a destination that has just been paused end as usual, and nobody waits for them here. */
    const send = () =>
      live.inTurn(async () => {
        const use = await prepareSending(live.current)
        void use()
      })
    await send()
    deliverer.listen()
    const closing = new AbortController()
    const warn = async () => {
      if (!isDelivering) return
      warnOfAlerts(live.current, log)
      await warnOfFormer(store, live.current, log, closing.signal)
      await warnOfRefused(live.current, log)
    }
    for (const state of store.servers?.list() ?? []) if (state.error) events.serverChanged(state)
    const reseal = () => resealAll(recordParts, log)
    const keepOwnersOrRetry = ownersKeeper(() => keepOwners(recordParts), log, closing.signal)
    warnOfFormerServers(store, log)
    warnOfFiles(log)
    void warn()
    void reseal()
    waiting.start()
    if (isDelivering) observing.tally.start()
    const retention = isDelivering
      ? startRetention(
          store,
          () => live.current.retentionMs,
          events,
          () => freeNames(recordParts, live.current.retentionMs),
        )
      : undefined
    const watch = isPostgres(file.store) ? undefined : watchStore(store, events)
    pauses.start(send, follower, events)
    monitor?.start()
    follower.start({
      followFailed: (error) => {
        log.warn(
          { error: errorMessage(error) },
          'changes of the settings in the store cannot be followed',
        )
      },
    })

    return {
      ...urls,
      reload: async (next: Settings) => {
        await changes.betweenChanges(() => live.reload(next))
        await keepOwnersOrRetry()
        void warn()
        void reseal()
      },
      stats: () => store.stats(),
      close: async () => {
        closing.abort()
        readiness.stop()
        waiting.stop()
        watch?.stop()
        deliverer.stop()
        await Promise.all([
          ...[follower.stop(), pauses.stop(), monitor?.stop()],
          ...[servers.close(), retention?.stop()],
        ])
        await deliverer.close()
        await observing.tally.stop()
        await store.close()
      },
    }
  }
}

/** The most requests under way at once. Each takes a connection, and clients may hold half of the files. */
export function underWayLimit(limits?: string): number {
  return Math.min(MAX_UNDER_WAY, Math.ceil((connectionLimit(limits) ?? Infinity) / 2))
}
