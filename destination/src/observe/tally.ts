import type { DestinationQueue } from '../deliver/destination-queue.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Delivery } from '../model/delivery.js'
import { BREAKER_STATES, type HistoryCounts } from '../model/history.js'
import { withoutQuery } from '../model/shown-url.js'
import type { HistoryPort } from '../store/store.js'
import { StoreError } from '../store/store-error.js'
import { DurationBins } from './durations.js'
import type { Observer } from './events.js'

/** In ms: how often the counts are saved. A process that is killed loses the charts of this long, and no message. */
const SAVE_MS = 10_000

/** How many endpoints are saved at once, so that the store's other callers wait for a few ms only. */
const SLICE = 100

/** The most endpoints that are saved for somebody who looks. */
const SMALL = 500

interface Counts extends Omit<HistoryCounts, 'bins'> {
  durations: DurationBins
}

/** Counts what happens at the endpoints, and adds it to the history in the store. */
export class Tally implements Observer {
  readonly #store: Pick<HistoryPort, 'addHistory'>
  readonly #queues: () => readonly DestinationQueue[]
  #counts = new Map<string, Counts>()
  #timer: NodeJS.Timeout | undefined
  #saving: Promise<void> = Promise.resolve()

  constructor(store: Pick<HistoryPort, 'addHistory'>, queues: () => readonly DestinationQueue[]) {
    this.#store = store
    this.#queues = queues
  }

  /** Saves what was counted every 10 seconds, until {@link stop}. */
  start(): void {
    this.#timer = setInterval(() => void this.save(), SAVE_MS).unref()
  }

  /** Saves the rest. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.save()
  }

  /** All attempts of one claim have ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    for (const { url, outcome } of outcomes) {
      const counts = this.#of(destination, url)
      if (outcome.code === 'endpoint_down' || outcome.code === 'endpoint_busy') {
        counts.busy++
        continue
      }
      counts.durations.add(outcome.ms)
      if (outcome.code === 'delivered') counts.delivered++
      else counts.failed++
    }
  }

  /** Saves at once for somebody who looks, unless there is much to save: then they see it some seconds later. */
  async saveIfSmall(): Promise<void> {
    if (this.#counts.size <= SMALL) await this.save()
  }

  /** Saves what was counted since the last call. What the store has not taken is saved by a later call. */
  save(): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save())
    return this.#saving
  }

  async #save(): Promise<void> {
    this.#sampleBreakers()
    const counted = Array.from(this.#counts.entries())
    this.#counts = new Map()
    for (let from = 0; from < counted.length; from += SLICE) {
      const slice = counted.slice(from, from + SLICE)
      try {
        await this.#store.addHistory(slice.map(([, counts]) => rowOf(counts)))
      } catch (error) {
        // The charts may already have them. They miss some requests rather than showing them twice.
        if (error instanceof StoreError && error.isUnsure) continue
        // The store's own callers report that it fails. The charts get the counts as soon as it works again.
        for (const [key, counts] of slice) this.#putBack(key, counts)
      }
    }
  }

  /** An endpoint that is down gets few requests or none, and its chart has to show that it is down. */
  #sampleBreakers(): void {
    for (const { destination, endpoints } of this.#queues()) {
      for (const { endpoint, breaker } of endpoints) {
        if (breaker.state === 'closed') continue
        const counts = this.#of(destination.name, endpoint.url)
        const isWorse =
          BREAKER_STATES.indexOf(breaker.state) > BREAKER_STATES.indexOf(counts.breaker)
        if (isWorse) counts.breaker = breaker.state
      }
    }
  }

  #putBack(key: string, counts: Counts): void {
    const newer = this.#counts.get(key)
    if (newer) {
      counts.delivered += newer.delivered
      counts.failed += newer.failed
      counts.busy += newer.busy
      counts.durations.merge(newer.durations)
      counts.breaker = newer.breaker
    }
    this.#counts.set(key, counts)
  }

  #of(destination: string, endpoint: string): Counts {
    const url = withoutQuery(endpoint)
    const key = `${url} ${destination}`
    let counts = this.#counts.get(key)
    if (!counts) {
      const durations = new DurationBins()
      counts = { destination, url, delivered: 0, failed: 0, busy: 0, breaker: 'closed', durations }
      this.#counts.set(key, counts)
    }
    return counts
  }
}

function rowOf({ durations, ...counts }: Counts): HistoryCounts {
  return { ...counts, bins: durations.toList() }
}
