import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { EndpointOutcome } from '../deliver/decide.js'
import type { Pauses } from '../deliver/pauses.js'
import type { EndedMessage } from '../deliver/settler.js'
import type { Enqueue } from '../enqueue/enqueue.js'
import { shownTime } from '../model/clock.js'
import { waitingIn, type Delivery } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { inSlices } from '../model/slices.js'
import { Turns } from '../model/turns.js'
import { recipientOf } from '../settings/alerts.js'
import type { Alerts, DeadLetterLimit, Destination, Settings } from '../settings/settings.js'
import { formatDuration } from '../settings/duration.js'
import { Follower, type FollowerEvents } from '../store/follower.js'
import { isConflict } from '../store/store-error.js'
import type { Servers } from '../store/servers.js'
import type { ClockPort, ReadPort, RecordChange, RecordPort, StoredRecord } from '../store/store.js'
import { alertMessage, type Alert } from './alert.js'
import { ASK_AGAIN_MS, DeadLetters } from './dead-letters.js'
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

/** How many destinations are asked about at once, so that other calls of the store do not wait. */
const SLICE = 100

/** How often everything that fails is judged, in ms. */
const TICK_MS = 1_000

/** The kinds of the records. */
const FAILING = 'failing'
const DEAD_LETTERS = 'dead letters'
const UNTOLD_PAUSE = 'untold pause'

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
    ClockPort & { servers?: Pick<Servers, 'list'> }
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

/** What the records of this room have. */
type Body = Streak | Excess | UntoldPause

/** A record of this room, with its version. */
interface Saved<One extends Body> {
  body: One
  version: number
  /** When this process learnt of it. */
  knownAt: number
}

/** A destination has more dead letters than it should, at least until this time. */
interface Excess {
  since: number
  until: number
  isTold: boolean
}

/** A pause by an alert, of which nobody has told yet. */
interface UntoldPause {
  alert: Alert
  /** The time that people are shown. */
  at: number
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
  readonly #follower: Follower
  /** By destination and URL. */
  readonly #watched = new Map<string, Watched>()
  /** The watched endpoints that may have to be judged. */
  readonly #open = new Set<string>()
  readonly #deadLetters = new Map<string, DeadLetters>()
  /** By which the dead letters are counted. */
  #limit: DeadLetterLimit | undefined
  /** When the store may have dead letters above the limit of which nobody has told. At the start, they are of a former process. */
  #lookAt = 0
  #streaks = new Map<string, Saved<Streak>>()
  /** The keys of the streaks by the names of their records. */
  readonly #keys = new Map<string, string>()
  #excesses = new Map<string, Saved<Excess>>()
  /** By destination. */
  #untoldPauses = new Map<string, Saved<UntoldPause>>()
  #timer: NodeJS.Timeout | undefined
  readonly #turns = new Turns()
  /** Whether the settings may lack something that is known here. At the start, that is what the store has. */
  #hasToForget = true
  #hasFailed = false
  #isStopped = false

