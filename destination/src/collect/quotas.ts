import { randomInt } from 'node:crypto'
import type { Waiting } from '../enqueue/waiting.js'
import { Refusal } from '../http/refusal.js'
import type { Settings } from '../settings/settings.js'
import { MAX_BATCH_CALLS } from './limits.js'
import { Bucket, Buckets, type Owner } from './rate-limit.js'

/** A quota of a tenant that refuses calls. */
export type RefusingQuota = 'callsPerSecond' | 'waiting'

/** The settings that say how much sources may send. */
export type QuotaSettings = Pick<Settings, 'sources' | 'tenants'>

/** What the quotas need. */
export interface QuotasParts {
  /** The messages that wait for the destinations of each tenant. */
  waiting: Pick<Waiting, 'overLimit'>
  /** A request was refused because of a quota of its tenant. */
  refused: (tenant: string, quota: RefusingQuota) => void
  /** A monotonic clock, in ms. */
  now: () => number
}

/**
 * How many batches of a tenant, or of a source without one, are read in a second, and at once, although not even one call may pass. A
 * batch with the largest body takes about 15 ms to read, so a flood beyond a limit takes 3 % of the time.
 */
const READ_ANYWAY = { callsPerSecond: 2, burst: 10 }

/** What the sources may send to this process now, by their own limits and by the quotas of their tenants. */
export class Quotas {
  readonly #parts: QuotasParts
  readonly #buckets: Buckets
  /** The buckets of {@link READ_ANYWAY}, by their owner. Each batch takes one token. */
  readonly #readAnyway = new Map<string, Bucket>()
  #tenants: ReadonlyMap<string, string>

  constructor(settings: QuotaSettings, parts: QuotasParts) {
    this.#parts = parts
    this.#buckets = new Buckets(parts.now)
    this.#buckets.use(settings)
    this.#tenants = tenantsOf(settings)
  }

  /** Replaces the settings. */
  use(settings: QuotaSettings): void {
    this.#buckets.use(settings)
    this.#tenants = tenantsOf(settings)
    for (const [owner, bucket] of this.#readAnyway) {
      if (bucket.isFull) this.#readAnyway.delete(owner)
    }
  }

  /**
   * Decides whether a batch is read, so that a flood beyond a limit costs little. A few are read although not even one call may
   * pass: only the number of their calls says how long they have to wait, and how many calls were refused.
   *
   * @throws {@link Refusal} if the batch is not read. It says how long a batch with the most calls has to wait, because this one may
   * have as many.
   */
  checkUnreadBatch(source: string): void {
    if (this.#mayPass(source) || this.#mayReadAnyway(source)) return
    this.check(source, MAX_BATCH_CALLS)
  }

  /** @throws {@link Refusal} if the source may not send this number of calls now. */
  check(source: string, calls: number): void {
    const tenant = this.#tenants.get(source)
    const over = tenant === undefined ? undefined : this.#parts.waiting.overLimit(tenant)
    if (tenant !== undefined && over) {
      this.#parts.refused(tenant, 'waiting')
      throw tenantFull(tenant, over)
    }
    let waitMs = 0
    let longest: Bucket | undefined
    for (const bucket of this.#buckets.of(source)) {
      const bucketMs = bucket.waitMs(calls)
      if (bucketMs <= waitMs) continue
      waitMs = bucketMs
      longest = bucket
    }
    if (!longest) return
    const { kind, name } = longest.owner
    if (kind === 'tenant') this.#parts.refused(name, 'callsPerSecond')
    throw rateLimited(longest, waitMs)
  }

  /** Counts calls that have passed {@link check}. */
  take(source: string, calls: number): void {
    for (const bucket of this.#buckets.of(source)) bucket.take(calls)
  }

  /** Gives back what {@link take} has counted for calls that were not accepted, because their client sends them again. */
  giveBack(source: string, calls: number): void {
    this.take(source, -calls)
  }

  /** Whether a source may send at least one call now. */
  #mayPass(source: string): boolean {
    const tenant = this.#tenants.get(source)
    if (tenant !== undefined && this.#parts.waiting.overLimit(tenant)) return false
    return this.#buckets.of(source).every((bucket) => bucket.waitMs(1) === 0)
  }

  #mayReadAnyway(source: string): boolean {
    const tenant = this.#tenants.get(source)
    const owner: Owner =
      tenant === undefined ? { kind: 'source', name: source } : { kind: 'tenant', name: tenant }
    const key = `${owner.kind} ${owner.name}`
    const bucket = this.#readAnyway.get(key) ?? new Bucket(owner, READ_ANYWAY, this.#parts.now)
    this.#readAnyway.set(key, bucket)
    if (bucket.waitMs(1) > 0) return false
    bucket.take(1)
    return true
  }
}

function tenantsOf({ sources }: QuotaSettings): ReadonlyMap<string, string> {
  return new Map(
    sources.flatMap(({ name, tenant }) => (tenant === undefined ? [] : [[name, tenant]])),
  )
}

function rateLimited({ owner: { kind, name }, limit }: Bucket, waitMs: number): Refusal {
  const seconds = String(Math.ceil(waitMs / 1_000))
  const whose =
    kind === 'source' ? `The source ${name}` : `All sources of the tenant ${name} together`
  return new Refusal(
    429,
    'rate_limited',
    `${whose} may send ${limit.callsPerSecond} calls per second, and ${limit.burst} at once. ` +
      `No call was accepted. Send the request again in ${seconds} s.`,
    { 'Retry-After': seconds },
  )
}

function tenantFull(tenant: string, { count, limit }: { count: number; limit: number }): Refusal {
  return new Refusal(
    429,
    'tenant_full',
    `${count.toLocaleString('en')} messages wait for the destinations of the tenant ${tenant}, whose quota is ${limit.toLocaleString('en')}. ` +
      'No call was accepted. Send the request again later.',
    // A random delay, so that clients that were refused together do not all retry at the same moment.
    { 'Retry-After': String(randomInt(2, 11)) },
  )
}
