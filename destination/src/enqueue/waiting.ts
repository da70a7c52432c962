import type { EndedMessage } from '../deliver/settler.js'
import { waitingIn, type Stats } from '../model/delivery.js'
import type { Settings } from '../settings/settings.js'

/** How often the store is asked how many messages wait, in ms. */
const ASK_MS = 1_000

/** The messages of one tenant. */
interface Count {
  limit: number
  /** How many there were in the store when it was asked last. */
  stored: number
  /** How many more there are by what this process has done since then. */
  since: number
}

/**
 * Counts the messages that wait for the destinations of each tenant with the quota `waiting`, or are being sent to them.
 *
 * The store is asked each second. Until the next answer, what this process accepts and what it delivers is added up. So the count
 * only lacks what others have done for a second: other processes of the store, replays, and deletions.
 */
export class Waiting {
  readonly #stats: () => Promise<readonly Stats[]>
  /** By the name of the tenant. */
  #counts = new Map<string, Count>()
  /** By the name of the destination. */
  #byDestination = new Map<string, Count>()
  /** What the store has answered last; `undefined` before, and while no tenant has the quota. */
  #answer: readonly Stats[] | undefined
  #timer: NodeJS.Timeout | undefined
  #isStopped = false

  /** @param stats - Asks the store. It may give an answer again that it has given before. */
  constructor(stats: () => Promise<readonly Stats[]>) {
    this.#stats = stats
  }

  /** Uses other settings. */
  use({ tenants = [], destinations }: Pick<Settings, 'tenants' | 'destinations'>): void {
    const before = this.#counts
    this.#counts = new Map(
      tenants.flatMap(({ name, quotas }) => {
        const limit = quotas?.waiting
        return limit === undefined
          ? []
          : [[name, Object.assign(before.get(name) ?? { stored: 0, since: 0 }, { limit })]]
      }),
    )
    this.#byDestination = new Map(
      (this.#counts.size > 0 ? destinations : []).flatMap(({ name, tenant }) => {
        const count = tenant === undefined ? undefined : this.#counts.get(tenant)
        return count ? [[name, count]] : []
      }),
    )
    // What was done since the answer still counts, and comes only with the next one.
    this.#useAnswer()
  }

  /** Messages for a destination are being stored; or a negative number of them are not stored, because that failed. */
  add(destination: string, messages: number): void {
    const count = this.#byDestination.get(destination)
    if (count) count.since += messages
  }

  /** The store has what has become of messages. */
  messagesEnded(messages: readonly EndedMessage[]): void {
    for (const { delivery } of messages) this.add(delivery.destination, -1)
  }

  /** How many messages of a tenant wait, if it may have no more; else `undefined`. */
  overLimit(tenant: string): { count: number; limit: number } | undefined {
    const found = this.#counts.get(tenant)
    if (!found) return undefined
    const count = found.stored + found.since
    return count >= found.limit ? { count, limit: found.limit } : undefined
  }

  /** Asks the store how many messages wait, if a tenant has the quota. After an error, the former answer stays in use. */
  async ask(): Promise<void> {
    if (this.#counts.size === 0) {
      this.#answer = undefined
      return
    }
    const asked = Array.from(this.#counts.values(), (count) => ({ count, since: count.since }))
    const answer = await this.#stats().catch(() => this.#answer)
    if (answer === undefined || answer === this.#answer) return
    this.#answer = answer
    // What was done while the store answered may be in the answer or not. The next answer has it for certain.
    for (const { count, since } of asked) count.since -= since
    this.#useAnswer()
  }

  #useAnswer(): void {
    for (const count of this.#counts.values()) count.stored = 0
    for (const stats of this.#answer ?? []) {
      const count = this.#byDestination.get(stats.destination)
      if (count) count.stored += waitingIn(stats)
    }
  }

  /** Asks again a second after each answer. */
  start(): void {
    if (this.#isStopped) return
    this.#timer = setTimeout(
      () =>
        void this.ask().then(() => {
          this.start()
        }),
      ASK_MS,
    ).unref()
  }

  /** Asks no more. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