  private constructor(parts: MonitorParts) {
    this.#parts = parts
    this.#limit = parts.settings().alerts?.deadLetters
    this.#follower = new Follower(parts.store, (records, isComplete) => {
      this.#use(records, isComplete)
      return Promise.resolve()
    })
  }

  /**
   * Reads what fails.
   *
   * @throws StoreError
   */
  static async open(parts: MonitorParts): Promise<Monitor> {
    const monitor = new Monitor(parts)
    await monitor.#follower.catchUp()
    return monitor
  }

  /** Begins to watch. */
  start(): void {
    const { store, events } = this.#parts
    if (store.onRecords) this.#follower.start(events)
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
      if (next.state === 'dead') this.#died(delivery.destination, 1)
    }
  }

  /** Messages have waited for longer than the retention, and are dead letters now. */
  expired(destination: string, count: number): void {
    // What waits may be for a destination that the settings do not have any more.
    const { destinations } = this.#parts.settings()
    if (destinations.some(({ name }) => name === destination)) this.#died(destination, count)
  }

  /** Judges everything that may fail. A timer calls it too. */
  tick(): Promise<void> {
    return this.#turns.run(() => this.#work())
  }

  /** The settings have changed: what they do not watch any more is forgotten, and the limit of the dead letters may be another. */
  keep(): void {
    const { deadLetters } = this.#parts.settings().alerts ?? {}
    const isOtherTime = deadLetters?.withinMs !== this.#limit?.withinMs
    if (isOtherTime) this.#deadLetters.clear()
    if (isOtherTime || deadLetters?.count !== this.#limit?.count) this.#lookAt = 0
    this.#limit = deadLetters
    this.#hasToForget = true
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearInterval(this.#timer)
    await this.#turns.ended()
    await this.#follower.stop()
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
      if (watched.seen.failures > 0 || this.#streaks.has(key)) this.#open.add(key)
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
    await this.#judgeDeadLetters(alerts)
  }

  async #judge(key: string, alerts: Alerts): Promise<void> {
    const watched = this.#watched.get(key)
    const facts = this.#factsOf(key, alerts)
    if (!watched || !facts) {
      this.#open.delete(key)
      return
    }
    const action = judge(facts)
    const { destination, url, last } = watched
    const endpoint = withoutQuery(url)
    const since = facts.saved?.streak.since ?? 0
    switch (action.kind) {
      case 'wait':
        if (facts.seen.failures === 0) this.#open.delete(key)
        break
      case 'save':
        await this.#write(FAILING, key, this.#streaks.get(key), action.streak)
        break
      case 'tell': {
        const { streak, afterMs } = action
        const properties = {
          ...{ endpoint, since: this.#shown(streak.since), failingFor: formatDuration(afterMs) },
          ...{ code: last?.code ?? null, status: last?.status ?? null, error: last?.error ?? null },
        }
        const keys = [keyOf(destination, url), streak.since, afterMs]
        const alert: Alert = { name: 'Endpoint Failing', destination, properties, key: keys }
        await this.#tell(alert, alerts, () =>
          this.#write(FAILING, key, this.#streaks.get(key), streak),
        )
        break
      }
      case 'end': {
        const seconds = Math.round((facts.seen.lastSuccessAt - since) / 1_000)
        const properties = { endpoint, since: this.#shown(since), failedForSeconds: seconds }
        const keys = [keyOf(destination, url), since]
        const alert: Alert = { name: 'Endpoint Recovered', destination, properties, key: keys }
        const end = () => this.#write(FAILING, key, this.#streaks.get(key), undefined)
        if (facts.saved && facts.saved.streak.told > 0) await this.#tell(alert, alerts, end)
        else await end()
        this.#open.delete(key)
        return
      }
    }
    await this.#pauseIfAllFail(destination, failingMsOf(facts), alerts)
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
      await this.#follower.catchUp()
    }
  }

  /** Since when all endpoints of a destination fail; `Infinity` if one of them does not. */
  #allFailSince(name: string): number {
    const { pauses, settings } = this.#parts
    const { webhooks = [] } = settings().destinations.find((one) => one.name === name) ?? {}
    const sinces = webhooks.map(({ url }) => {
      const key = keyOf(name, url)
      const since = this.#streaks.get(key)?.body.since ?? Infinity
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
    for (const [name, saved] of [...this.#untoldPauses]) {
      if (this.#hasStopped()) return
      const { alert, at } = saved.body
      await this.#tell(alert, alerts, () => this.#write(UNTOLD_PAUSE, name, saved, undefined), at)
    }
  }

  #died(destination: string, count: number): void {
    const { alerts } = this.#parts.settings()
    if (!alerts?.deadLetters || destination === alerts.destination) return
    this.#lettersOf(destination, alerts.deadLetters).add(this.#now, count)
  }

  #lettersOf(destination: string, { withinMs }: DeadLetterLimit): DeadLetters {
    const letters = this.#deadLetters.get(destination) ?? new DeadLetters(withinMs)
    this.#deadLetters.set(destination, letters)
    return letters
  }

  async #judgeDeadLetters(alerts: Alerts): Promise<void> {
    const { deadLetters } = alerts
    // What was not over when the store was asked is not over when it is judged.
    const now = this.#now
    if (deadLetters && now >= this.#lookAt) await this.#look(alerts, deadLetters, now)
    const names = new Set([...this.#deadLetters.keys(), ...this.#excesses.keys()])
    const { counts, isComplete } = deadLetters
      ? await this.#ask([...names], deadLetters, now)
      : { counts: undefined, isComplete: true }
    for (const name of names) {
      if (this.#hasStopped()) return
      const stored = counts ? counts.get(name) : 0
      await this.#judgeCount(name, alerts, now, { stored, isComplete })
    }
  }

  /** Asks about the destinations that have so many dead letters, whenever they died. */
  async #look(alerts: Alerts, limit: DeadLetterLimit, now: number): Promise<void> {
    const { store, settings } = this.#parts
    const names = new Set(settings().destinations.map(({ name }) => name))
    for (const { destination, dead } of await store.stats()) {
      if (dead < limit.count || destination === alerts.destination) continue
      if (names.has(destination)) this.#lettersOf(destination, limit).look()
    }
    const isAnyAway = store.servers?.list().some(({ error }) => error !== undefined) === true
    this.#lookAt = isAnyAway ? now + ASK_AGAIN_MS : Infinity
  }

  /** Asks the store how many dead letters destinations have, of which that has to be known. */
  async #ask(
    names: readonly string[],
    { count: most, withinMs }: DeadLetterLimit,
    now: number,
  ): Promise<{ counts: Map<string, number>; isComplete: boolean }> {
    const asked = names.filter((name) => {
      const { body } = this.#excesses.get(name) ?? {}
      if (body) return body.isTold && body.until <= now
      return this.#deadLetters.get(name)?.isToAsk(now, most) === true
    })
    const found = new Map<string, number>()
    let isComplete = true
    for (let from = 0; from < asked.length; from += SLICE) {
      const slice = asked.slice(from, from + SLICE)
      const { counts, away } = await this.#parts.store.deadCounts(slice, withinMs, most)
      for (const [i, name] of slice.entries()) {
        const count = counts[i] ?? 0
        found.set(name, count)
        this.#deadLetters.get(name)?.answered(now, count, !away)
      }
      if (away) isComplete = false
    }
    return { counts: found, isComplete }
  }

  /** @param answer - How many the store has, if it was asked, and whether all of it was asked. */
  async #judgeCount(
    name: string,
    alerts: Alerts,
    now: number,
    { stored, isComplete }: { stored: number | undefined; isComplete: boolean },
  ): Promise<void> {
    const { deadLetters } = alerts
    const saved = this.#excesses.get(name)
    const letters = this.#deadLetters.get(name)
    const count = Math.max(letters?.count(now) ?? 0, stored ?? 0)
    if (letters?.isOver(now)) this.#deadLetters.delete(name)
    const withinMs = deadLetters?.withinMs ?? 0
    const isAbove = deadLetters !== undefined && count >= deadLetters.count
    const write = (body: Excess | undefined) => this.#write(DEAD_LETTERS, name, saved, body)
    if (!saved) {
      if (isAbove) await write({ since: now, until: now + withinMs, isTold: false })
      return
    }
    const { since, until, isTold } = saved.body
    const about = { destination: name, key: [since] }
    if (!isTold) {
      const properties = { limit: deadLetters?.count ?? null, within: formatDuration(withinMs) }
      const alert: Alert = { name: 'Dead Letters Above Limit', ...about, properties }
      await this.#tell(alert, alerts, () => write({ since, until, isTold: true }))
    } else if (isAbove && until < now + withinMs / 2) {
      // It is prolonged now and then, so that no other process ends it while this one counts too many.
      await write({ since, until: now + withinMs, isTold })
    } else if (until <= now && !isComplete) {
      await write({ since, until: now + ASK_AGAIN_MS, isTold })
    } else if (until <= now && stored !== undefined) {
      const properties = { since: this.#shown(since) }
      const alert: Alert = { name: 'Dead Letters Below Limit', ...about, properties }
      await this.#tell(alert, alerts, () => write(undefined))
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

  /** @returns `false` if another process changed the record before. */
  async #write(
    kind: string,
    key: string,
    saved: Saved<Body> | undefined,
    body: Body | undefined,
  ): Promise<boolean> {
    if (!saved && !body) return true
    try {
      await this.#parts.store.writeRecords([changeOf(kind, key, saved, body)])
    } catch (error) {
      await this.#follower.catchUp()
      if (isConflict(error)) return false
      // If only the answer was lost, the record is written, and nobody would give its alert any more.
      if (!isDeepStrictEqual(this.#recordsOf(kind).get(key)?.body, body)) throw error
      return true
    }
    await this.#follower.catchUp()
    return true
  }

  #recordsOf(kind: string): ReadonlyMap<string, Saved<Body>> {
    if (kind === FAILING) return this.#streaks
    return kind === DEAD_LETTERS ? this.#excesses : this.#untoldPauses
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
    for (const name of this.#deadLetters.keys()) {
      if (!names.has(name)) this.#deadLetters.delete(name)
    }
    for (const [key, saved] of [...this.#streaks]) {
      if (this.#hasStopped()) return
      if (!endpoints.has(key)) await this.#write(FAILING, key, saved, undefined)
    }
    for (const [name, saved] of [...this.#excesses]) {
      if (!names.has(name)) await this.#write(DEAD_LETTERS, name, saved, undefined)
    }
  }

  #factsOf(key: string, { afterMs }: Alerts): Facts | undefined {
    const watched = this.#watched.get(key)
    if (!watched) return undefined
    const saved = this.#streaks.get(key)
    return {
      seen: watched.seen,
      saved: saved && { streak: saved.body, knownAt: saved.knownAt },
      after: afterMs,
      resumedAt: this.#parts.pauses.resumedAt(watched.destination),
      now: this.#now,
    }
  }

  #use(records: readonly StoredRecord[], isComplete: boolean): void {
    if (isComplete) {
      this.#streaks = new Map()
      this.#keys.clear()
      this.#excesses = new Map()
      this.#untoldPauses = new Map()
    }
    const knownAt = this.#now
    for (const { kind, name, version, body } of records) {
      if (kind !== FAILING && kind !== DEAD_LETTERS && kind !== UNTOLD_PAUSE) continue
      if (body === undefined) {
        this.#end(kind, name)
        continue
      }
      const { key, ...rest } = JSON.parse(body) as { key: string } & Body
      if (kind === DEAD_LETTERS) this.#excesses.set(key, { body: rest as Excess, version, knownAt })
      else if (kind === UNTOLD_PAUSE) {
        this.#untoldPauses.set(key, { body: rest as UntoldPause, version, knownAt })
      } else {
        const before = this.#streaks.get(key)
        this.#keys.set(name, key)
        this.#streaks.set(key, {
          body: rest as Streak,
          version,
          knownAt: before?.knownAt ?? knownAt,
        })
        this.#open.add(key)
      }
    }
  }

  /** Another process saw a success, or this one did. What this process saw before is over. */
  #end(kind: string, name: string): void {
    if (kind === DEAD_LETTERS) this.#excesses.delete(name)
    if (kind === UNTOLD_PAUSE) this.#untoldPauses.delete(name)
    if (kind !== FAILING) return
    const key = this.#keys.get(name)
    if (key === undefined) return
    this.#keys.delete(name)
    this.#streaks.delete(key)
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

/** The name of a record. A URL may be longer than a name, and may contain a key in its query. */
function nameOf(kind: string, key: string): string {
  return kind === FAILING ? hash('sha256', key) : key
}

/** Writes a record, or deletes it. */
function changeOf(
  kind: string,
  key: string,
  saved: Saved<Body> | undefined,
  body: Body | undefined,
): RecordChange {
  return {
    ...{ kind, name: nameOf(kind, key), version: saved?.version ?? 0 },
    body: body && JSON.stringify({ key, ...body }),
  }
}
