import { collectDefaultMetrics, Registry } from 'prom-client'
import type { Alert } from '../alert/alert.js'
import type { DestinationQueue } from '../deliver/destination-queue.js'
import { NO_MESSAGES, type BreakerState } from '../model/answers.js'
import { withoutQuery } from '../model/shown-url.js'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { EndedMessage } from '../deliver/settler.js'
import type { Verdict } from '../enqueue/enqueue.js'
import type { Delivery, Stats } from '../model/delivery.js'
import type { ServerState } from '../store/servers.js'
import { eachInSlices, turn } from '../model/slices.js'
import type { Destination, Settings } from '../settings/settings.js'
import { version } from '../version.js'
import type { Observer } from './events.js'
import { addMetric, Counts, Durations, type Labels, type Sample } from './series.js'

/** The sources of values that are read on each request for the metrics. */
export interface MetricSources {
  /** The number of waiting messages, by destination. */
  stats: () => Promise<Stats[]>
  /** The destinations of the settings, with their endpoints. */
  queues: () => readonly DestinationQueue[]
  /** Whether the store answers, and takes calls and outcomes, as `/readyz` says. */
  isStoreUp: () => Promise<boolean>
  /** The names of the destinations that are paused. */
  paused: () => Iterable<string>
  /** The servers of the store; left out if it has one. */
  servers?: (() => readonly ServerState[]) | undefined
}

/** In seconds. A receiver usually answers within a few ms, or it runs into the deadline of 5 s. */
const ATTEMPT_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** In seconds. A commit takes about as long as a sync of the disk. */
const COMMIT_BOUNDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

/** The attempts at one endpoint. */
interface EndpointCounts {
  outcomes: Counts
  durations: Durations
}

/** The messages of one destination that were delivered or became dead letters. */
interface DestinationCounts {
  /** By their URLs without the queries, as the labels have them. */
  endpoints: Map<string, EndpointCounts>
  delivered: number
  dead: number
}

/**
 * Counts events for Prometheus. Labels are codes and names from the settings, never ids, so that clients can't increase
 * the number of series.
 */
export class Metrics implements Observer {
  readonly #sources: MetricSources
  readonly #registry = new Registry()
  readonly #requests = new ByName('source')
  readonly #calls = new ByName('source')
  readonly #changedNumbers = new Counts()
  readonly #duplicates = new ByName('source')
  readonly #stopped = new ByName('destination')
  readonly #alerts = new Map<string, Counts>()
  readonly #commits = new Durations(COMMIT_BOUNDS)
  readonly #destinations = new Map<string, DestinationCounts>()
  /** The waiting messages, read once for each request; `undefined` if the store fails. */
  #stats: Promise<Stats[] | undefined> = Promise.resolve(undefined)

  constructor(sources: MetricSources) {
    this.#sources = sources
    processRegistry() // starts the metrics of the process now and not at the first request
    this.#addCollected()
    this.#addSent()
    this.#addWaiting()
    this.#addServers()
    this.#addEndpoints()
  }

  /** A request was answered: `ok`, `partly`, or with the code of a refusal. */
  requestAnswered(source: string, answer: string): void {
    this.#requests.of(source).add(answer)
  }

  /** Counts calls of a request by their answer: `accepted`, or the code of the refusal. */
  callsCounted(source: string, answer: string, count: number): void {
    this.#calls.of(source).add(answer, count)
  }

  /** Numbers in accepted calls are forwarded with other values. */
  numbersChanged(source: string, count: number): void {
    this.#changedNumbers.add(source, count)
  }

  /** A source sent a message again. */
  duplicated(source: string, destination: string): void {
    this.#duplicates.of(source).add(destination)
  }

  /** Filters were asked about a call. */
  filtered(_call: unknown, { destination, rule }: Verdict): void {
    if (rule !== undefined) this.#stopped.of(destination.name).add(rule)
  }

  /** An alert was given. */
  alerted({ name, destination }: Pick<Alert, 'name' | 'destination'>): void {
    const counts = this.#alerts.get(destination) ?? new Counts()
    this.#alerts.set(destination, counts)
    counts.add(name)
  }

