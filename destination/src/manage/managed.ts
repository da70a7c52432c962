import type { Fields } from '../model/fields.js'
import { writeKeysOf } from '../model/secrets.js'
import { KINDS, type Kind } from '../model/setting.js'
import { eachInSlices } from '../model/slices.js'
import { checkDestination, checkSource, checkTenant } from '../settings/check.js'
import type { Problem } from '../settings/problem.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Destination, Settings, Source, Tenant } from '../settings/settings.js'
import type { StoredRecord } from '../store/store.js'
import { Owners } from './owners.js'
import { createSealer, keyIdOf, type Sealer } from './seal.js'

/** A checked setting of each kind. */
export interface ByKind {
  source: Source
  destination: Destination
  tenant: Tenant
}

/** A checked setting of any kind. */
export type Setting = ByKind[Kind]

/** Whether records of a kind are settings. */
export function isManaged(kind: string): kind is Kind {
  return KINDS.some((one) => one === kind)
}

/** A setting that is kept in the store. */
export interface Entry<Value = Setting> {
  version: number
  /** As it was given, with its secrets. */
  raw: Fields
  /** The checked settings. */
  value: Value
  /** The id of the key that it is encrypted with. */
  keyId: string
}

/** A record that can't be used. */
export interface Unusable {
  kind: Kind
  name: string
  message: string
}

/**
 * The sources, destinations and tenants that are kept in the store, as this process knows them, together with those of the settings
 * file. It is only data: `Follower` reads the changes, and `Changes` makes them.
 */
