import type { RateLimit, Source } from '../settings/settings.js'

/**
 * A token bucket: each call takes one token, and tokens are added at a constant rate. A request with more calls than the
 * bucket can hold passes when the bucket is full. The number of tokens is negative afterwards, so later requests wait
 * longer, and the rate is kept.
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

  /** How long this number of calls has to wait, in ms; 0 if they may pass now. */
  waitMs(calls: number): number {
    const { callsPerSecond, burst } = this.limit
    const now = this.now()
    const filled = this.#tokens + ((now - this.#filledAt) * callsPerSecond) / 1_000
    this.#tokens = Math.min(burst, filled)
    this.#filledAt = now
    return Math.max(0, ((Math.min(calls, burst) - this.#tokens) * 1_000) / callsPerSecond)
  }

  /** Takes the tokens of calls that pass. */
  take(calls: number): void {
    this.#tokens -= calls
  }
}

/** The buckets of the sources that have a limit, by the name of the source. */
export type Buckets = ReadonlyMap<string, Bucket>

/** Makes the buckets for new settings. A bucket with an unchanged limit is kept, so that a reload does not refill it. */
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
