import type { RateLimit, Source } from '../settings/settings.js'

/**
 * A bucket of tokens, one for each call, that fills up steadily. A request with more calls than the bucket holds passes
 * while it is full, and leaves a debt: what comes after it waits until that is paid, so that the rate is kept anyway.
 */
export class Bucket {
  #tokens: number
  #filledAt: number

  /** @param now - A monotonic clock, in ms. */
  constructor(
    readonly limit: RateLimit,
    readonly now: () => number,
  ) {
    this.#tokens = limit.burst
    this.#filledAt = now()
  }

  /** How long so many calls have to wait, in ms; 0 if they may pass. */
  waitMs(calls: number): number {
    const { callsPerSecond, burst } = this.limit
    const now = this.now()
    const filled = this.#tokens + ((now - this.#filledAt) * callsPerSecond) / 1_000
    this.#tokens = Math.min(burst, filled)
    this.#filledAt = now
    return Math.max(0, ((Math.min(calls, burst) - this.#tokens) * 1_000) / callsPerSecond)
  }

  /** So many calls pass. */
  take(calls: number): void {
    this.#tokens -= calls
  }
}

/** The buckets of the sources that have a limit, by name. */
export type Buckets = ReadonlyMap<string, Bucket>

/** The buckets for new settings. One whose limit is as before stays as full as it is. */
export function bucketsOf(sources: readonly Source[], before: Buckets, now: () => number): Buckets {
  const buckets = new Map<string, Bucket>()
  for (const { name, rateLimit } of sources) {
    if (!rateLimit) continue
    const known = before.get(name)
    const { callsPerSecond, burst } = known?.limit ?? {}
    const isSame = callsPerSecond === rateLimit.callsPerSecond && burst === rateLimit.burst
    buckets.set(name, known && isSame ? known : new Bucket(rateLimit, now))
  }
  return buckets
}
