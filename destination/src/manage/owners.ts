import { StoreError, untilNoConflict } from '../store/store-error.js'
import type { Follower } from '../store/follower.js'
import type {
  MaintainPort,
  ReadPort,
  RecordChange,
  RecordPort,
  StoredRecord,
} from '../store/store.js'
import type { Stats } from '../model/delivery.js'
import { LONGEST_HISTORY_MS } from '../model/history.js'
import type { Destination, Settings } from '../settings/settings.js'
import type { Problem } from '../settings/problem.js'

/** The kind of the records that keep the tenant of a name. Their names are those of destinations. */
const OWNER_KIND = 'owner'

/** Records that are written at once, so that other calls of the store do not wait. */
const SLICE = 500

/** How often changes are decided, if other processes change the same. */
const TRIES = 5

/** What a record has. */
interface Stored {
  /** Whose the destination is, or was in the end; `null` for the operator. */
  tenant: string | null
  /** The tenant that had it before the operator took it back. */
  former?: string
  /** Since when no destination has the name, by the store's clock. */
  unusedSince?: number
  /** Whether it was deleted on request then, and did not leave the settings file. */
  isDeleted?: boolean
}

interface Owner extends Stored {
  version: number
}

/** What is needed to write the owners of names. */
export interface OwnersParts {
  store: Pick<RecordPort, 'writeRecords'> &
    Pick<ReadPort, 'stats'> &
    Pick<MaintainPort, 'completeStats'>
  follower: Pick<Follower, 'catchUp'>
  /** What this process knows. */
  managed: { readonly owners: Owners; settings(): Pick<Settings, 'destinations'> }
  pauses: {
    /** What ends the pauses of destinations. */
    endsOf(destinations: readonly string[]): Promise<RecordChange[]>
    /** Obeys what was written. */
    catchUp(): Promise<void>
  }
  /** What else changes the records in this process. */
  changes: {
    /** Runs one piece of work after the other. */
    inTurn<T>(work: () => Promise<T>): Promise<T>
  }
}

/**
 * The tenant of each name that a destination has or had, if it has one.
 *
 * The store has messages by the name of their destination. They may outlive it: some wait for a new destination of this name, others
 * are dead letters, or are shown as delivered. All of them are the affair of one customer. So a name stays with its tenant until the
 * store can't have anything of it any more.
 */
export class Owners {
  readonly #now: () => number
  #known = new Map<string, Owner>()

  /** @param now - The store's clock: what one process has written, another one compares with its own time. */
  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Takes over changed records.
   *
   * @param isComplete - Whether these are all records.
   */
  take(records: readonly StoredRecord[], isComplete: boolean): void {
    if (isComplete) this.#known.clear()
    for (const { kind, name, version, body } of records) {
      if (kind !== OWNER_KIND) continue
      if (body === undefined) this.#known.delete(name)
      else this.#known.set(name, { ...(JSON.parse(body) as Stored), version })
    }
  }

  /**
   * Why a tenant, or a destination without one, can't have this name; `undefined` if it can. The text may contain `{got}`.
   *
   * A destination that there is may be given to a tenant, or be taken back from it, but never go from one tenant to another. Once
   * there is none, the name is for the last owner only.
   *
   * @param isPresent - Whether there is such a destination now, if that is known: a record learns a little later that a destination
   * has left the settings file.
   */
  refusal(name: string, tenant: unknown = null, isPresent = true): string | undefined {
    const owner = this.#known.get(name)
    if (owner === undefined || owner.tenant === tenant) return undefined
    const isThere = isPresent && owner.unusedSince === undefined
    const only = isThere ? tenantOf(owner) : owner.tenant
    if (isThere && (tenant === null || only === null || only === tenant)) return undefined
    const expected = only === null ? 'no tenant' : JSON.stringify(only)
    const whose = only === null ? 'without a tenant' : 'of that tenant'
    return `expected ${expected}, got {got}, because the store may have messages for a destination ${JSON.stringify(name)} ${whose}. Give this destination another name.`
  }

  /** The destinations whose names belong to another tenant. */
  problemsOf(destinations: readonly Destination[]): Problem[] {
    return destinations.flatMap(({ name, tenant }, index) => {
      const refusal = this.refusal(name, tenant)
      if (refusal === undefined) return []
      const message = refusal.replace(
        '{got}',
        tenant === undefined ? 'nothing' : JSON.stringify(tenant),
      )
      return [{ path: `destinations[${index}].tenant`, message }]
    })
  }

  /**
   * What must be written before these destinations get messages. One without a tenant has a record too: it may leave the settings
   * file while nobody watches, and its messages must not become those of a tenant.
   */
  used(destinations: readonly Pick<Destination, 'name' | 'tenant'>[]): RecordChange[] {
    return destinations.flatMap(({ name, tenant = null }) => {
      const owner = this.#known.get(name)
      if (owner?.tenant === tenant && owner.unusedSince === undefined) return []
      const former = tenantOf(owner)
      const version = owner?.version ?? 0
      return [toRecord(name, { tenant, version, ...(former !== null && { former }) })]
    })
  }

