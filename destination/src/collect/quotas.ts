import { randomInt } from 'node:crypto'
import type { Waiting } from '../enqueue/waiting.js'
import { Refusal } from '../http/refusal.js'
import type { Settings } from '../settings/settings.js'
import { Buckets, type Bucket } from './rate-limit.js'

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

/** What the sources may send to this process now, by their own limits and by the quotas of their tenants. */
export class Quotas {
  readonly #parts: QuotasParts
  readonly #buckets: Buckets
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
  }

  /** @throws {@link Refusal} if the source may not send this number of calls now. */
  check(source: string, calls: number): void {
    const tenant = this.#tenants.get(source)
    const over = tenant === undefined ? undefined : this.#parts.waiting.overLimit(tenant)
    if (tenant !== undefined && over) {
      this.#parts.refused(tenant, 'waiting')
      throw tenantFull(tenant, over)
    }
    for (const bucket of this.#buckets.of(source)) {
      const waitMs = bucket.waitMs(calls)
      if (waitMs === 0) continue
      const { kind, name } = bucket.owner
      if (kind === 'tenant') this.#parts.refused(name, 'callsPerSecond')
      throw rateLimited(bucket, waitMs)
    }
  }

  /** Counts calls that have passed {@link check}. */
  take(source: string, calls: number): void {
    for (const bucket of this.#buckets.of(source)) bucket.take(calls)
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
