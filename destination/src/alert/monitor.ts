import type { EndpointOutcome } from '../deliver/decide.js'
import type { Pauses } from '../deliver/pauses.js'
import type { EndedMessage } from '../deliver/settler.js'
import type { Enqueue } from '../enqueue/enqueue.js'
import { shownTime } from '../model/clock.js'
import { waitingIn, type Delivery } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { inSlices } from '../model/slices.js'
import { InOrder } from '../model/in-order.js'
import { recipientOf } from '../settings/alerts.js'
import type { Alerts, Destination, Settings } from '../settings/settings.js'
import { formatDuration } from '../settings/duration.js'
import type { FollowerEvents } from '../store/follower.js'
import type { Servers } from '../store/servers.js'
import type { ClockPort, ReadPort, RecordPort, SharedPort } from '../store/store.js'
import { alertMessage, type Alert } from './alert.js'
import { DeadLetterWatch } from './dead-letter-limit.js'
import { changeOf, DEAD_LETTERS, FAILING, Records, UNTOLD_PAUSE } from './records.js'
import {
  failingMsOf,
  judge,
  UNSEEN,
  withFailure,
  withSuccess,
  type Facts,
  type Seen,
  type Streak,
} from './streak.js'

/** How often everything that fails is judged, in ms. */
const TICK_MS = 1_000

/** What happens while the monitor works. */
export interface MonitorEvents {
  /** An alert was given. */
  alerted(alert: Alert): void
  /** Alerts could not be judged or given, and are tried again. Reported once for several failures in a row. */
  alertFailed(error: unknown): void
}

/** What the monitor needs. */
export interface MonitorParts {
  /** All times are on its clock: other processes compare those that are stored with theirs. */
  store: RecordPort &
    Pick<ReadPort, 'stats' | 'deadCounts'> &
    ClockPort &
    SharedPort<'onRecords'> & { servers?: Pick<Servers, 'list'> }
  enqueue: Enqueue
  pauses: Pick<Pauses, 'of' | 'pauseSince' | 'resumedAt' | 'versionOf' | 'catchUp'>
  /** The current settings. */
  settings: () => Settings
  events: MonitorEvents & FollowerEvents
}

/** An endpoint that was used since the start, or fails by what the store says. */
interface Watched {
  destination: string
  url: string
  seen: Seen
  /** The outcome of the latest failure. */
  last: EndpointOutcome['outcome'] | undefined
}

/**
 * Tells the operator that endpoints fail, and for how long, and pauses destinations that fail for too long. What fails is in
 * the store, so that a restart forgets nothing, and so that all workers of a store give each alert once.
 *
 * An alert is a message to a destination of the settings: it is signed, retried and logged like any other, and waits for
 * nobody. The failures of that destination itself are not told.
 */
export class Monitor {
  readonly #parts: MonitorParts
  readonly #records: Records
  readonly #limit: DeadLetterWatch
  /** By destination and URL. */
  readonly #watched = new Map<string, Watched>()
  /** The watched endpoints that may have to be judged. */
  readonly #open = new Set<string>()
  #timer: NodeJS.Timeout | undefined
  readonly #inOrder = new InOrder()
  /** Whether the settings may lack something that is known here. At the start, that is what the store has. */
  #hasToForget = true
  #hasFailed = false
  #isStopped = false