  /** Adds the time that the store took to make calls durable. */
  committed(ms: number): void {
    this.#commits.add(ms)
  }

  /** All attempts of one claim have ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    const counts = this.#destination(destination)
    for (const { url, outcome } of outcomes) {
      const { outcomes, durations } = endpointOf(counts, url)
      outcomes.add(outcome.code)
      if (outcome.ms > 0) durations.add(outcome.ms) // 0 means that nothing was sent
    }
  }

  /** The store has what has become of messages. */
  messagesEnded(messages: readonly EndedMessage[]): void {
    for (const { delivery, next } of messages) {
      const counts = this.#destination(delivery.destination)
      if (next.state === 'done') counts.delivered++
      else counts.dead++
    }
  }

  /** Messages have waited for longer than the retention, and are dead letters now. */
  expired(destination: string, count: number): void {
    this.#destination(destination).dead += count
  }

  /** Forgets the endpoints that the settings no longer have, because a tenant may change its URLs as often as it likes. */
  async keep({ destinations }: Pick<Settings, 'destinations'>): Promise<void> {
    const kept = new Map<string, Destination['webhooks']>()
    await eachInSlices(destinations, ({ name, webhooks }) => kept.set(name, webhooks))
    await eachInSlices(this.#destinations, ([name, { endpoints }]) => {
      const urls = new Set(kept.get(name)?.map(({ url }) => withoutQuery(url)))
      for (const url of endpoints.keys()) if (!urls.has(url)) endpoints.delete(url)
    })
  }

  /** The media type of {@link text}. */
  get contentType(): string {
    return this.#registry.contentType
  }

  /** All metrics in the text format of Prometheus. Between two of them other work of the process goes on. */
  async text(): Promise<string> {
    this.#stats = this.#sources.stats().catch(() => undefined)
    const texts: string[] = []
    for (const registry of [this.#registry, processRegistry()]) {
      for (const { name } of registry.getMetricsAsArray()) {
        texts.push(await registry.getSingleMetricAsString(name))
        await turn()
      }
    }
    return `${texts.join('\n\n')}\n`
  }

  #addCollected(): void {
    const counter = (name: string, help: string, label: string, counts: ByName) => {
      addMetric(this.#registry, { name, help, type: 'counter' }, () => counts.samples(label))
    }
    counter('hookline_requests_total', 'Requests from sources.', 'answer', this.#requests)
    counter('hookline_calls_total', 'Calls from sources.', 'answer', this.#calls)
    addMetric(
      this.#registry,
      {
        name: 'hookline_changed_numbers_total',
        help: 'Numbers in accepted calls that JavaScript cannot hold, and that are forwarded with another value.',
        type: 'counter',
      },
      () => this.#changedNumbers.samples('source', {}),
    )
    addMetric(
      this.#registry,
      {
        name: 'hookline_alerts_total',
        help: 'Alerts that this process gave.',
        type: 'counter',
      },
      () =>
        Array.from(this.#alerts, ([destination, counts]) =>
          counts.samples('alert', { destination }),
        ).flat(),
    )
    counter(
      'hookline_duplicates_total',
      'Messages that a source sent again and that were not delivered again.',
      'destination',
      this.#duplicates,
    )
    counter(
      'hookline_filtered_calls_total',
      'Calls that a destination did not get because of its filters, by the rule that stopped them.',
      'rule',
      this.#stopped,
    )
    const name = 'hookline_store_commit_duration_seconds'
    const help = 'Time from the arrival of calls at the store until they are durable.'
    addMetric(this.#registry, { name, help, type: 'histogram' }, () =>
      this.#commits.samples(name, {}),
    )
  }

  #addSent(): void {
    addMetric(
      this.#registry,
      {
        name: 'hookline_attempts_total',
        help: 'Attempts at endpoints.',
        type: 'counter',
      },
      () => this.#eachEndpoint(({ outcomes }, labels) => outcomes.samples('outcome', labels)),
    )
    const name = 'hookline_attempt_duration_seconds'
    const help =
      'Time from the start of an attempt to the status line of the answer, or to its failure.'
    addMetric(this.#registry, { name, help, type: 'histogram' }, () =>
      this.#eachEndpoint(({ durations }, labels) => durations.samples(name, labels)),
    )
    addMetric(
      this.#registry,
      {
        name: 'hookline_messages_total',
        help: 'Messages that were delivered or became dead letters.',
        type: 'counter',
      },
      () =>
        Array.from(this.#destinations, ([destination, { delivered, dead }]) => [
          { labels: { destination, result: 'delivered' }, value: delivered },
          { labels: { destination, result: 'dead' }, value: dead },
        ]).flat(),
    )
  }

  /**
   * Adds the metrics that come from the store. If the store fails, the other metrics are still served, and
   * `hookline_store_up` is 0.
   */
  #addWaiting(): void {
    const gauge = (name: string, help: string, samples: (stats: Stats) => Sample[]) => {
      addMetric(this.#registry, { name, help, type: 'gauge' }, async () =>
        this.#known((await this.#stats) ?? []).flatMap(samples),
      )
    }
    gauge(
      'hookline_pending_messages',
      'Messages that wait for an attempt (fresh, backlog, bulk) or are being sent (leased).',
      ({ destination, fresh, backlog, bulk, leased }) => [
        { labels: { destination, state: 'fresh' }, value: fresh },
        { labels: { destination, state: 'backlog' }, value: backlog },
        { labels: { destination, state: 'bulk' }, value: bulk },
        { labels: { destination, state: 'leased' }, value: leased },
      ],
    )
    gauge(
      'hookline_oldest_pending_age_seconds',
      'Age of the oldest message that is neither delivered nor a dead letter; 0 if there is none.',
      ({ destination, oldestMs }) => [{ labels: { destination }, value: oldestMs / 1_000 }],
    )
    gauge('hookline_dead_letters', 'Dead letters in the store.', ({ destination, dead }) => [
      { labels: { destination }, value: dead },
    ])
    addMetric(
      this.#registry,
      {
        name: 'hookline_destination_paused',
        help: '1 if the destination is paused. Missing if it is not.',
        type: 'gauge',
      },
      () =>
        Array.from(this.#sources.paused(), (destination) => ({
          labels: { destination },
          value: 1,
        })),
    )
    addMetric(
      this.#registry,
      {
        name: 'hookline_store_up',
        help: '1 if the store answers and takes calls, otherwise 0.',
        type: 'gauge',
      },
      async () => {
        const [isUp, stats] = await Promise.all([this.#sources.isStoreUp(), this.#stats])
        return [{ labels: {}, value: isUp && stats ? 1 : 0 }]
      },
    )
  }

  #addServers(): void {
    const { servers } = this.#sources
    if (!servers) return
    addMetric(
      this.#registry,
      {
        name: 'hookline_store_server_up',
        help: '1 if the server of the store works, otherwise 0.',
        type: 'gauge',
      },
      () =>
        servers().map(({ name, error }) => ({ labels: { server: name }, value: error ? 0 : 1 })),
    )
  }

  #addEndpoints(): void {
    const breakers = () =>
      this.#sources.queues().flatMap(({ destination: { name }, endpoints }) =>
        endpoints.map(({ endpoint, breaker, pace }) => ({
          breaker,
          rate: pace.rate,
          labels: { destination: name, endpoint: withoutQuery(endpoint.url) },
        })),
      )
    addMetric(
      this.#registry,
      {
        name: 'hookline_endpoint_breakers',
        help: "1 for the state of the endpoint's circuit breaker, 0 for the others; open lets only probes through.",
        type: 'gauge',
      },
      () =>
        summed(
          breakers().flatMap(({ breaker, labels }) =>
            BREAKER_STATES.map((state) => ({
              labels: { ...labels, state },
              value: breaker.state === state ? 1 : 0,
            })),
          ),
        ),
    )
    addMetric(
      this.#registry,
      {
        name: 'hookline_endpoint_requests',
        help: 'Requests that endpoints have not answered yet.',
        type: 'gauge',
      },
      () => summed(breakers().map(({ breaker, labels }) => ({ labels, value: breaker.inFlight }))),
    )
    addMetric(
      this.#registry,
      {
        name: 'hookline_endpoint_rate_limit',
        help: 'Requests per second that this process sends at most, by the settings or after a 429; none without a limit.',
        type: 'gauge',
      },
      () =>
        summed(
          breakers()
            .filter(({ rate }) => Number.isFinite(rate))
            .map(({ rate, labels }) => ({ labels, value: rate })),
        ),
    )
    addMetric(
      this.#registry,
      { name: 'hookline_build_info', help: 'The running version.', type: 'gauge' },
      () => [{ labels: { version }, value: 1 }],
    )
  }

  /**
   * The figures of all destinations that this process sends to, or of which the store has messages. A destination without
   * messages has zeros and not a missing series. One that is disabled, or no longer in the settings, has its figures.
   */
  #known(stored: readonly Stats[]): Stats[] {
    const all = new Map<string, Stats>()
    for (const { destination } of this.#sources.queues()) {
      const { name } = destination
      all.set(name, { destination: name, ...NO_MESSAGES })
    }
    for (const stats of stored) all.set(stats.destination, stats)
    return [...all.values()]
  }

  #eachEndpoint(samples: (counts: EndpointCounts, labels: Labels) => Sample[]): Sample[] {
    const all: Sample[] = []
    for (const [destination, { endpoints }] of this.#destinations) {
      for (const [endpoint, counts] of endpoints) {
        all.push(...samples(counts, { destination, endpoint }))
      }
    }
    return all
  }

  #destination(name: string): DestinationCounts {
    let counts = this.#destinations.get(name)
    if (!counts) {
      counts = { endpoints: new Map(), delivered: 0, dead: 0 }
      this.#destinations.set(name, counts)
    }
    return counts
  }
}

