import type {
  Bucket,
  DestinationDetails,
  DestinationStatus,
  EndpointHistories,
  FormerDestination,
  MessageCounts,
  Overview,
  OverviewRow,
  OverviewTotals,
  SourceStatus,
} from '../model/answers.js'
import { NO_MESSAGES } from '../model/answers.js'
import { waitingIn, type Stats } from '../model/delivery.js'
import { HEALTHS, healthOf, isBlocking, recentOf, worstOf, type Health } from '../model/health.js'
import { HISTORIES, type HistoryRow, type HistorySpan, HISTORY_SPANS } from '../model/history.js'
import { withoutQuery } from '../model/shown-url.js'
import { eachInSlices, indexInSlices, sortInSlices } from '../model/slices.js'
import type { DestinationQueue } from '../deliver/destination-queue.js'
import { DurationBins } from '../observe/durations.js'
import type { Destination } from '../settings/settings.js'
import { Past, SeriesSum, seriesOf, sparkOf, type EndpointRows, type PastRows } from './past.js'
import {
  queuesByName,
  statusHead,
  statusOfDestination,
  type StatusParts,
  formerDestinations,
} from './status.js'
import type { Fields } from '../model/fields.js'
import { checkNames, count, oneOf, texts } from './parameters.js'

/** What the overview shows. */
export interface OverviewParameters {
  span: HistorySpan
  /** The text of the search; empty for all. */
  q: string
  health: Health | undefined
  sort: (typeof SORT_NAMES)[number]
  isDescending: boolean
  offset: number
  limit: number
}

const SORT_NAMES = ['health', 'name', 'requests', 'success', 'p99', 'waiting', 'dead'] as const

/** @throws {@link Refusal} */
export function readOverview(query: Fields): OverviewParameters {
  checkNames(query, ['span', 'q', 'health', 'sort', 'order', 'offset', 'limit'])
  return {
    span: oneOf(query, 'span', HISTORY_SPANS) ?? '1h',
    q: texts(query, ['q']).q ?? '',
    health: oneOf(query, 'health', HEALTHS),
    sort: oneOf(query, 'sort', SORT_NAMES) ?? 'health',
    isDescending: oneOf(query, 'order', ['asc', 'desc']) === 'desc',
    offset: count(query, 'offset', 0, Number.MAX_SAFE_INTEGER) ?? 0,
    limit: count(query, 'limit', 0, 100) ?? 25,
  }
}

/** The most destinations that need attention, former destinations and sources in one answer. */
const MAX_TROUBLED = 8
const MAX_FORMER = 10
const MAX_SOURCES = 12

/** In ms: how long one pass over all destinations is used for all clients. A slow pass is used for longer. */
const FRESH_MS = 1_000
const KEPT_TIMES = 20

/** In ms: a message that waits for longer becomes a dead letter within the hour. */
const LATE_MS = 3 * 3_600_000

/** The sum of one destination. */
interface Line {
  destination: Destination
  row: Omit<OverviewRow, 'spark'>
  /** The position of its health in {@link HEALTHS}: the worst has the lowest. */
  rank: number
  oldestMs: number
  /** Whether its filters let nothing through. */
  isBlocked: boolean
  /** Its history in the span of the pass, and that of the last hour. */
  rows: EndpointRows
  minutes: EndpointRows
}

/** One pass over all destinations. It has the history of no others: those of a tenant are few of all. */
interface Pass {
  lines: readonly Line[]
  /** All lines in an order. Each order is made when it is asked for first. */
  inOrder: (order: Order) => Promise<Line[]>
  /** The lines that need attention, the worst first. */
  troubled: Line[]
  former: FormerDestination[]
  stats: Stats[]
  totals: OverviewTotals
  sources: SourceStatus[]
  chart: Overview['chart']
  until: number
}

const NO_ROWS: EndpointRows = new Map()

type Order = Pick<OverviewParameters, 'sort' | 'isDescending'>

/** What the lines of a pass are made of, and the sums of all of them. */
interface PastSums {
  rows: PastRows
  minutes: PastRows
  now: number
  sum: SeriesSum
  totals: Sums
  /** For the durations of one line after the other: new bins for each of thousands would be much garbage. */
  bins: DurationBins
}

/** Computes the overview. All clients share the pass over all destinations, and each gets one page of them. */
export class Overviews {
  readonly #past: Past
  readonly #passes = new Map<HistorySpan, Promise<Pass>>()

  /** @param past - The history in the store, which all overviews share. */
  constructor(
    readonly parts: StatusParts,
    past: Past,
  ) {
    this.#past = past
  }

