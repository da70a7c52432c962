import type { MonitorEvents } from '../alert/monitor.js'
import type { CollectEvents } from '../collect/routes.js'
import type { DeliverEvents } from '../deliver/deliverer.js'
import type { EnqueueEvents } from '../enqueue/enqueue.js'
import type { FollowerEvents } from '../store/follower.js'
import type { ServerState } from '../store/servers.js'

/** Everything that happens in a destination. Each stage names its own events. */
export interface Events
  extends CollectEvents, EnqueueEvents, DeliverEvents, FollowerEvents, MonitorEvents {
  /** Old deliveries could not be deleted. The next sweep tries again. */
  sweepFailed(error: unknown): void
  /** Messages of a destination have waited for longer than the retention, and became dead letters. */
  expired(destination: string, count: number): void
  /** The file of the store was removed or replaced, so that the store takes no calls. */
  storeRemoved(error: unknown): void
  /** The file of the store is back. */
  storeFound(): void
  /** A server of the store fails, fails for another reason, or works again. */
  serverChanged(state: ServerState): void
}

/** Receives the events for which it has a method. */
export type Observer = Partial<Events>

/** Passes each event to all observers, in their order. An observer that is added to the list later gets the events, too. */
export function tellAll(observers: readonly Observer[]): Events {
  const tell =
    <Name extends keyof Events>(name: Name) =>
    (...details: Parameters<Events[Name]>) => {
      for (const observer of observers) {
        const method = observer[name] as ((...given: typeof details) => void) | undefined
        method?.apply(observer, details)
      }
    }
  return {
    requestAnswered: tell('requestAnswered'),
    callsCounted: tell('callsCounted'),
    numbersChanged: tell('numbersChanged'),
    callsAccepted: tell('callsAccepted'),
    quotaRefused: tell('quotaRefused'),
    callsNotAccepted: tell('callsNotAccepted'),
    duplicated: tell('duplicated'),
    committed: tell('committed'),
    filtered: tell('filtered'),
    storeRefused: tell('storeRefused'),
    attempted: tell('attempted'),
    messagesEnded: tell('messagesEnded'),
    claimFailed: tell('claimFailed'),
    settleFailed: tell('settleFailed'),
    settleRecovered: tell('settleRecovered'),
    settlementsRefused: tell('settlementsRefused'),
    workersFailed: tell('workersFailed'),
    sweepFailed: tell('sweepFailed'),
    expired: tell('expired'),
    storeRemoved: tell('storeRemoved'),
    storeFound: tell('storeFound'),
    serverChanged: tell('serverChanged'),
    followFailed: tell('followFailed'),
    alerted: tell('alerted'),
    alertFailed: tell('alertFailed'),
  }
}