const BREAKER_STATES: readonly BreakerState[] = ['closed', 'open', 'half-open']

/** Counts by source or by destination, and by one more label. */
class ByName {
  readonly #owner: 'source' | 'destination'
  readonly #counts = new Map<string, Counts>()

  constructor(owner: 'source' | 'destination') {
    this.#owner = owner
  }

  of(name: string): Counts {
    let counts = this.#counts.get(name)
    if (!counts) {
      counts = new Counts()
      this.#counts.set(name, counts)
    }
    return counts
  }

  samples(label: string): Sample[] {
    return Array.from(this.#counts, ([name, counts]) =>
      counts.samples(label, { [this.#owner]: name }),
    ).flat()
  }
}

function endpointOf({ endpoints }: DestinationCounts, fullUrl: string): EndpointCounts {
  const url = withoutQuery(fullUrl)
  let counts = endpoints.get(url)
  if (!counts) {
    counts = { outcomes: new Counts(), durations: new Durations(ATTEMPT_BOUNDS) }
    endpoints.set(url, counts)
  }
  return counts
}

/**
 * Adds up samples with equal labels. Labels have no queries, because some customers keep keys in them, so endpoints whose
 * URLs differ only in the query share one series.
 */
function summed(samples: readonly Sample[]): Sample[] {
  const bySeries = new Map<string, Sample>()
  for (const sample of samples) {
    const series = JSON.stringify([sample.metricName, sample.labels])
    const known = bySeries.get(series)
    if (known) known.value += sample.value
    else bySeries.set(series, { ...sample })
  }
  return Array.from(bySeries.values())
}

let ofProcess: Registry | undefined

/**
 * Gauges of prom-client with the ending of counters, which `promtool check metrics` refuses. They are the sums of
 * `nodejs_active_handles` and so on.
 */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

/**
 * The metrics of the process: event loop, memory, garbage collection, CPU. The process has one registry for them, because
 * their collection can't be stopped.
 */
function processRegistry(): Registry {
  if (!ofProcess) {
    ofProcess = new Registry()
    collectDefaultMetrics({ register: ofProcess })
    for (const name of MISNAMED) ofProcess.removeSingleMetric(name)
  }
  return ofProcess
}