  async overview(
    parameters: OverviewParameters,
  ): Promise<Omit<Overview, 'version' | 'startedAt' | 'now' | 'access'>> {
    const { span, offset, limit } = parameters
    const pass = await this.#pass(span)
    const { settings, role } = this.parts
    // A view without the table shows neither its rows nor what needs attention.
    const lines = limit === 0 ? pass.lines : await pass.inOrder(parameters)
    const found = await matching(lines, parameters)
    const shown = limit === 0 ? [] : pass.troubled.slice(0, MAX_TROUBLED)
    const troubled = shown.map(({ destination }) => this.#status(destination, pass.stats))
    const now = Math.round(this.parts.clock.wall())
    return {
      ...statusHead(settings(), role, this.parts.store.servers),
      span,
      sources: pass.sources,
      totals: pass.totals,
      chart: pass.chart,
      destinations: troubled,
      troubled: pass.troubled.length,
      formerDestinations: pass.former.slice(0, MAX_FORMER),
      histories: historiesOf(
        troubled,
        new Map(shown.map(({ row, minutes }) => [row.name, minutes])),
        now,
      ),
      rows: found.slice(offset, offset + limit).map((line) => rowOf(line, span, now)),
      found: found.length,
    }
  }

  /** Everything about one destination; `undefined` if the settings do not have it. */
  async destination(name: string, span: HistorySpan): Promise<DestinationDetails | undefined> {
    const destination = this.parts.settings().destinations.find((one) => one.name === name)
    if (!destination) return undefined
    const [rows, minutes] = [await this.#past.read(span), await this.#past.read('1h')]
    const now = Math.round(this.parts.clock.wall())
    const status = this.#status(destination, await this.parts.store.stats())
    const own = rows.get(name)
    const urls = status.endpoints.map(({ url }) => url)
    const queue = this.#queue(name)
    const judged = this.#healthOf(destination, queue, minutes, now)
    return {
      ...status,
      ...judged,
      span,
      chart: seriesOf(Array.from(own?.values() ?? []).flat(), span, now),
      charts: urls.map((url) => seriesOf(own?.get(url) ?? [], span, now)),
      histories: historiesOf([status], minutes, now),
      now,
    }
  }

  #status(destination: Destination, stats: readonly Stats[]): DestinationStatus {
    const { name } = destination
    const counts = stats.find((one) => one.destination === name)
    return statusOfDestination(destination, counts, this.#queue(name), this.parts)
  }

  #queue(name: string): DestinationQueue | undefined {
    return this.parts.queues().find((queue) => queue.destination.name === name)
  }

  async #pass(span: HistorySpan): Promise<Pass> {
    const kept = this.#passes.get(span)
    if (kept && performance.now() < (await kept).until) return kept
    // Another client may have started a pass meanwhile.
    const newer = this.#passes.get(span)
    if (newer && newer !== kept) return newer
    const pass = this.#makePass(span)
    this.#passes.set(span, pass)
    const drop = () => {
      if (this.#passes.get(span) === pass) this.#passes.delete(span)
    }
    // It holds much memory, and perhaps nobody looks again.
    pass.then(({ until }) => setTimeout(drop, until - performance.now()).unref(), drop)
    return pass
  }

  async #makePass(span: HistorySpan): Promise<Pass> {
    const [stats, minutes, rows] = await Promise.all([
      this.parts.store.stats(),
      this.#past.read('1h'),
      this.#past.read(span),
    ])
    const from = performance.now()
    const now = Math.round(this.parts.clock.wall())
    const sum = new SeriesSum(span, now)
    const totals = new Sums()
    const bins = new DurationBins()
    const lines: Line[] = []
    const needy: Line[] = []
    const past = { rows, minutes, now, sum, totals, bins }
    const queues = await queuesByName(this.parts)
    const counts = await indexInSlices(stats, ({ destination }) => destination)
    const { destinations } = this.parts.settings()
    await eachInSlices(destinations, (destination) => {
      const { name } = destination
      const line = this.#line(destination, queues.get(name), counts.get(name) ?? NO_MESSAGES, past)
      lines.push(line)
      if (needsAttention(line)) needy.push(line)
    })
    const former = await formerDestinations(stats, { destinations })
    const sources = await this.#sources(totals)
    const callsPerSecond = this.parts.totals.callsPerSecond()
    const byHealth = { sort: 'health', isDescending: false } as const
    const troubled = await sorted(needy, byHealth)
    const ms = performance.now() - from
    return {
      lines,
      stats,
      sources,
      chart: sum.series(),
      troubled,
      former,
      inOrder: keptOrders(lines),
      totals: totals.of({ destinations: lines.length, callsPerSecond }),
      until: performance.now() + Math.max(FRESH_MS, ms * KEPT_TIMES),
    }
  }

