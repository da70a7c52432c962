import type { Deliverer } from '../deliver/deliverer.js'
import type { Pauses } from '../deliver/pauses.js'
import type { ClockPort, HistoryPort, ReadPort, Store } from '../store/store.js'
import type { Observer } from './events.js'
import { Feed } from './feed.js'
import { FilterCounts } from './filter-counts.js'
import { logLines } from './log-lines.js'
import type { Log } from './log.js'
import { Metrics } from './metrics.js'
import { QuotaLines } from './quota-lines.js'
import { Readiness } from './readiness.js'
import { Tally } from './tally.js'
import { Totals } from './totals.js'

/** What the observers need. */
export interface ObserversParts {
  store: Pick<ReadPort, 'ping' | 'stats'> &
    Pick<HistoryPort, 'addHistory'> &
    Pick<Store, 'servers'> &
    ClockPort
  deliverer: Pick<Deliverer, 'dispatcher' | 'settler' | 'queues'>
  pauses: Pick<Pauses, 'names'>
  log: Log
  /** A clock of the process that only goes forward, in ms. */
  now: () => number
}

/** Creates all observers and adds them to the list. */
export function createObservers(
  { store, deliverer, pauses, log, now }: ObserversParts,
  observers: Observer[],
) {
  const { dispatcher, settler } = deliverer
  const { servers } = store
  const totals = new Totals(store.clock)
  const tally = new Tally(store, () => deliverer.queues)
  const feed = new Feed()
  const filterCounts = new FilterCounts(log)
  const readiness = new Readiness({ dispatcher, settler, store, now })
  const metrics = new Metrics({
    stats: () => store.stats(),
    queues: () => deliverer.queues,
    isStoreUp: () => readiness.isStoreUp(),
    paused: () => pauses.names(),
    servers: servers && (() => servers.list()),
  })
  observers.push(
    metrics,
    totals,
    tally,
    feed,
    filterCounts,
    readiness,
    new QuotaLines(log),
    logLines(log),
  )
  return { metrics, totals, tally, feed, filterCounts, readiness }
}