  /** What must be written with the deletion of a destination. */
  deleted(name: string): RecordChange {
    return this.#left(name, { isDeleted: true })
  }

  /** Whether the last destination of this name was deleted on request. */
  wasDeleted(name: string): boolean {
    return this.#known.get(name)?.isDeleted ?? false
  }

  #left(name: string, more: Partial<Stored> = {}): RecordChange {
    const owner = this.#known.get(name) ?? { tenant: null, version: 0 }
    return toRecord(name, { ...owner, ...more, unusedSince: Math.round(this.#now()) })
  }

  /**
   * What must be written because names went out of use.
   *
   * @param stored - What the store has: a destination may have left the settings file while nobody watched.
   */
  unused(destinations: readonly Destination[], stored: readonly Stats[]): RecordChange[] {
    const used = new Set(destinations.map(({ name }) => name))
    const names = new Set([...this.#known.keys(), ...stored.map(({ destination }) => destination)])
    return Array.from(names)
      .filter((name) => !used.has(name) && this.#known.get(name)?.unusedSince === undefined)
      .map((name) => this.#left(name))
  }

  /**
   * What must be written because names are free again: no destination has had them for the retention and for as long as charts
   * show what happened, and the store has no message that waits for them and no dead letter. No name is free while a server of
   * the store is away, because it may have some.
   *
   * @param destinations - Those that there are. Another process may have said that their names are unused, because it had other settings.
   */
  async free(
    destinations: readonly Pick<Destination, 'name'>[],
    retentionMs: number,
    store: Pick<MaintainPort, 'completeStats'>,
  ): Promise<RecordChange[]> {
    const used = new Set(destinations.map(({ name }) => name))
    const since = this.#now() - Math.max(retentionMs, LONGEST_HISTORY_MS)
    const old = Array.from(this.#known).filter(
      ([name, { unusedSince = Infinity }]) => unusedSince < since && !used.has(name),
    )
    if (old.length === 0) return []
    const stats = await unlessAway(store.completeStats())
    if (!stats) return []
    const stored = new Set(stats.map(({ destination }) => destination))
    return old
      .filter(([name]) => !stored.has(name))
      .map(([name, { version }]) => toDeletion(name, version))
  }
}

/** Writes down to which tenants the names of the destinations belong, before messages are stored under these names. */
export function keepOwners(parts: OwnersParts): Promise<void> {
  const { managed, store, changes } = parts
  return changes.inTurn(async () => {
    const stored = await store.stats()
    await writeOwners(parts, () => {
      const { destinations } = managed.settings()
      const { owners } = managed
      return [...owners.used(destinations), ...owners.unused(destinations, stored)]
    })
  })
}

/**
 * Frees the names that nobody uses any more, once the store can't have anything of them any more. Their pauses end then: a
 * destination of the name would be another one. It also says again which names are in use: a process with other settings, which is just
 * being replaced, may have said the opposite.
 */
export function freeNames(parts: OwnersParts, retentionMs: number): Promise<void> {
  const { managed, store, pauses, changes } = parts
  return changes.inTurn(async () => {
    await writeOwners(parts, async () => {
      const { owners } = managed
      const freed = await owners.free(managed.settings().destinations, retentionMs, store)
      const ends = await pauses.endsOf(freed.map(({ name }) => name))
      const { destinations } = managed.settings()
      return [
        ...owners.used(destinations),
        ...owners.unused(destinations, []),
        // They come first, because a name that is free is not looked at again.
        ...ends,
        ...freed,
      ]
    })
    await pauses.catchUp()
  })
}

/**
 * Writes changes in slices. They are decided again if another process was faster.
 *
 * @throws StoreError
 */
async function writeOwners(
  { store, follower }: Pick<OwnersParts, 'store' | 'follower'>,
  decide: () => Promise<RecordChange[]> | RecordChange[],
): Promise<void> {
  await untilNoConflict(TRIES, async () => {
    await follower.catchUp()
    const changes = await decide()
    for (let from = 0; from < changes.length; from += SLICE) {
      await store.writeRecords(changes.slice(from, from + SLICE))
    }
    if (changes.length > 0) await follower.catchUp()
  })
}

/** @returns `undefined` if one of the servers of the store can't be reached. */
async function unlessAway<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    const isAway = error instanceof StoreError && error.server !== undefined && error.isUnreachable
    if (!isAway) throw error
    return undefined
  }
}

/** The one tenant whose messages the store may have under the name of an owner; `null` if there is none. */
function tenantOf({ tenant, former }: Partial<Stored> = {}): string | null {
  return tenant ?? former ?? null
}

function toRecord(name: string, { version, ...stored }: Owner): RecordChange {
  return { kind: OWNER_KIND, name, version, body: JSON.stringify(stored satisfies Stored) }
}

function toDeletion(name: string, version: number): RecordChange {
  return { kind: OWNER_KIND, name, version, body: undefined }
}