export class Managed {
  readonly #entries = {
    source: new Map<string, Entry<Source>>(),
    destination: new Map<string, Entry<Destination>>(),
    tenant: new Map<string, Entry<Tenant>>(),
  }

  /** The tenants of the names of destinations. */
  readonly owners: Owners
  /** Records that can't be used by the present file. Another file may make them usable. */
  readonly #unusable = new Map<string, { record: StoredRecord; why: string }>()
  #file: File
  /** The name of the source that has a write key. */
  readonly #writeKeys = new Map<string, string>()

  private constructor(file: File, now: () => number) {
    this.#file = file
    this.owners = new Owners(now)
  }

  /**
   * Begins with a file, and nothing of the store.
   *
   * @param now - The store's clock.
   */
  static async open(file: Settings, now: () => number): Promise<Managed> {
    return new Managed(await indexOf(file), now)
  }

  get file(): Settings {
    return this.#file.settings
  }

  /** What encrypts; `undefined` if the settings have no key, and then nothing is kept in the store. */
  get sealer(): Sealer | undefined {
    return this.#file.sealer
  }

  /** What the store has of a kind, by name. */
  entries(kind: Kind): ReadonlyMap<string, Entry> {
    return this.#entries[kind]
  }

  entry(kind: Kind, name: string): Entry | undefined {
    return this.#entries[kind].get(name)
  }

  /** What the file has under a name. */
  inFile(kind: Kind, name: string): Setting | undefined {
    return this.#file[kind].get(name)
  }

  /** What there is under a name, in the file or in the store. */
  get(kind: Kind, name: string): Setting | undefined {
    return this.inFile(kind, name) ?? this.entry(kind, name)?.value
  }

  /** The source that has a write key; `undefined` if none has it. */
  ownerOf(writeKey: string): string | undefined {
    return this.#file.writeKeys.get(writeKey) ?? this.#writeKeys.get(writeKey)
  }

  /** The versions of everything in the store. No two states of the store have the same ones. */
  versions(): number[] {
    return KINDS.flatMap((kind) => Array.from(this.entries(kind).values(), (one) => one.version))
  }

  /** All settings: those of the file, and those of the store. */
  settings(): Settings & { tenants: Tenant[] } {
    const { source, destination, tenant } = this.#entries
    return {
      ...this.file,
      tenants: [...(this.file.tenants ?? []), ...valuesOf(tenant)],
      sources: [...this.file.sources, ...valuesOf(source)],
      destinations: [...this.file.destinations, ...valuesOf(destination)],
    }
  }

  /** @throws SettingsError if a destination in the file has a name that belongs to another tenant. */
  checkOwners(): void {
    const problems = this.owners.problemsOf(this.file.destinations)
    if (problems.length > 0) throw new SettingsError('settings_invalid', 'The settings', problems)
  }

  /** Why what the store has under a name is not used; `undefined` if it is used, or if there is none. */
  whyUnusable(kind: Kind, name: string): string | undefined {
    return this.#unusable.get(keyOf({ kind, name }))?.why
  }

  /** What the store has and this process does not use as the store has it, with the reasons. */
  *unusable(): Generator<Unusable> {
    for (const { record, why: message } of this.#unusable.values()) {
      yield { kind: record.kind as Kind, name: record.name, message }
    }
  }

  /**
   * Uses another version of the file, and with it the records that could not be used before.
   *
   * @returns the records that can't be used by this file either, and `undo`, which goes back to the former file.
   * @throws SettingsError if the file and the store don't fit together. Nothing changes then.
   */
  async useFile(file: Settings): Promise<{ unusable: Unusable[]; undo: () => void }> {
    const next = await indexOf(file)
    const problems = [
      ...(await this.#clashesWith(next)),
      ...(await this.#missingIn(next)),
      ...(await this.#lockedFor(next)),
      ...this.owners.problemsOf(file.destinations),
    ]
    if (problems.length > 0) throw new SettingsError('settings_invalid', 'The settings', problems)
    const former = this.#file
    const unusedBefore = Array.from(this.#unusable.values())
    const retried = unusedBefore.map(({ record }) => record)
    const before = retried.map(({ kind, name }) => this.#entries[kind as Kind].get(name))
    this.#file = next
    const unusable = await this.take(retried, false)
    const undo = () => {
      this.#file = former
      for (const [i, one] of unusedBefore.entries()) {
        const { kind, name } = one.record
        this.#set(kind as Kind, name, before[i])
        this.#unusable.set(keyOf(one.record), one)
      }
    }
    return { unusable, undo }
  }

  /**
   * Takes over changed records, and with them those that could not be used before. A record that can't be used leaves
   * everything as it is.
   *
   * @param isComplete - Whether these are all records.
   * @returns which of the changed records can't be used, with the reasons.
   */
  async take(records: readonly StoredRecord[], isComplete: boolean): Promise<Unusable[]> {
    this.owners.take(records, isComplete)
    const changed = new Set(records.map(keyOf))
    if (isComplete) {
      this.#unusable.clear()
      for (const kind of KINDS) {
        for (const name of this.#entries[kind].keys()) {
          if (!changed.has(keyOf({ kind, name }))) this.#set(kind, name, undefined)
        }
      }
    }
    const waiting = Array.from(this.#unusable.values(), ({ record }) => record)
    const taken = new Map<string, { record: StoredRecord; before: Entry | undefined }>()
    await eachInSlices([...waiting, ...records], (record) => {
      const { kind: given, name, version, body } = record
      const kind = KINDS.find((one) => one === given)
      if (!kind) return
      const key = keyOf(record)
      const known = taken.get(key)
      const before = known ? known.before : this.entry(kind, name)
      this.#unusable.delete(key)
      try {
        const entry = body === undefined ? undefined : this.#read(kind, name, version, body)
        this.#set(kind, name, entry)
        taken.set(key, { record, before })
      } catch (error) {
        this.#unusable.set(key, { record, why: (error as Error).message })
      }
    })
    // A source may be needed that comes in the same change, and a tenant of a source.
    for (const kind of ['source', 'destination'] as const) {
      await eachInSlices(taken.values(), ({ record, before }) => {
        const value = record.kind === kind ? this.#entries[kind].get(record.name)?.value : undefined
        const known = this.#known(this.#file)
        const unmet = value && needsOf(value).find((need) => !isMet(need, known))
        if (!unmet) return
        this.#set(kind, record.name, before)
        this.#unusable.set(keyOf(record), { record, why: whyUnmet(unmet, known) })
      })
    }
    return Array.from(this.#unusable).flatMap(([key, { record, why: message }]) =>
      changed.has(key) ? [{ kind: record.kind as Kind, name: record.name, message }] : [],
    )
  }

  #read(kind: Kind, name: string, version: number, body: string): Entry {
    const { sealer } = this
    if (!sealer) {
      throw new Error(
        'it is encrypted, and the settings have no "settingsKey". Set the key that it was encrypted with.',
      )
    }
    if (this.inFile(kind, name)) {
      throw new Error(`the settings file has a ${kind} of this name too. Rename one of the two.`)
    }
    const raw = JSON.parse(sealer.open({ kind, name }, body)) as Fields
    const checked = CHECKS[kind](raw)
    if ('problems' in checked) {
      throw new Error(checked.problems.map(({ path, message }) => `${path}: ${message}`).join(' '))
    }
    const { value } = checked
    if ('writeKey' in value) {
      const owner = writeKeysOf(value)
        .map((key) => this.#file.writeKeys.get(key))
        .find((found) => found !== undefined)
      if (owner !== undefined) {
        throw new Error(
          `it has the write key of the source ${JSON.stringify(owner)} in the settings file. Change one of the two.`,
        )
      }
    }
    return { version, raw, value, keyId: keyIdOf(body) }
  }

  #set(kind: Kind, name: string, entry: Entry | undefined): void {
    if (kind !== 'source') {
      setOrDelete<Entry>(this.#entries[kind], name, entry)
      return
    }
    const before = this.#entries.source.get(name)
    for (const key of before ? writeKeysOf(before.value) : []) {
      // Another source may have got the key meanwhile.
      if (this.#writeKeys.get(key) === name) this.#writeKeys.delete(key)
    }
    const source = entry as Entry<Source> | undefined
    if (source) for (const key of writeKeysOf(source.value)) this.#writeKeys.set(key, name)
    setOrDelete(this.#entries.source, name, source)
  }

  /** The keys of a file must decrypt what the store has, or the next start could not. */
  async #lockedFor({ sealer }: File): Promise<Problem[]> {
    const ids = new Set<string>()
    for (const kind of KINDS) {
      await eachInSlices(this.entries(kind).values(), ({ keyId }) => ids.add(keyId))
    }
    if (ids.size === 0) return []
    if (!sealer) return [NO_KEY]
    return [...ids].every((keyId) => sealer.has(keyId)) ? [] : [MISSING_KEY]
  }

  /** Names and write keys that the file and the store both have. */
  async #clashesWith({
    settings: { sources, destinations, tenants = [] },
  }: File): Promise<Problem[]> {
    const problems: Problem[] = []
    const inBoth = (kind: Kind, name: string, index: number) => {
      if (!this.#entries[kind].has(name)) return
      problems.push({ path: `${kind}s[${index}].name`, message: inStoreToo(kind, name) })
    }
    await eachInSlices(sources.entries(), ([index, source]) => {
      inBoth('source', source.name, index)
      const owner = writeKeysOf(source)
        .map((key) => this.#writeKeys.get(key))
        .find((found) => found !== undefined)
      if (owner === undefined) return
      const message = `is the write key of the source ${JSON.stringify(owner)} in the store too. Change one of the two.`
      problems.push({ path: `sources[${index}].writeKey`, message })
    })
    await eachInSlices(destinations.entries(), ([index, { name }]) => {
      inBoth('destination', name, index)
    })
    for (const [index, { name }] of tenants.entries()) inBoth('tenant', name, index)
    return problems
  }

  /** What the store needs of the present file, and what another file does not have. */
  async #missingIn(file: File): Promise<Problem[]> {
    const [present, next] = [this.#known(this.#file), this.#known(file)]
    const problems = new Map<string, Problem>()
    await eachInSlices(this.#needing(), ({ kind, name, needs }) => {
      for (const need of needs) {
        if (isMet(need, next) || !isMet(need, present)) continue
        const key = keyOf(need)
        if (!problems.has(key)) problems.set(key, missing(need, { kind, name }))
      }
    })
    return [...problems.values()]
  }

  /** The sources and tenants that there are with a file. */
  #known(file: File): Known {
    const { source, tenant } = this.#entries
    return {
      source: (name) => file.source.get(name) ?? source.get(name)?.value,
      hasTenant: (name) => file.tenant.has(name) || tenant.has(name),
    }
  }

  /** What the sources and destinations in the store need. */
  *#needing(): Generator<Needing> {
    for (const kind of ['source', 'destination'] as const) {
      for (const [name, { value }] of this.#entries[kind]) {
        yield { kind, name, needs: needsOf(value) }
      }
    }
  }
}

/** Checks a setting of each kind by itself. */
export const CHECKS = { source: checkSource, destination: checkDestination, tenant: checkTenant }

/** The sources and the tenants that there are. */
interface Known {
  source: (name: string) => Source | undefined
  hasTenant: (name: string) => boolean
}

/** A source or a tenant that something else needs. */
interface Need {
  kind: 'source' | 'tenant'
  name: string
  /** The tenant that the source must belong to; `undefined` if any source will do. */
  tenant?: string | undefined
}

interface Needing {
  kind: Kind
  name: string
  needs: Need[]
}

function needsOf(value: Source | Destination): Need[] {
  const { tenant } = value
  const sources = 'sources' in value ? value.sources : []
  const needed = sources.map((name): Need => ({ kind: 'source', name, tenant }))
  return tenant === undefined ? needed : [{ kind: 'tenant', name: tenant }, ...needed]
}

function isMet({ kind, name, tenant }: Need, known: Known): boolean {
  if (kind === 'tenant') return known.hasTenant(name)
  const source = known.source(name)
  return source !== undefined && (tenant === undefined || source.tenant === tenant)
}

function whyUnmet({ kind, name, tenant }: Need, known: Known): string {
  const needed = `the ${kind} ${JSON.stringify(name)}`
  const relation = kind === 'tenant' ? 'belongs to' : 'takes the calls of'
  return kind === 'source' && known.source(name)
    ? `it ${relation} ${needed}, which does not belong to its tenant ${JSON.stringify(tenant)}. Change one of the two.`
    : `it ${relation} ${needed}, which is neither in the settings file nor in the store. Add the ${kind}.`
}

function missing({ kind, name, tenant }: Need, by: Pick<Needing, 'kind' | 'name'>): Problem {
  const needed = `the ${kind} ${JSON.stringify(name)}`
  const owned = tenant === undefined ? needed : `${needed} of the tenant ${JSON.stringify(tenant)}`
  const relation = kind === 'tenant' ? 'belongs to' : 'takes'
  const message = `expected ${owned}, which the ${by.kind} ${JSON.stringify(by.name)} in the store ${relation}. Change the ${by.kind} first.`
  return { path: `${kind}s`, message }
}

const NO_KEY: Problem = {
  path: 'settingsKey',
  message:
    'is missing, but the store has sources, destinations or tenants, which it decrypts. Set the key that encrypted them.',
}

const MISSING_KEY: Problem = {
  path: 'settingsKey',
  message:
    'lacks a key that sources, destinations or tenants in the store are encrypted with. Keep that key behind the new one until the ' +
    'log says that everything is encrypted with the first key.',
}

function keyOf({ kind, name }: { kind: string; name: string }): string {
  return `${kind} ${name}`
}

function inStoreToo(kind: Kind, name: string): string {
  return `is the name of a ${kind} in the store too (${JSON.stringify(name)}). Rename the one in the file, or delete the one in the store.`
}

function sealerOf({ settingsKeys }: Settings): Sealer | undefined {
  return settingsKeys && createSealer(settingsKeys)
}

/** The settings of a file, and what is looked up in them. */
type File = { [K in Kind]: ReadonlyMap<string, ByKind[K]> } & {
  settings: Settings
  sealer: Sealer | undefined
  /** The name of the source that has a write key. */
  writeKeys: ReadonlyMap<string, string>
}

async function indexOf(settings: Settings): Promise<File> {
  const source = new Map<string, Source>()
  const writeKeys = new Map<string, string>()
  await eachInSlices(settings.sources, (one) => {
    source.set(one.name, one)
    for (const key of writeKeysOf(one)) writeKeys.set(key, one.name)
  })
  const destination = new Map<string, Destination>()
  await eachInSlices(settings.destinations, (one) => destination.set(one.name, one))
  const tenant = new Map((settings.tenants ?? []).map((one) => [one.name, one]))
  return { settings, sealer: sealerOf(settings), source, destination, tenant, writeKeys }
}

function valuesOf<Value>(entries: ReadonlyMap<string, Entry<Value>>): Value[] {
  return Array.from(entries.values(), ({ value }) => value)
}

function setOrDelete<Value>(map: Map<string, Value>, key: string, value: Value | undefined): void {
  if (value === undefined) map.delete(key)
  else map.set(key, value)
}
