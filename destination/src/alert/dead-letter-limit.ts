import type { Alerts, DeadLetterLimit, Settings } from '../settings/settings.js'
import { formatDuration } from '../settings/duration.js'
import type { Servers } from '../store/servers.js'
import type { ClockPort, ReadPort } from '../store/store.js'
import type { Alert } from './alert.js'
import { ASK_AGAIN_MS, DeadLetters } from './dead-letters.js'
import { DEAD_LETTERS, type Excess, type Records } from './records.js'

/** How many destinations are asked about at once, so that other calls of the store do not wait. */
const SLICE = 100

/** What the watch of the limit needs. */
export interface DeadLetterLimitParts {
  store: Pick<ReadPort, 'stats' | 'deadCounts'> & ClockPort & { servers?: Pick<Servers, 'list'> }
  records: Pick<Records, 'of' | 'write'>
  /** The current settings. */
  settings: () => Settings
  /** Gives an alert, and then notes that it was given. */
  tell: (alert: Alert, alerts: Alerts, note: () => Promise<boolean>) => Promise<void>
  /** A time of the store's clock, as people are shown it. */
  shown: (time: number) => string
  hasStopped: () => boolean
}

/** Tells the operator which destinations have more dead letters than the limit of the alerts. */
export class DeadLetterWatch {
  readonly #parts: DeadLetterLimitParts
  readonly #deadLetters = new Map<string, DeadLetters>()
  /** By which the dead letters are counted. */
  #limit: DeadLetterLimit | undefined
  /** When the store may have dead letters above the limit of which nobody has told. At the start, they are of a former process. */
  #lookAt = 0

  constructor(parts: DeadLetterLimitParts) {
    this.#parts = parts
    this.#limit = parts.settings().alerts?.deadLetters
  }

  /** Messages of a destination are dead letters now. */
  died(destination: string, count: number): void {
    const { alerts } = this.#parts.settings()
    if (!alerts?.deadLetters || destination === alerts.destination) return
    this.#lettersOf(destination, alerts.deadLetters).add(this.#parts.store.clock.now(), count)
  }

  /** The settings have changed: the limit may be another. */
  keep(): void {
    const { deadLetters } = this.#parts.settings().alerts ?? {}
    const isOtherTime = deadLetters?.withinMs !== this.#limit?.withinMs
    if (isOtherTime) this.#deadLetters.clear()
    if (isOtherTime || deadLetters?.count !== this.#limit?.count) this.#lookAt = 0
    this.#limit = deadLetters
  }

  /** Forgets what was seen of all destinations but these. */
  forgetAllBut(names: ReadonlySet<string>): void {
    for (const name of this.#deadLetters.keys()) {
      if (!names.has(name)) this.#deadLetters.delete(name)
    }
  }

  #lettersOf(destination: string, { withinMs }: DeadLetterLimit): DeadLetters {
    const letters = this.#deadLetters.get(destination) ?? new DeadLetters(withinMs)
    this.#deadLetters.set(destination, letters)
    return letters
  }

  /** Judges every destination that may have too many. */
  async judge(alerts: Alerts): Promise<void> {
    const { deadLetters } = alerts
    // What was not over when the store was asked is not over when it is judged.
    const now = this.#parts.store.clock.now()
    if (deadLetters && now >= this.#lookAt) await this.#look(alerts, deadLetters, now)
    const names = new Set([
      ...this.#deadLetters.keys(),
      ...this.#parts.records.of(DEAD_LETTERS).keys(),
    ])
    const { counts, isComplete } = deadLetters
      ? await this.#ask([...names], deadLetters, now)
      : { counts: undefined, isComplete: true }
    for (const name of names) {
      if (this.#parts.hasStopped()) return
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
      const { body } = this.#parts.records.of(DEAD_LETTERS).get(name) ?? {}
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
    const saved = this.#parts.records.of(DEAD_LETTERS).get(name)
    const letters = this.#deadLetters.get(name)
    const count = Math.max(letters?.count(now) ?? 0, stored ?? 0)
    if (letters?.isOver(now)) this.#deadLetters.delete(name)
    const withinMs = deadLetters?.withinMs ?? 0
    const isAbove = deadLetters !== undefined && count >= deadLetters.count
    const write = (body: Excess | undefined) =>
      this.#parts.records.write(DEAD_LETTERS, name, saved, body)
    if (!saved) {
      if (isAbove) await write({ since: now, until: now + withinMs, isTold: false })
      return
    }
    const { since, until, isTold } = saved.body
    const about = { destination: name, key: [since] }
    if (!isTold) {
      const properties = { limit: deadLetters?.count ?? null, within: formatDuration(withinMs) }
      const alert: Alert = { name: 'Dead Letters Above Limit', ...about, properties }
      await this.#parts.tell(alert, alerts, () => write({ since, until, isTold: true }))
    } else if (isAbove && until < now + withinMs / 2) {
      // It is prolonged now and then, so that no other process ends it while this one counts too many.
      await write({ since, until: now + withinMs, isTold })
    } else if (until <= now && !isComplete) {
      await write({ since, until: now + ASK_AGAIN_MS, isTold })
    } else if (until <= now && stored !== undefined) {
      const properties = { since: this.#parts.shown(since) }
      const alert: Alert = { name: 'Dead Letters Below Limit', ...about, properties }
      await this.#parts.tell(alert, alerts, () => write(undefined))
    }
  }
}
