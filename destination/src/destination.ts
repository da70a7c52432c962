import { Monitor } from './alert/monitor.js'
import { createCollector } from './collect/collector.js'
import { readCall } from './collect/receive.js'
import { traceContextOf } from './collect/trace-context.js'
import { Deliverer } from './deliver/deliverer.js'
import { MAX_UNDER_WAY } from './deliver/dispatcher.js'
import { Pauses } from './deliver/pauses.js'
import { bodyFor, createEnqueueCalls } from './enqueue/calls.js'
import { createEnqueue } from './enqueue/enqueue.js'
import { filterOf, route, routesOf } from './enqueue/route.js'
import { connectionLimit } from './http/connection-limit.js'
import type { Call } from './model/call.js'
import { systemClock } from './model/clock.js'
import type { Stats } from './model/delivery.js'
import { eachInSlices, turn } from './model/slices.js'
import { isManaged, Managed, type Unusable } from './manage/managed.js'
import { Manager } from './manage/manager.js'
import { unusableError } from './manage/unusable.js'
import { tellAll, type Observer } from './observe/events.js'
import { errorMessage } from './observe/error-message.js'
import type { Log } from './observe/log.js'
import { createObservers } from './observe/observers.js'
import { warnOfFormer } from './operate/former.js'
import { resealAll } from './manage/reseal.js'
import { startRetention } from './operate/retention.js'
import { createServers } from './operate/servers.js'
import { waitForStore } from './operate/wait-for-store.js'
import { checkReload } from './settings/reload.js'
import { checkRole, type Role } from './settings/role.js'
import type { Settings } from './settings/settings.js'
import { Follower, type OnRecords } from './store/follower.js'
import { openStore } from './store/open.js'
import type { Store } from './store/store.js'

