import type { LookupAddress } from 'node:dns'
import type { Lookup } from './guard.js'
import { isAbsent, type Answer, type Ask } from './name-servers.js'

export interface CacheOptions {
  /** A time in ms that never goes back. */
  now(): number
  /** How long a lookup may take, in ms, before those who wait for it are told that it failed. */
  lateMs: number
  /** For how many names the answers are kept. */
  maxNames?: number
}

/** An answer is valid for at least this long, in ms, so that a burst of connections is one question. */
const MIN_TTL_MS = 1_000

/** An answer is valid for at most this long, in ms, so that a wrong record with a TTL of days can be corrected. */
const MAX_TTL_MS = 5 * 60_000

/** A failure counts for this long, in ms: the least that RFC 9520 requires, because most are over at the next retry. */
const FAILURE_MS = 1_000

/**
 * For how long after their TTL the last addresses are used if no name server has an answer, in ms (RFC 8767). Most outages
 * of name servers are shorter. It is not longer, because a cloud may give the address to another customer.
 */
const STALE_MS = 10 * 60_000

/** How long a name server may take if there are such addresses, in ms (RFC 8767 section 5). */
const LATE_IF_STALE_MS = 1_800

/** Enough for 10,000 endpoints with a host each. An entry takes about 1 KB. */
const MAX_NAMES = 10_000

/**
 * Keeps the answers of name servers for their TTL. There is at most one question under way for each name. If many names are
 * in use, the one that was not used for the longest time is dropped.
 */
export function createDnsCache(ask: Ask, options: CacheOptions): Lookup {
  const { maxNames = MAX_NAMES } = options
  const names = new Map<string, Name>()
  return (hostname, callback) => {
    const name = names.get(hostname) ?? new Name(hostname, ask, options)
    names.delete(hostname)
    names.set(hostname, name)
    const [oldest] = names.size > maxNames ? names.keys() : []
    if (oldest !== undefined) names.delete(oldest)
    name.lookUp(callback)
  }
}

type Callback = Parameters<Lookup>[1]

/**
 * What is known of one name.
 *
 *     unknown ─► asked ─► fresh ─► expired ─► asked …
 *                  └─► late: nobody waits for the answer any more
 */
class Name {
  #addresses: readonly LookupAddress[] = []
  /** Until then `#addresses` are used if there is no newer answer. */
  #usableUntil = -Infinity
  #error: Error | null = null
  /** Until then there is no new question. */
  #settledUntil = -Infinity
  #isAsked = false
  #isLate = false
  #waiting: Callback[] = []

  constructor(
    readonly hostname: string,
    readonly ask: Ask,
    readonly options: CacheOptions,
  ) {}

  /** It never calls back synchronously, as `dns.lookup`. */
  lookUp(callback: Callback): void {
    this.#waiting.push(callback)
    if (this.#isLate || this.options.now() < this.#settledUntil) queueMicrotask(this.#answerAll)
    else if (!this.#isAsked) void this.#ask()
  }

  async #ask(): Promise<void> {
    this.#isAsked = true
    const { lateMs } = this.options
    const isUsable = this.#usable().length > 0
    const ms = isUsable ? Math.min(LATE_IF_STALE_MS, lateMs) : lateMs
    const late = setTimeout(this.#giveUpSoon, ms).unref()
    try {
      this.#keep(await this.ask(this.hostname))
    } catch (error) {
      this.#fail(error as Error)
    }
    clearTimeout(late)
    this.#isAsked = this.#isLate = false
    this.#answerAll()
  }

  /** As in `Deadline`: if the event loop was blocked, an answer that has arrived in time is read first. */
  readonly #giveUpSoon = (): void => {
    setImmediate(() => {
      if (this.#isAsked) this.#giveUp()
    })
  }

  /** The question stays under way: its answer is kept when it comes, and there is no second question until then. */
  #giveUp(): void {
    this.#isLate = true
    this.#error = Object.assign(new Error(`no answer for ${this.hostname}`), { code: 'ETIMEOUT' })
    this.#answerAll()
  }

  #keep({ addresses, ttlMs }: Answer): void {
    this.#settledUntil = this.options.now() + Math.min(Math.max(ttlMs, MIN_TTL_MS), MAX_TTL_MS)
    this.#usableUntil = this.#settledUntil + STALE_MS
    this.#addresses = addresses
    this.#error = null
  }

  /** A name that is gone has no addresses any more. Any other failure says nothing about the addresses. */
  #fail(error: Error): void {
    this.#settledUntil = this.options.now() + FAILURE_MS
    this.#error = error
    if (isAbsent(error)) this.#addresses = []
  }

  #usable(): readonly LookupAddress[] {
    return this.options.now() < this.#usableUntil ? this.#addresses : []
  }

  readonly #answerAll = (): void => {
    for (const callback of this.#waiting.splice(0)) {
      const addresses = this.#usable()
      if (addresses.length > 0) this.#addresses = turned(addresses)
      callback(addresses.length > 0 ? null : this.#error, [...addresses])
    }
  }
}

/**
 * Puts the first address of each family last in its family. Name servers do so from answer to answer, to spread the
 * connections. A kept answer would send all of them to the same address.
 */
function turned(addresses: readonly LookupAddress[]): LookupAddress[] {
  const preferred = addresses.filter(({ family }) => family === addresses[0]?.family)
  const others = addresses.filter((one) => !preferred.includes(one))
  return [
    ...preferred.slice(1),
    ...preferred.slice(0, 1),
    ...others.slice(1),
    ...others.slice(0, 1),
  ]
}
