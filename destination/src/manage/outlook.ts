import { isDeepStrictEqual } from 'node:util'
import { isFields, type Fields } from '../model/fields.js'
import { createAddressRule, type AddressRule } from '../model/address.js'
import type { Problem } from '../settings/problem.js'
import { refusedEndpointsOf } from '../settings/reach.js'
import { checkSourcesOf, checkTenantOf, type BrokenRelation } from '../settings/relations.js'
import type { Destination } from '../settings/settings.js'
import { CHECKS, type ByKind, type Entry, type Managed, type Setting } from './managed.js'
import type { Kind } from '../model/setting.js'
import type { Completed } from './secrets.js'
import { restoreHidden, toRaw } from './shown.js'

/** What becomes of one source, destination or tenant by a change. */
export interface Wish {
  kind: Kind
  name: string
  /** Where the new settings are among those that were given; empty if they are all that was given. */
  path: string
  /** What the store has under this name. */
  before: Entry | undefined
  /** The new settings, which are not checked yet; `undefined` deletes it. */
  after: { raw: unknown; generated: Completed['generated'] } | undefined
}

/** A wish that can be fulfilled. */
export interface Planned extends Pick<Wish, 'kind' | 'name' | 'before'> {
  /** `undefined` deletes it. */
  after: { raw: Fields; value: Setting; generated: Completed['generated'] } | undefined
  /** Whether it changes nothing. */
  isSame: boolean
}

/** What there will be under a name. Of a wish only the tenant is known, because it is not checked yet. */
interface Owned {
  tenant?: string | undefined
}

/** What belongs to a tenant. */
export type OfTenant = Record<'sources' | 'destinations', string[]>

/**
 * The sources, destinations and tenants that there will be after some wishes. All of them are decided together, so that each may
 * rely on the others: a destination takes a source that is created with it, and two sources exchange their write keys.
 */
