import { isDeepStrictEqual } from 'node:util'
import { isFields, type Fields } from '../http/json-body.js'
import type {
  AuditEntry,
  AuditLog,
  ManagedSetting,
  ManagedSettings,
  SettingChanged,
  SettingDeleted,
} from '../model/answers.js'
import { withoutQuery } from '../model/shown-url.js'
import { refusedEndpointsOf } from '../settings/reach.js'
import { checkSourcesOf, checkTenantOf, type BrokenRelation } from '../settings/relations.js'
import type { Problem } from '../settings/problem.js'
import type { Follower } from '../store/follower.js'
import { StoreError } from '../store/store-error.js'
import type { MaintainPort, ReadPort, RecordChange, RecordPort } from '../store/store.js'
import {
  CHECKS,
  KINDS,
  type ByKind,
  type Entry,
  type Kind,
  type Managed,
  type Setting,
} from './managed.js'
import { mergePatch } from './merge-patch.js'
import {
  inFile,
  inUse,
  invalidSettings,
  messagesWait,
  noKey,
  noRotation,
  tenantInUse,
  underWay,
  unknown,
  wrongVersion,
} from './refusals.js'
import type { Sealer } from './seal.js'
import { generate, secretsIn, withSecrets, type Completed, type SecretField } from './secrets.js'
import { changesBetween, restoreHidden, shownSetting, toRaw, webhooksOf } from './shown.js'

/** What a manager needs. */
export interface ManagerParts {
  store: Pick<RecordPort, 'writeRecords' | 'recordLog'> &
    Pick<ReadPort, 'stats'> &
    Pick<MaintainPort, 'discard'>
  managed: Managed
  follower: Pick<Follower, 'catchUp' | 'revision'>
}

/** Who asks for a change. */
export interface Actor {
  /** Who the client says that it is. */
  by: string | null
  /** The address that the request came from. */
  from: string
}

/** Of which version a change may be made. */
export interface Condition {
  /** The versions of `If-Match`; `any` if there only has to be one. */
  match?: readonly number[] | 'any' | undefined
  /** `If-None-Match: *`: there must not be one yet, unless it has the same content. */
  isNew?: boolean | undefined
}

/** What is to be changed, by whom. */
export interface Order {
  kind: Kind
  name: string
  actor: Actor
  condition: Condition
}

/** What becomes of the messages that wait for a destination that is deleted. */
export type WaitingChoice = 'keep' | 'discard'

/** A page of a list. */
export interface Page {
  /** Only what has this text in its name or a URL; an empty text for all. */
  q: string
  after: string | undefined
  limit: number
}

type Verb = AuditEntry['action']

/** The part of an audit entry that is in its text. */
type Noted = Pick<AuditEntry, 'action' | 'by' | 'from' | 'changes'>

/**
 * How often a change is decided again, because another one came first. Writers wait for each other a few ms, so only many
 * of them at once reach this.
 */
const TRIES = 50

/** Messages that are deleted at once, so that other calls of the store do not wait. */
const DISCARD_SLICE = 500

/** Records that are encrypted again at once. */
const RESEAL_SLICE = 100

/** Reads and changes sources, destinations and tenants. A change is in use in this process when its call resolves. */
export class Manager {
  readonly #parts: ManagerParts
  #last: Promise<unknown> = Promise.resolve()

  constructor(parts: ManagerParts) {
    this.#parts = parts
  }

  list(kind: Kind, { q, after, limit }: Page): ManagedSettings {
    const text = q.toLowerCase()
    const names = this.#all(kind)
      .filter((value) => matches(value, text))
      .map(({ name }) => name)
    names.sort()
    const rest = after === undefined ? names : names.filter((name) => name > after)
    const page = rest.slice(0, limit)
    return {
      items: page.map((name) => this.get(kind, name)),
      total: names.length,
      next: rest.length > limit ? (page.at(-1) ?? null) : null,
    }
  }

  /** @throws Refusal if there is none. */
  get(kind: Kind, name: string): ManagedSetting {
    const { managed } = this.#parts
    const entry = managed.entry(kind, name)
    const value = entry?.value ?? managed.inFile(kind, name)
    if (!value) throw unknown(kind, name)
    return shownSetting(kind, value, entry?.version)
  }

  /**
   * Creates or replaces a source, destination or tenant. Secrets that are not given stay as they are, or are generated.
   *
   * @throws Refusal that names every mistake.
   */
  put(order: Order, given: Fields): Promise<SettingChanged> {
    return this.#change(order, 'update', (before) => withSecrets(order.kind, given, before?.raw))
  }

