import type { RateLimit, Settings } from '../settings/settings.js'

/** A shorter wait, in ms, is none. It comes from the rounding of numbers, and would refuse a client again that has waited as it was told. */
const MIN_WAIT_MS = 0.001

/** Who a limit is for. */
export interface Owner {
  kind: 'source' | 'tenant'
  name: string
}

/**
 * A token bucket: each call takes one token, and tokens are added at a constant rate. A request with more calls than the
 * bucket can hold passes when the bucket is full. The number of tokens is negative afterwards, so later requests wait
 * longer, and the rate is kept.
 */
export class Bucket {
  #tokens: number
  #filledAt: number

  /**
   * @param now - A monotonic clock, in ms.
   * @param former - The bucket of the same owner before the limit changed. The new one has no more tokens than it. If their number
   * is negative, it takes as long as before until it is not.
   */
  constructor(
    readonly owner: Owner,
    readonly limit: RateLimit,
    readonly now: () => number,
    former?: Bucket,
  ) {
    const tokens = former?.tokens() ?? limit.burst
    const owesTokens = former !== undefined && tokens < 0
    this.#tokens = owesTokens
      ? (tokens / former.limit.callsPerSecond) * limit.callsPerSecond
      : Math.min(limit.burst, tokens)
    this.#filledAt = now()
  }

  /** How many calls may pass now. It is negative after a request with more calls than the bucket can hold. */
  tokens(): number {
    this.#fill()
    return this.#tokens
  }

  get isFull(): boolean {
    return this.tokens() >= this.limit.burst
  }

  /** How long this number of calls has to wait, in ms; 0 if they may pass now. */
  waitMs(calls: number): number {
    const { callsPerSecond, burst } = this.limit
    this.#fill()
    const waitMs = ((Math.min(calls, burst) - this.#tokens) * 1_000) / callsPerSecond
    return waitMs < MIN_WAIT_MS ? 0 : waitMs
  }

  /** Takes the tokens of calls that pass. */
  take(calls: number): void {
    this.#tokens -= calls
  }

  #fill(): void {
    const { callsPerSecond, burst } = this.limit
    const now = this.now()
    const filled = this.#tokens + ((now - this.#filledAt) * callsPerSecond) / 1_000
    this.#tokens = Math.min(burst, filled)
    this.#filledAt = now
  }
}

/** The buckets of all who have a limit. */
export class Buckets {
  /** Those of owners that the settings do not have any more are kept until they are full, because such an owner may come back. */
  readonly #all = new Map<string, Bucket>()
  #ofSources: ReadonlyMap<string, readonly Bucket[]> = new Map()

  /** @param now - A monotonic clock, in ms. */
  constructor(readonly now: () => number) {}

  /** The buckets that the calls of a source take from: its own, and the one of its tenant. */
  of(source: string): readonly Bucket[] {
    return this.#ofSources.get(source) ?? NONE
  }

  /** Uses other settings. A bucket with an unchanged limit is kept, and a changed limit fills none. */
  use({ sources, tenants = [] }: Pick<Settings, 'sources' | 'tenants'>): void {
    const used = new Set<string>()
    const bucketsFor = (owner: Owner, limit: RateLimit | undefined): Bucket[] => {
      if (!limit) return []
      const key = `${owner.kind} ${owner.name}`
      const former = this.#all.get(key)
      const { callsPerSecond, burst } = former?.limit ?? {}
      const isSame = callsPerSecond === limit.callsPerSecond && burst === limit.burst
      const bucket = former && isSame ? former : new Bucket(owner, limit, this.now, former)
      this.#all.set(key, bucket)
      used.add(key)
      return [bucket]
    }
    const ofTenants = new Map(
      tenants.map(({ name, quotas: { callsPerSecond, burst } = {} }) => [
        name,
        bucketsFor(
          { kind: 'tenant', name },
          callsPerSecond === undefined
            ? undefined
            : { callsPerSecond, burst: burst ?? callsPerSecond },
        ),
      ]),
    )
    const ofSources = new Map<string, readonly Bucket[]>()
    for (const { name, tenant, rateLimit } of sources) {
      const own = bucketsFor({ kind: 'source', name }, rateLimit)
      const shared = (tenant === undefined ? undefined : ofTenants.get(tenant)) ?? []
      if (own.length + shared.length > 0) ofSources.set(name, [...own, ...shared])
    }
    this.#ofSources = ofSources
    for (const [key, bucket] of this.#all) {
      if (!used.has(key) && bucket.isFull) this.#all.delete(key)
    }
  }
}

const NONE: readonly Bucket[] = []