/** A running destination. */
export interface RunningDestination {
  /** The URL of the collector. */
  readonly url: string
  /** The URL of the operator's routes. Without `adminListen` in the settings it is the URL of the collector. */
  readonly adminUrl: string
  /**
   * Replaces the settings without dropping a request. The addresses and the store can't change.
   *
   * @throws Error if the new settings have another address or store.
   */
  reload(settings: Settings): Promise<void>
  /** The number of deliveries by destination and state. */
  stats(): Promise<Stats[]>
  /** Stops accepting calls, waits for the current requests, stores their outcomes, and closes everything. */
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
  const store = await waitForStore(() => open(settings.store, log), settings, log, signal)
  try {
    return await start(settings, store, log, role)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Opens the store, and says in the log if a file of an older version is being changed, because that may take long. */
async function open(url: string, log: Log): Promise<Store> {
  let startedAt: number | undefined
  const store = await openStore(url, {
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

async function start(file: Settings, store: Store, log: Log, role: Role) {
  const managed = new Managed(file)
  const follower = new Follower(store, (records, isComplete) => follow(records, isComplete))
  let follow = async (...changes: Parameters<OnRecords>) => {
    const unusable = [...(await managed.take(...changes)), ...managed.inNeed()]
    if (unusable.length > 0) throw unusableError(unusable)
  }
  await follower.catchUp()
  const initial = managed.settings()
  let settings = initial
  let routes = routesOf(initial)
  const isDelivering = role !== 'collector'
  const clock = systemClock()
  const { now } = clock

  const pauses = await Pauses.open(store)
  const observers: Observer[] = []
  const events = tellAll(observers)
  const deliverer = await Deliverer.join({
    ...{ store, events, isDelivering, now },
    maxUnderWay: underWayLimit(),
  })
  const { readiness, ...observing } = createObservers(
    { store, deliverer, pauses, log, clock },
    observers,
  )

  const enqueue = createEnqueue({ store, dispatcher: deliverer.dispatcher, events, now })
  const monitor = isDelivering
    ? await Monitor.open({
        ...{ store, enqueue, pauses, settings: () => settings, events, clock },
      })
    : undefined
  if (monitor) observers.push(monitor)
  const routeOf = (source: string, call: Call) => route(source, call, routes)
  const enqueueCalls = createEnqueueCalls(enqueue, routeOf, (headers) =>
    settings.traceContext ? traceContextOf(headers) : undefined,
  )
  const collector = await createCollector({
    sources: settings.sources,
    enqueueCalls: role === 'worker' ? undefined : enqueueCalls,
    behind: () => deliverer.dispatcher.behind(),
    bodyOf: (source, call) => bodyFor(call, routeOf(source, call)),
    log,
    events,
  })
  const manager = new Manager({ store, managed, follower })
  const servers = createServers(settings, collector, readiness, {
    ...{
      store,
      enqueue,
      dispatcher: deliverer.dispatcher,
      log,
      role,
      manager,
      pauses,
      ...observing,
    },
    queues: () => deliverer.queues,
    settings: () => settings,
    readCall: (given) => readCall(given, Date.now()),
  })
  const sendable = (all: Settings) => ({
    ...all,
    destinations: all.destinations.filter(({ name }) => pauses.of(name) === undefined),
  })
  /**
   * Everything changes at once, after what takes long for thousands of destinations.
   *
   * @returns `closed` resolves once the requests to former endpoints have ended. A change of the settings does not wait.
   */
  const use = async (next: Settings): Promise<{ closed: Promise<void> }> => {
    const useQueues = await deliverer.prepare(sendable(next))
    const useSources = await collector.prepare(next.sources)
    await eachInSlices(next.destinations, filterOf)
    const nextRoutes = routesOf(next)
    await turn()
    settings = next
    routes = nextRoutes
    useSources()
    const closed = useQueues()
    monitor?.keep()
    await observing.history.keep(next.destinations)
    return { closed }
  }
  let last: Promise<unknown> = Promise.resolve()
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work)
    last = done.catch(() => undefined)
    return done
  }
  follow = (...changes) =>
    inTurn(async () => {
      const [records, isComplete] = changes
      // Pauses and alerts are records too, and change no settings.
      if (!isComplete && !records.some(({ kind }) => isManaged(kind))) return
      logUnusable(await managed.take(...changes), log)
      await use(managed.settings())
    })
  // Delivery starts only after this: a process that can't listen must not send anything.
  const urls = await servers.listen().catch(async (error: unknown) => {
    await Promise.all([servers.close(), deliverer.close()])
    throw error
  })
  await inTurn(async () => {
    const begin = await deliverer.prepare(sendable(settings))
    void begin()
  })
  deliverer.listen()
  if (isDelivering) void warnOfFormer(store, settings, log)
  if (isDelivering) observing.tally.start()
  const retention = isDelivering
    ? startRetention(store, () => settings.retentionMs, events)
    : undefined

  const reseal = () => resealAll(manager, log)
  const useFile = async (next: Settings) => {
    checkReload(settings, next)
    const { unusable, undo } = await managed.useFile(next)
    logUnusable(unusable, log)
    try {
      return await use(managed.settings())
    } catch (error) {
      undo()
      throw error
    }
  }
  const reload = async (next: Settings) => {
    const { closed } = await inTurn(() => useFile(next))
    if (isDelivering) void warnOfFormer(store, settings, log)
    void reseal()
    await closed
  }
  /** The requests under way to a destination that is paused end as usual, and nobody waits for them here. */
  const obeyPauses = async () => {
    const useQueues = await deliverer.prepare(sendable(settings))
    void useQueues()
  }
  pauses.start(() => inTurn(obeyPauses), events)
  monitor?.start()
  follower.start({
    followFailed: (error) => {
      log.warn(
        { error: errorMessage(error) },
        'changes of the settings in the store cannot be followed',
      )
    },
  })
  void reseal()

  return {
    ...urls,
    reload,
    stats: () => store.stats(),
    close: async () => {
      readiness.stop()
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

function logUnusable(unusable: readonly Unusable[], log: Log): void {
  for (const one of unusable) {
    log.error(one, 'a change of the settings in the store cannot be used here')
  }
}

/** The most requests under way at once. Each takes a connection, and clients may hold half of the files. */
function underWayLimit(): number {
  return Math.min(MAX_UNDER_WAY, Math.ceil((connectionLimit() ?? Infinity) / 2))
}