  /** Applies a JSON merge patch. @throws Refusal that names every mistake. */
  patch(order: Order, patch: Fields): Promise<SettingChanged> {
    return this.#changePresent(order, 'update', ({ raw }) => ({
      raw: mergePatch(raw, patch),
      generated: {},
    }))
  }

  /**
   * Replaces the URLs of the endpoints of a destination, in their order, and nothing else. An endpoint with headers stays at
   * its origin, so that the values of the headers never go to a server of whoever chooses the URL.
   *
   * @throws Refusal that names every mistake.
   */
  changeUrls(order: Order, urls: readonly string[]): Promise<SettingChanged> {
    return this.#changePresent(order, 'update', ({ raw }) => {
      const webhooks = webhooksOf(raw['webhooks'])
      const problems = wrongUrls(webhooks, urls)
      if (problems.length > 0) throw invalidSettings(order.kind, order.name, problems)
      const changed = webhooks.map((webhook, i) => ({ ...webhook, url: urls[i] }))
      return { raw: { ...raw, webhooks: changed }, generated: {} }
    })
  }

  /** Adds a second secret, so that both are valid. @throws Refusal if there are two already. */
  rotate(order: Order, field: SecretField): Promise<SettingChanged> {
    return this.#changePresent(order, 'rotate', ({ raw }) => {
      const present = secretsIn(raw, field)
      if (present.length > 1) throw underWay(field)
      const added = generate(field)
      const secrets = present.length > 0 ? [...present, added] : added
      return { raw: { ...raw, [field]: secrets }, generated: { [field]: added } }
    })
  }

  /** Ends a rotation: only the new secret, or only the old one, stays valid. @throws Refusal if there is only one. */
  revoke(order: Order, field: SecretField, keep: 'new' | 'old'): Promise<SettingChanged> {
    return this.#changePresent(order, 'revoke', ({ raw }) => {
      const [former, added] = secretsIn(raw, field)
      if (added === undefined) throw noRotation(field)
      return { raw: { ...raw, [field]: keep === 'new' ? added : former }, generated: {} }
    })
  }

  /**
   * Deletes a source, destination or tenant.
   *
   * @param choice - What becomes of the messages that wait for the destination; `undefined` if nothing was chosen.
   * @throws Refusal if messages wait and nothing was chosen, if a destination takes the calls of the source, or if the tenant
   * has sources or destinations.
   */
  async delete(order: Order, choice?: WaitingChoice): Promise<SettingDeleted> {
    const { kind, name } = order
    await this.#decided(order, async (_, revision) => {
      const { managed } = this.#parts
      const before = managed.entry(kind, name)
      checkMatch(order, before)
      const waiting = kind === 'destination' ? await this.#waiting(name) : 0
      if (!before) {
        // A deletion that was interrupted goes on with the messages.
        if (waiting > 0 && choice === 'discard') return
        throw unknown(kind, name)
      }
      const takers = kind === 'source' ? managed.takersOf(name) : []
      if (takers.length > 0) throw inUse(name, takers)
      if (kind === 'tenant') this.#checkUnused(name)
      if (waiting > 0 && choice === undefined) throw messagesWait(name, waiting)
      const { version } = before
      const entry = noteOf(order, 'delete', before.value, undefined)
      await this.#write([{ kind, name, version, body: undefined, entry }], revision)
    })
    if (kind !== 'destination') return { discarded: 0, waiting: 0 }
    const discarded = choice === 'discard' ? await this.#discard(name) : 0
    return { discarded, waiting: await this.#waiting(name) }
  }

  /**
   * What was changed by whom, the newest first.
   *
   * @param about - The source, destination or tenant; `undefined` for all.
   * @param before - The id of an entry to continue behind.
   */
  async audit(
    about: Pick<Order, 'kind' | 'name'> | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<AuditLog> {
    const log = await this.#parts.store.recordLog(about, before, limit)
    const entries = log.flatMap(({ kind: given, entry, ...rest }): AuditEntry[] => {
      const kind = KINDS.find((one) => one === given)
      return kind ? [{ ...rest, kind, ...(JSON.parse(entry) as Noted) }] : []
    })
    return { entries, next: log.length === limit ? (log.at(-1)?.id ?? null) : null }
  }

  /** Encrypts again what is not encrypted with the first key. @returns how many records. */
  async reseal(): Promise<number> {
    let all = 0
    for (;;) {
      const count = await this.#inTurn(() => this.#reseal())
      all += count
      if (count < RESEAL_SLICE) return all
    }
  }

  async #reseal(): Promise<number> {
    const { managed, follower } = this.#parts
    await follower.catchUp()
    const { sealer } = managed
    if (!sealer) return 0
    const changes = KINDS.flatMap((kind) =>
      Array.from(managed.entries(kind))
        .filter(([, { keyId }]) => keyId !== sealer.keyId)
        .slice(0, RESEAL_SLICE)
        .map(([name, { version, raw }]): RecordChange => {
          const body = sealer.seal({ kind, name }, JSON.stringify(raw))
          return { kind, name, version, body }
        }),
    ).slice(0, RESEAL_SLICE)
    if (changes.length > 0) await this.#write(changes)
    return changes.length
  }

  #changePresent(
    order: Order,
    verb: Verb,
    decide: (before: Entry) => Completed,
  ): Promise<SettingChanged> {
    return this.#change(order, verb, (before) => {
      if (!before) throw unknown(order.kind, order.name)
      return decide(before)
    })
  }

  /** Makes a change. `decide` gives the new settings, and may be called again if another change comes first. */
  #change(
    order: Order,
    verb: Verb,
    decide: (before: Entry | undefined) => Completed,
  ): Promise<SettingChanged> {
    const { kind, name, condition } = order
    return this.#decided(order, async (sealer, revision) => {
      const before = this.#parts.managed.entry(kind, name)
      checkMatch(order, before)
      const { raw: given, generated } = decide(before)
      const { raw, value } = this.#checked(order, given, before)
      if (before && isDeepStrictEqual(toRaw(kind, value), toRaw(kind, before.value))) {
        const item = shownSetting(kind, before.value, before.version)
        return { item, created: false, changed: false, generated: {} }
      }
      if (before && condition.isNew) throw wrongVersion(kind, name, before.version)
      const body = sealer.seal({ kind, name }, JSON.stringify(raw))
      const entry = noteOf(order, before ? verb : 'create', before?.value, value)
      const change = { kind, name, version: before?.version ?? 0, body, entry }
      const [version] = await this.#write([change], revision)
      const item = shownSetting(kind, value, version)
      return { item, created: !before, changed: true, generated }
    })
  }

  /**
   * Decides something by the newest state of the store, again and again until no other change comes first.
   *
   * @param decide - Gets what encrypts, and the revision that it decides by.
   */
  #decided<T>(
    { kind, name }: Order,
    decide: (sealer: Sealer, revision: number) => Promise<T>,
  ): Promise<T> {
    const { managed, follower } = this.#parts
    return this.#inTurn(async () => {
      for (let tries = 1; ; tries++) {
        await follower.catchUp()
        if (managed.inFile(kind, name)) throw inFile(kind, name)
        if (!managed.sealer) throw noKey()
        try {
          return await decide(managed.sealer, follower.revision)
        } catch (error) {
          const isConflict = error instanceof StoreError && error.code === 'conflict'
          if (!isConflict || tries >= TRIES) throw error
        }
      }
    })
  }

  /** Runs one change of this process after the other, so that they don't make each other decide again. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work)
    this.#last = result.catch(() => undefined)
    return result
  }

  async #write(changes: RecordChange[], revision?: number): Promise<number[]> {
    const { store, follower } = this.#parts
    const versions = await store.writeRecords(changes, revision)
    // The change is made. If it can't be read back now, the follower does that later.
    await follower.catchUp().catch(() => undefined)
    return versions
  }

  /**
   * Checks all values by themselves, and how they fit to the other settings.
   *
   * @throws Refusal that names every mistake.
   */
  #checked(
    { kind, name }: Order,
    given: Fields,
    before: Entry | undefined,
  ): { raw: Fields; value: Setting } {
    const { raw: restored, broken } = restoreHidden(given, before?.raw)
    const { name: givenName = name } = restored
    if (givenName !== name) {
      broken.push({
        path: ['name'],
        message: `expected the name in the path (${JSON.stringify(name)}), or none, got {got}.`,
      })
    }
    const raw = { ...restored, name: givenName }
    broken.push(...this.#brokenRelations(kind, raw))
    const checked = CHECKS[kind](raw, broken)
    if ('problems' in checked) throw invalidSettings(kind, name, checked.problems)
    const { value } = checked
    if ('webhooks' in value) {
      const { allowNetworks } = this.#parts.managed.file
      const refused = refusedEndpointsOf(value, allowNetworks)
      if (refused.length > 0) throw invalidSettings(kind, name, refused)
    }
    return { raw, value }
  }

  /** How a setting does not fit to those of other kinds, or to others of its kind. */
  #brokenRelations(kind: Kind, raw: Fields): BrokenRelation[] {
    if (kind === 'tenant') return []
    const tenants = new Set(this.#all('tenant').map(({ name }) => name))
    return [
      ...checkTenantOf([], raw, tenants),
      ...(kind === 'source'
        ? [...this.#takenKeys(raw), ...this.#takenByTenant(raw)]
        : checkSourcesOf(
            [],
            raw,
            new Map(this.#all('source').map(({ name, tenant }) => [name, tenant])),
          )),
    ]
  }

  /** A source stays with the tenant whose destinations take its calls. */
  #takenByTenant({ name, tenant }: Fields): BrokenRelation[] {
    const taker = this.#all('destination').find(
      (one) =>
        one.tenant !== undefined && one.tenant !== tenant && one.sources.includes(String(name)),
    )
    if (!taker) return []
    const message = `expected ${JSON.stringify(taker.tenant)}, got {got}, because the destination ${JSON.stringify(taker.name)} of this tenant takes the calls of the source. Change the destination first.`
    return [{ path: ['tenant'], message }]
  }

  #checkUnused(tenant: string): void {
    const namesOf = (kind: 'source' | 'destination') =>
      this.#all(kind)
        .filter((one) => one.tenant === tenant)
        .map(({ name }) => name)
    const owned = { sources: namesOf('source'), destinations: namesOf('destination') }
    if (owned.sources.length + owned.destinations.length > 0) throw tenantInUse(tenant, owned)
  }

  #takenKeys(raw: Fields): BrokenRelation[] {
    const keys: unknown[] = Array.isArray(raw['writeKey']) ? raw['writeKey'] : [raw['writeKey']]
    return keys.flatMap((key, index) => {
      const owner = typeof key === 'string' ? this.#parts.managed.ownerOf(key) : undefined
      if (owner === undefined || owner === raw['name']) return []
      const path = keys.length > 1 ? ['writeKey', index] : ['writeKey']
      const message = `is the same write key as that of the source ${JSON.stringify(owner)}. Change or remove one of the two.`
      return [{ path, message }]
    })
  }

  #all<K extends Kind>(kind: K): readonly ByKind[K][] {
    const { sources, destinations, tenants } = this.#parts.managed.settings()
    const all: { [One in Kind]: readonly ByKind[One][] } = {
      source: sources,
      destination: destinations,
      tenant: tenants,
    }
    return all[kind]
  }

  async #waiting(name: string): Promise<number> {
    const stats = await this.#parts.store.stats()
    const found = stats.find(({ destination }) => destination === name)
    return found ? found.fresh + found.backlog + found.bulk + found.leased : 0
  }

  async #discard(name: string): Promise<number> {
    let all = 0
    for (;;) {
      const count = await this.#parts.store.discard(name, DISCARD_SLICE)
      all += count
      if (count < DISCARD_SLICE) return all
    }
  }
}

