import type { RateLimit, Settings } from '../settings/settings.js'

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
   * @param former - The bucket of the same owner before the limit changed. What was taken from it is missing here too.
   */
  constructor(
    readonly owner: Owner,
    readonly limit: RateLimit,
    readonly now: () => number,
    former?: Bucket,
  ) {
    this.#tokens = limit.burst - (former?.taken() ?? 0)
    this.#filledAt = now()
  }

  /** How many tokens are missing. */
  taken(): number {
    this.#fill()
    return this.limit.burst - this.#tokens
  }

  /** How long this number of calls has to wait, in ms; 0 if they may pass now. */
  waitMs(calls: number): number {
    const { callsPerSecond, burst } = this.limit
    this.#fill()
    return Math.max(0, ((Math.min(calls, burst) - this.#tokens) * 1_000) / callsPerSecond)
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

/** The buckets that the calls of each source take from, if it has any: its own, and the one of its tenant. */
export type Buckets = ReadonlyMap<string, readonly Bucket[]>

/** Makes the buckets for new settings. A bucket with an unchanged limit is kept, so that a reload does not refill it. */
export function bucketsOf(
  { sources, tenants = [] }: Pick<Settings, 'sources' | 'tenants'>,
  before: Buckets,
  now: () => number,
): Buckets {
  const known = new Map(
    Array.from(before.values(), (some) =>
      some.map((one) => [keyOf(one.owner), one] as const),
    ).flat(),
  )
  const bucketsFor = (owner: Owner, limit: RateLimit | undefined): Bucket[] => {
    if (!limit) return []
    const former = known.get(keyOf(owner))
    const { callsPerSecond, burst } = former?.limit ?? {}
    const isSame = callsPerSecond === limit.callsPerSecond && burst === limit.burst
    return [former && isSame ? former : new Bucket(owner, limit, now, former)]
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
  const buckets = new Map<string, readonly Bucket[]>()
  for (const { name, tenant, rateLimit } of sources) {
    const own = bucketsFor({ kind: 'source', name }, rateLimit)
    const shared = (tenant === undefined ? undefined : ofTenants.get(tenant)) ?? []
    if (own.length + shared.length > 0) buckets.set(name, [...own, ...shared])
  }
  return buckets
}

function keyOf({ kind, name }: Owner): string {
  return `${kind} ${name}`
}