  /** Adds the sources to the sums. @returns those that are shown. */
  async #sources(sums: Sums): Promise<SourceStatus[]> {
    const { settings, totals } = this.parts
    const all: SourceStatus[] = []
    await eachInSlices(settings().sources, ({ name }) => {
      const source = { name, ...totals.source(name) }
      sums.addSource(source)
      all.push(source)
    })
    if (all.length <= MAX_SOURCES) return all
    const ordered = await sortInSlices(
      all,
      (a, b) => b.rejected - a.rejected || b.accepted - a.accepted,
    )
    const shown = new Set(ordered.slice(0, MAX_SOURCES))
    return all.filter((source) => shown.has(source))
  }

  #line(
    destination: Destination,
    queue: DestinationQueue | undefined,
    counts: MessageCounts,
    past: PastSums,
  ): Line {
    const { name, webhooks } = destination
    const { dead, oldestMs } = counts
    const { health, failedShare } = this.#healthOf(destination, queue, past.minutes, past.now)
    const { bins } = past
    bins.clear()
    const row = {
      name,
      health,
      failedShare,
      dead,
      delivered: 0,
      failed: 0,
      p99Ms: null as number | null,
      waiting: waitingIn(counts),
      url: withoutQuery(webhooks[0]?.url ?? ''),
      moreUrls: webhooks.length - 1,
    }
    const rows = past.rows.get(name) ?? NO_ROWS
    for (const ofEndpoint of rows.values()) {
      for (const one of ofEndpoint) {
        row.delivered += one.delivered
        row.failed += one.failed
        bins.addList(one.bins)
        past.sum.add(one)
      }
    }
    row.p99Ms = bins.quantile(0.99)
    const filters = this.parts.filterCounts.of(destination)
    const isBlocked = filters !== null && isBlocking(filters)
    const line = {
      destination,
      row,
      rank: HEALTHS.indexOf(health),
      oldestMs,
      isBlocked,
      rows,
      minutes: past.minutes.get(name) ?? NO_ROWS,
    }
    past.totals.add(line, bins)
    return line
  }

  #healthOf(
    { name, enabled, webhooks }: Destination,
    queue: DestinationQueue | undefined,
    minutes: PastRows,
    now: number,
  ): Pick<DestinationDetails, 'health' | 'failedShare' | 'healths' | 'failedShares'> {
    const all = { sent: 0, failed: 0 }
    const failedShares: (number | null)[] = []
    const healths = webhooks.map(({ url }) => {
      const recent = recentOf(minutes.get(name)?.get(withoutQuery(url)) ?? [], now)
      all.sent += recent.sent
      all.failed += recent.failed
      failedShares.push(shareOf(recent))
      const endpoint = queue?.endpoints.find((one) => one.endpoint.url === url)
      return healthOf(endpoint?.breaker.state, recent, this.parts.totals.streak(name, url))
    })
    const pause = this.parts.pauses.of(name)
    const health = !enabled ? 'disabled' : pause ? 'paused' : worstOf(healths)
    return { health, healths, failedShare: shareOf(all), failedShares }
  }
}

const shareOf = ({ sent, failed }: ReturnType<typeof recentOf>): number | null =>
  sent === 0 ? null : failed / sent

/** Adds the lines of a pass up, one by one. */
class Sums {
  readonly #byHealth = Object.fromEntries(HEALTHS.map((one) => [one, 0])) as Record<Health, number>
  readonly #durations = new DurationBins()
  readonly #sums = { delivered: 0, failed: 0, waiting: 0, dead: 0 }
  readonly #calls = { sources: 0, accepted: 0, rejected: 0 }
  #oldestMs = 0

  add({ row, oldestMs }: Line, bins: DurationBins): void {
    this.#byHealth[row.health]++
    this.#durations.merge(bins)
    this.#sums.delivered += row.delivered
    this.#sums.failed += row.failed
    this.#sums.waiting += row.waiting
    this.#sums.dead += row.dead
    this.#oldestMs = Math.max(this.#oldestMs, oldestMs)
  }

  addSource({ accepted, rejected }: SourceStatus): void {
    this.#calls.sources++
    this.#calls.accepted += accepted
    this.#calls.rejected += rejected
  }

  of(counts: Pick<OverviewTotals, 'destinations' | 'callsPerSecond'>): OverviewTotals {
    return {
      ...counts,
      byHealth: this.#byHealth,
      ...this.#sums,
      ...this.#calls,
      p50Ms: this.#durations.quantile(0.5),
      p99Ms: this.#durations.quantile(0.99),
      oldestMs: this.#oldestMs,
    }
  }
}