export class Outlook {
  readonly #managed: Managed
  readonly #isAllowed: AddressRule
  /** What becomes of everything with a wish; `undefined` if it is deleted. */
  readonly #next: Record<Kind, Map<string, Owned | undefined>> = {
    source: new Map(),
    destination: new Map(),
    tenant: new Map(),
  }
  /** The source that will have a write key, of those with a wish. */
  readonly #writeKeys = new Map<string, string>()
  /** The names of a kind, once a message has needed them. */
  readonly #namesByKind = new Map<Kind, readonly string[]>()
  #takers: ReadonlyMap<string, Destination> | undefined

  constructor(managed: Managed, wishes: readonly Wish[]) {
    this.#managed = managed
    this.#isAllowed = createAddressRule(managed.file.allowNetworks)
    for (const { kind, name, after } of wishes) {
      this.#next[kind].set(name, after && { tenant: tenantIn(after.raw) })
      for (const key of kind === 'source' && after ? writeKeysIn(after.raw) : []) {
        if (typeof key === 'string' && !this.#writeKeys.has(key)) this.#writeKeys.set(key, name)
      }
    }
  }

  /** The sources that will not exist although destinations without a wish take their calls, with these destinations. */
  stillTaken(): Map<string, string[]> {
    const taken = new Map<string, string[]>()
    if (!this.#isAnyDeleted('source')) return taken
    for (const { name, sources } of this.#withoutWish('destination')) {
      for (const source of sources.filter((one) => this.#isDeleted('source', one))) {
        taken.set(source, [...(taken.get(source) ?? []), name])
      }
    }
    return taken
  }

  /** The tenants that will not exist although something without a wish belongs to them. */
  stillOwning(): Map<string, OfTenant> {
    const owning = new Map<string, OfTenant>()
    if (!this.#isAnyDeleted('tenant')) return owning
    for (const kind of ['source', 'destination'] as const) {
      for (const { name, tenant } of this.#withoutWish(kind)) {
        if (tenant === undefined || !this.#isDeleted('tenant', tenant)) continue
        const owned = owning.get(tenant) ?? { sources: [], destinations: [] }
        owned[`${kind}s`].push(name)
        owning.set(tenant, owned)
      }
    }
    return owning
  }

  #isAnyDeleted(kind: Kind): boolean {
    return Array.from(this.#next[kind].values()).includes(undefined)
  }

  #isDeleted(kind: Kind, name: string): boolean {
    const next = this.#next[kind]
    return next.has(name) && next.get(name) === undefined
  }

  *#withoutWish<K extends 'source' | 'destination'>(kind: K): Generator<ByKind[K]> {
    const all = this.#managed.settings()[`${kind}s`] as ByKind[K][]
    for (const one of all) if (!this.#next[kind].has(one.name)) yield one
  }

  /** What there will be under a name. */
  #get(kind: Kind, name: string): Owned | undefined {
    const next = this.#next[kind]
    if (next.has(name)) return next.get(name)
    const present = this.#managed.get(kind, name)
    return present && { tenant: tenantIn(present) }
  }

  /** The names of all that there will be of a kind. */
  #names(kind: Kind): readonly string[] {
    const known = this.#namesByKind.get(kind)
    if (known) return known
    const present = this.#managed.settings()[`${kind}s`].map(({ name }) => name)
    const all = new Set([...present, ...this.#next[kind].keys()])
    const names = Array.from(all).filter((name) => !this.#isDeleted(kind, name))
    this.#namesByKind.set(kind, names)
    return names
  }

  /**
   * Checks the settings of one wish by themselves, and how they fit to all others.
   *
   * @returns every problem, with its path.
   */
  check(wish: Wish): Planned | { problems: readonly Problem[] } {
    const checked = this.#check(wish)
    if (!('problems' in checked) || wish.path === '') return checked
    const problems = checked.problems.map(({ path, message }) => {
      const isStep = path === '' || path.startsWith('[')
      return { path: wish.path + (isStep ? path : `.${path}`), message }
    })
    return { problems }
  }

  #check({ kind, name, before, after }: Wish): Planned | { problems: readonly Problem[] } {
    if (!after) return { kind, name, before, after, isSame: false }
    // Nothing is known about settings without a name, and the schema refuses them.
    if (!isFields(after.raw) || name === '') {
      return CHECKS[kind](after.raw) as { problems: Problem[] }
    }
    const { raw: restored, broken } = restoreHidden(after.raw, before?.raw)
    const { name: givenName = name } = restored
    if (givenName !== name) {
      broken.push({
        path: ['name'],
        message: `expected the name in the path (${JSON.stringify(name)}), or none, got {got}.`,
      })
    }
    const raw = { ...restored, name: givenName }
    broken.push(...this.#brokenRelations(kind, name, raw))
    const checked = CHECKS[kind](raw, broken)
    if ('problems' in checked) return checked
    const { value } = checked
    if ('webhooks' in value) {
      // What was there before may have become wrong by the settings file. Another change is allowed nevertheless.
      const former = new Set(
        before && 'webhooks' in before.value ? before.value.webhooks.map(({ url }) => url) : [],
      )
      const problems = refusedEndpointsOf(value, this.#isAllowed, former)
      if (problems.length > 0) return { problems }
    }
    const isSame =
      before !== undefined && isDeepStrictEqual(toRaw(kind, value), toRaw(kind, before.value))
    return { kind, name, before, after: { raw, value, generated: after.generated }, isSame }
  }

  /** How settings do not fit to others. */
  #brokenRelations(kind: Kind, name: string, raw: Fields): BrokenRelation[] {
    if (kind === 'tenant') return []
    // The names are only needed for a message, and there may be thousands of them.
    const lookUp = (of: Kind) => ({
      has: (one: string) => this.#get(of, one) !== undefined,
      get: (one: string) => this.#get(of, one)?.tenant,
      keys: () => this.#names(of)[Symbol.iterator](),
    })
    return [
      ...checkTenantOf([], raw, lookUp('tenant')),
      ...(kind === 'source'
        ? [...this.#takenKeys(name, raw), ...this.#takenByTenant(name, raw)]
        : [...checkSourcesOf([], raw, lookUp('source')), ...this.#wrongTenant(name, raw)]),
    ]
  }

  /** A tenant that can't have a destination of this name. */
  #wrongTenant(name: string, { tenant }: Fields): BrokenRelation[] {
    const { owners, file } = this.#managed
    const isPresent = this.#managed.get('destination', name) !== undefined
    const getsAlerts = tenant !== undefined && name === file.alerts?.destination
    const message = getsAlerts
      ? 'expected no tenant, got {got}, because this destination gets the alerts, which name the destinations of all tenants.'
      : owners.refusal(name, tenant, isPresent)
    return message === undefined ? [] : [{ path: ['tenant'], message }]
  }

  #takenKeys(name: string, raw: Fields): BrokenRelation[] {
    const keys = writeKeysIn(raw)
    return keys.flatMap((key, index) => {
      const owner = typeof key === 'string' ? this.#ownerOf(key) : undefined
      if (owner === undefined || owner === name) return []
      const path = keys.length > 1 ? ['writeKey', index] : ['writeKey']
      const message = `is the same write key as that of the source ${JSON.stringify(owner)}. Change or remove one of the two.`
      return [{ path, message }]
    })
  }

  #ownerOf(writeKey: string): string | undefined {
    const owner = this.#managed.ownerOf(writeKey)
    return owner === undefined || this.#next.source.has(owner)
      ? this.#writeKeys.get(writeKey)
      : owner
  }

  /** A source stays with the tenant whose destinations take its calls. */
  #takenByTenant(source: string, raw: Fields): BrokenRelation[] {
    const taker = this.#takersOfTenants().get(source)
    if (!taker || taker.tenant === raw['tenant']) return []
    const message = `expected ${JSON.stringify(taker.tenant)}, got {got}, because the destination ${JSON.stringify(taker.name)} of this tenant takes the calls of the source. Change the destination first.`
    return [{ path: ['tenant'], message }]
  }

  /** For each source a destination without a wish that belongs to a tenant. All that take a source belong to the same one. */
  #takersOfTenants(): ReadonlyMap<string, Destination> {
    if (this.#takers) return this.#takers
    const takers = new Map<string, Destination>()
    for (const destination of this.#withoutWish('destination')) {
      if (destination.tenant === undefined) continue
      for (const source of destination.sources) takers.set(source, destination)
    }
    return (this.#takers = takers)
  }
}

function writeKeysIn(raw: unknown): unknown[] {
  return isFields(raw) ? [raw['writeKey']].flat() : []
}

function tenantIn(raw: unknown): string | undefined {
  const tenant = isFields(raw) ? raw['tenant'] : undefined
  return typeof tenant === 'string' ? tenant : undefined
}