function checkMatch({ kind, name, condition: { match } }: Order, before: Entry | undefined): void {
  if (match === undefined) return
  const fits = before && (match === 'any' || match.includes(before.version))
  if (!fits) throw wrongVersion(kind, name, before?.version)
}

function wrongUrls(webhooks: readonly Fields[], urls: readonly string[]): Problem[] {
  if (webhooks.length !== urls.length) {
    const message = `expected the URLs of all ${webhooks.length} endpoints, got ${urls.length}.`
    return [{ path: 'webhooks', message }]
  }
  return webhooks.flatMap(({ url, headers }, i) => {
    const hasHeaders = isFields(headers) && Object.keys(headers).length > 0
    const origin = originOf(url)
    if (!hasHeaders || originOf(urls[i]) === origin) return []
    const message = `expected a URL that starts with ${origin}/, because this endpoint has headers whose values may only go there.`
    return [{ path: `webhooks[${i}].url`, message }]
  })
}

function originOf(url: unknown): string {
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).origin : ''
}

function noteOf(
  { kind, actor }: Order,
  action: Verb,
  before: Setting | undefined,
  after: Setting | undefined,
): string {
  const changes = changesBetween(kind, before, after)
  return JSON.stringify({ action, ...actor, changes } satisfies Noted)
}

function matches(value: Setting, text: string): boolean {
  if (value.name.toLowerCase().includes(text)) return true
  if ('title' in value && value.title?.toLowerCase().includes(text)) return true
  return (
    'webhooks' in value &&
    value.webhooks.some(({ url }) => withoutQuery(url).toLowerCase().includes(text))
  )
}