function needsAttention({ row: { health, dead }, oldestMs, isBlocked }: Line): boolean {
  const isTroubled = ['down', 'failing', 'unsteady', 'recovering', 'paused'].includes(health)
  return isTroubled || dead > 0 || oldestMs > LATE_MS || isBlocked
}

/** The lines whose name or URLs contain the text of the search, in upper or lower case, and that have the wanted state. */
async function matching(
  lines: readonly Line[],
  { q, health }: OverviewParameters,
): Promise<readonly Line[]> {
  if (q === '' && health === undefined) return lines
  const text = q.toLowerCase()
  const has = (one: string) => one.toLowerCase().includes(text)
  const found: Line[] = []
  await eachInSlices(lines, (line) => {
    const { name, webhooks } = line.destination
    if (health !== undefined && line.row.health !== health) return
    if (has(name) || webhooks.some(({ url }) => has(withoutQuery(url)))) found.push(line)
  })
  return found
}

const SORTS: Readonly<Record<OverviewParameters['sort'], (a: Line, b: Line) => number>> = {
  // The worst first, and of those that are equally bad the one with the most failures.
  health: (a, b) =>
    a.rank - b.rank ||
    b.row.failed - a.row.failed ||
    b.row.dead - a.row.dead ||
    b.row.delivered - a.row.delivered,
  name: () => 0,
  requests: ({ row: a }, { row: b }) => a.delivered + a.failed - b.delivered - b.failed,
  success: (a, b) => successOf(a) - successOf(b),
  p99: ({ row: a }, { row: b }) => (a.p99Ms ?? -1) - (b.p99Ms ?? -1),
  waiting: ({ row: a }, { row: b }) => a.waiting - b.waiting,
  dead: ({ row: a }, { row: b }) => a.dead - b.dead,
}

/** A destination without requests comes after all others. */
function successOf({ row: { delivered, failed } }: Line): number {
  return delivered + failed === 0 ? 2 : delivered / (delivered + failed)
}

/** The lines in each order that is asked for. Sorting thousands takes some ms, so each order is made once. */
function keptOrders(lines: readonly Line[]): Pass['inOrder'] {
  const orders = new Map<string, Promise<Line[]>>()
  return (order) => {
    const key = `${order.sort} ${order.isDescending}`
    let inOrder = orders.get(key)
    if (!inOrder) orders.set(key, (inOrder = sorted(lines, order)))
    return inOrder
  }
}

function sorted(lines: readonly Line[], { sort, isDescending }: Order): Promise<Line[]> {
  const by = SORTS[sort]
  const sign = isDescending ? -1 : 1
  const byName = (a: Line, b: Line) => (a.row.name < b.row.name ? -1 : 1)
  const bySign = sort === 'name' ? sign : 1
  return sortInSlices(lines, (a, b) => sign * by(a, b) || bySign * byName(a, b))
}

function rowOf({ row, rows }: Line, span: HistorySpan, now: number): OverviewRow {
  return { ...row, spark: sparkOf(Array.from(rows.values()).flat(), span, now) }
}

/** The last hour of endpoints, minute by minute, as the sentences about them need it. */
function historiesOf(
  destinations: readonly DestinationStatus[],
  minutes: PastRows,
  now: number,
): EndpointHistories {
  const endpoints = destinations.flatMap(({ name, endpoints }) =>
    endpoints.map(({ url }) => ({
      destination: name,
      url,
      buckets: bucketsOf(minutes.get(name)?.get(url) ?? [], now),
    })),
  )
  return { bucketMs: HISTORIES['1h'].bucketMs, endpoints }
}

/** From the first minute of which something is known to the current one, without gaps. */
function bucketsOf(rows: readonly HistoryRow[], now: number): Bucket[] {
  const { delivered, failed, busy, p50Ms, p99Ms, breaker, firstAt, bucketMs } = seriesOf(
    rows,
    '1h',
    now,
  )
  const first = Math.max(0, Math.floor(((rows[0]?.at ?? now) - firstAt) / bucketMs))
  return delivered
    .map((count, i) => ({
      at: firstAt + i * bucketMs,
      delivered: count,
      failed: failed[i] ?? 0,
      busy: busy[i] ?? 0,
      p50Ms: p50Ms[i] ?? null,
      p99Ms: p99Ms[i] ?? null,
      breaker: breaker[i] ?? 'closed',
    }))
    .slice(first)
}