  private constructor(parts: MonitorParts) {
    this.#parts = parts
    this.#records = new Records(parts.store, {
      written: (key) => this.#open.add(key),
      deleted: (key) => {
        this.#ended(key)
      },
    })
    this.#limit = new DeadLetterWatch({
      store: parts.store,
      settings: parts.settings,
      records: this.#records,
      tell: (alert, alerts, note) => this.#tell(alert, alerts, note),
      shown: (time) => this.#shown(time),
      hasStopped: () => this.#isStopped,
    })
  }

  /**
   * Reads what fails.
   *
   * @throws StoreError
   */
  static async open(parts: MonitorParts): Promise<Monitor> {
    const monitor = new Monitor(parts)
    await monitor.#records.catchUp()
    return monitor
  }

  /** Begins to watch. */
  start(): void {
    this.#records.start(this.#parts.events)
    this.#timer = setInterval(() => {
      void this.tick()
    }, TICK_MS)
    this.#timer.unref()
  }

  /** All attempts of one claim have ended. */
  attempted(
    { destination }: Pick<Delivery, 'destination'>,
    outcomes: readonly EndpointOutcome[],
  ): void {
    const { alerts } = this.#parts.settings()
    if (!alerts || destination === alerts.destination) return
    const now = this.#now
    for (const { url, outcome } of outcomes) {
      if (outcome.code !== 'endpoint_down' && outcome.code !== 'endpoint_busy') {
        this.#see(destination, url, outcome, now)
      }
    }
  }

  /** The store has what has become of messages. */
  messagesEnded(messages: readonly EndedMessage[]): void {
    for (const { delivery, next } of messages) {
      if (next.state === 'dead') this.#limit.died(delivery.destination, 1)
    }
  }

  /** Messages have waited for longer than the retention, and are dead letters now. */
  expired(destination: string, count: number): void {
    // What waits may be for a destination that the settings do not have any more.
    const { destinations } = this.#parts.settings()
    if (destinations.some(({ name }) => name === destination)) this.#limit.died(destination, count)
  }

  /** Judges everything that may fail. A timer calls it too. */
  tick(): Promise<void> {
    return this.#inOrder.run(() => this.#work())
  }

  /** The settings have changed: what they do not watch any more is forgotten, and the limit of the dead letters may be another. */
  keep(): void {
    this.#limit.keep()
    this.#hasToForget = true
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    await this.#inOrder.ended()
    await this.#records.stop()
  }

  /** It may be stopped during any wait. */
  #hasStopped(): boolean {
    return this.#isStopped
  }

  #see(destination: string, url: string, outcome: EndpointOutcome['outcome'], now: number): void {
    const key = keyOf(destination, url)
    const watched = this.#watched.get(key) ?? { destination, url, seen: UNSEEN, last: undefined }
    this.#watched.set(key, watched)
    if (outcome.verdict === 'delivered') {
      if (watched.seen.failures > 0 || this.#records.of(FAILING).has(key)) this.#open.add(key)
      watched.seen = withSuccess(now)
    } else {
      watched.seen = withFailure(watched.seen, now)
      watched.last = outcome
      this.#open.add(key)
    }
  }

  async #work(): Promise<void> {
    if (this.#isStopped) return
    const { alerts } = this.#parts.settings()
    try {
      if (alerts) await this.#judgeAll(alerts)
      if (this.#hasStopped()) return
      await this.#forget()
      this.#hasFailed = false
    } catch (error) {
      this.#hasToForget = true
      if (!this.#hasFailed) this.#parts.events.alertFailed(error)
      this.#hasFailed = true
    }
  }

  async #judgeAll(alerts: Alerts): Promise<void> {
    for (const key of this.#open) {
      if (this.#hasStopped()) return
      await this.#judge(key, alerts)
    }
    await this.#tellPauses(alerts)
    await this.#limit.judge(alerts)
  }

  async #judge(key: string, alerts: Alerts): Promise<void> {
    const watched = this.#watched.get(key)
    const facts = this.#factsOf(key, alerts)
    if (!watched || !facts) {
      this.#open.delete(key)
      return
    }
    const save = (streak: Streak | undefined) =>
      this.#records.write(FAILING, key, this.#records.of(FAILING).get(key), streak)
    const action = judge(facts)
    switch (action.kind) {
      case 'wait':
        if (facts.seen.failures === 0) this.#open.delete(key)
        break
      case 'save':
        await save(action.streak)
        break
      case 'tell': {
        const alert = this.#failing(watched, action.streak.since, action.afterMs)
        await this.#tell(alert, alerts, () => save(action.streak))
        break
      }
      case 'end': {
        const { since = 0, told = 0 } = facts.saved?.streak ?? {}
        const alert = this.#recovered(watched, since, facts.seen.lastSuccessAt)
        if (told > 0) await this.#tell(alert, alerts, () => save(undefined))
        else await save(undefined)
        this.#open.delete(key)
        return
      }
    }
    await this.#pauseIfAllFail(watched.destination, failingMsOf(facts), alerts)
  }

  #failing({ destination, url, last }: Watched, since: number, afterMs: number): Alert {
    const properties = {
      endpoint: withoutQuery(url),
      since: this.#shown(since),
      failingFor: formatDuration(afterMs),
      code: last?.code ?? null,
      status: last?.status ?? null,
      error: last?.error ?? null,
    }
    const key = [keyOf(destination, url), since, afterMs]
    return { name: 'Endpoint Failing', destination, properties, key }
  }

  #recovered({ destination, url }: Watched, since: number, succeededAt: number): Alert {
    const properties = {
      endpoint: withoutQuery(url),
      since: this.#shown(since),
      failedForSeconds: Math.round((succeededAt - since) / 1_000),
    }
    const key = [keyOf(destination, url), since]
    return { name: 'Endpoint Recovered', destination, properties, key }
  }

  /** Pauses a destination if one of its endpoints has just failed for too long, and the others have not succeeded either. */
  async #pauseIfAllFail(name: string, failingMs: number, alerts: Alerts): Promise<void> {
    const { store, pauses, settings } = this.#parts
    const { pauseAfterMs } = alerts
    if (pauseAfterMs === undefined || failingMs < pauseAfterMs || pauses.of(name)) return
    const latest = this.#allFailSince(name)
    if (this.#now - latest < pauseAfterMs) return
    const version = pauses.versionOf(name)
    const since = this.#shown(latest)
    const reason = `No endpoint has accepted a message since ${since}. Resume it when this is repaired.`
    const stats = (await store.stats()).find((one) => one.destination === name)
    const waiting = stats ? waitingIn(stats) : 0
    const keptMs = settings().retentionMs - (stats?.oldestMs ?? 0)
    const keptUntil = waiting === 0 ? null : this.#shown(this.#now + keptMs)
    const properties = { reason, since, waiting, keptUntil }
    const key = [Math.round(latest)]
    const alert: Alert = { name: 'Destination Paused', destination: name, properties, key }
    // Another worker may have paused it a moment ago, and somebody may have resumed it already. An endpoint may have succeeded.
    await pauses.catchUp()
    if (pauses.versionOf(name) !== version || this.#allFailSince(name) !== latest) return
    const untold = changeOf(UNTOLD_PAUSE, name, undefined, { alert, at: store.clock.wall() })
    const actor = { by: 'alerts', from: null }
    try {
      await pauses.pauseSince(name, version, { reason, by: 'alerts' }, actor, untold)
    } finally {
      // If only the answer was lost, it is paused.
      await this.#records.catchUp()
    }
  }

  /** Since when all endpoints of a destination fail; `Infinity` if one of them does not. */
  #allFailSince(name: string): number {
    const { pauses, settings } = this.#parts
    const { webhooks = [] } = settings().destinations.find((one) => one.name === name) ?? {}
    const sinces = webhooks.map(({ url }) => {
      const key = keyOf(name, url)
      const since = this.#records.of(FAILING).get(key)?.body.since ?? Infinity
      // A success ends the streak only once this endpoint is judged, which may be after the one that fails.
      const { lastSuccessAt } = this.#watched.get(key)?.seen ?? UNSEEN
      return lastSuccessAt >= since ? Infinity : Math.max(since, pauses.resumedAt(name))
    })
    return sinces.length === 0 ? Infinity : Math.max(...sinces)
  }

  /**
   * Tells of the pauses that are in the store. A pause that could not be written is not told, and one whose process has died is told
   * by another process, or by the next one. It is also told if somebody has ended or changed the pause in the meantime.
   */
  async #tellPauses(alerts: Alerts): Promise<void> {
    for (const [name, saved] of [...this.#records.of(UNTOLD_PAUSE)]) {
      if (this.#hasStopped()) return
      const { alert, at } = saved.body
      await this.#tell(
        alert,
        alerts,
        () => this.#records.write(UNTOLD_PAUSE, name, saved, undefined),
        at,
      )
    }
  }

  /**
   * Gives an alert: puts its message, and then notes that it was given. If the process dies in between, the message is put
   * again, and the store refuses it as a duplicate.
   *
   * @param note - Returns whether this process noted it, and no other did before.
   * @param at - When it happened, as people are shown it.
   */
  async #tell(
    alert: Alert,
    alerts: Alerts,
    note: () => Promise<boolean>,
    at = this.#parts.store.clock.wall(),
  ): Promise<void> {
    const { enqueue, settings, events } = this.#parts
    const to = recipientOf({ ...settings(), alerts })
    if (to) await enqueue([alertMessage(alert, to.name, at)])
    if (await note()) events.alerted(alert)
  }

  /**
   * Forgets the endpoints and destinations that are not watched any more, here and in the store. If they are watched again one day,
   * nobody knows whether they have succeeded in between.
   */
  async #forget(): Promise<void> {
    if (!this.#hasToForget) return
    this.#hasToForget = false
    const { alerts, destinations } = this.#parts.settings()
    const watched = alerts ? destinations.filter(({ name }) => name !== alerts.destination) : []
    const endpoints = new Set(await inSlices(keysOf(watched)))
    const names = new Set(watched.map(({ name }) => name))
    for (const key of this.#watched.keys()) {
      if (endpoints.has(key)) continue
      this.#watched.delete(key)
      this.#open.delete(key)
    }
    this.#limit.forgetAllBut(names)
    for (const [key, saved] of [...this.#records.of(FAILING)]) {
      if (this.#hasStopped()) return
      if (!endpoints.has(key)) await this.#records.write(FAILING, key, saved, undefined)
    }
    for (const [name, saved] of [...this.#records.of(DEAD_LETTERS)]) {
      if (!names.has(name)) await this.#records.write(DEAD_LETTERS, name, saved, undefined)
    }
  }

  #factsOf(key: string, { afterMs }: Alerts): Facts | undefined {
    const watched = this.#watched.get(key)
    if (!watched) return undefined
    const saved = this.#records.of(FAILING).get(key)
    return {
      seen: watched.seen,
      saved: saved && { streak: saved.body, knownAt: saved.knownAt },
      after: afterMs,
      resumedAt: this.#parts.pauses.resumedAt(watched.destination),
      now: this.#now,
    }
  }

  /** Another process saw a success, or this one did. What this process saw before is over. */
  #ended(key: string): void {
    const watched = this.#watched.get(key)
    if (watched) watched.seen = { ...UNSEEN, lastSuccessAt: watched.seen.lastSuccessAt }
  }

  get #now(): number {
    return this.#parts.store.clock.now()
  }

  /** A time of the store's clock, as people are shown it. */
  #shown(time: number): string {
    return new Date(shownTime(this.#parts.store.clock, time)).toISOString()
  }
}

function* keysOf(destinations: readonly Destination[]): Generator<string> {
  for (const { name, webhooks } of destinations) {
    for (const { url } of webhooks) yield keyOf(name, url)
  }
}

function keyOf(destination: string, url: string): string {
  return `${destination} ${url}`
}
