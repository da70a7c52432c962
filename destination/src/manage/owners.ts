import { StoreError } from '../store/store-error.js'
import type { Follower } from '../store/follower.js'
import type { ReadPort, RecordChange, RecordPort, StoredRecord } from '../store/store.js'
import type { Destination } from '../settings/settings.js'
import type { Problem } from '../settings/problem.js'

/** The kind of the records that keep the tenant of a name. Their names are those of destinations. */
const OWNER_KIND = 'owner'

/** Records that are written at once, so that other calls of the store do not wait. */
const SLICE = 500

/** How often changes are decided, if other processes change the same. */
const TRIES = 5

/** What a record has. */
interface Stored {
  tenant: string
  /** Since when no destination has the name, in ms since the epoch. */
  unusedSince?: number
}

interface Owner extends Stored {
  version: number
}

/** What {@link Owners} need. */
export interface OwnersParts {
  store: Pick<RecordPort, 'writeRecords'> & Pick<ReadPort, 'stats'>
  follower: Pick<Follower, 'catchUp'>
}

/**
 * The tenant of each name that a destination of a tenant has or had.
 *
 * The store has messages by the name of their destination. They may outlive it: some wait for a new destination of this name, others
 * are dead letters, or are shown as delivered. All of them are the affair of one customer. So a name stays with its tenant until the
 * store can't have anything of it any more.
 */
export class Owners {
  #known = new Map<string, Owner>()

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

  /** Why a tenant can't have a destination of this name; `undefined` if it can. The text may contain `{got}`. */
  refusal(name: string, tenant: unknown): string | undefined {
    const owner = this.#known.get(name)?.tenant
    if (owner === undefined || owner === tenant || tenant === undefined) return undefined
    return `expected ${JSON.stringify(owner)}, got {got}, because the store may have messages for the destination ${JSON.stringify(name)} of that tenant. Give the destination of the other tenant another name.`
  }

  /** The destinations whose names belong to another tenant. */
  problemsOf(destinations: readonly Destination[]): Problem[] {
    return destinations.flatMap(({ name, tenant }, index) => {
      const refusal = this.refusal(name, tenant)
      if (refusal === undefined) return []
      const message = refusal.replace('{got}', JSON.stringify(tenant))
      return [{ path: `destinations[${index}].tenant`, message }]
    })
  }

  /** What must be written before these destinations get messages. */
  missing(destinations: readonly Pick<Destination, 'name' | 'tenant'>[]): RecordChange[] {
    return destinations.flatMap(({ name, tenant }) =>
      tenant === undefined || this.#known.has(name) ? [] : [toRecord(name, { tenant, version: 0 })],
    )
  }

  /**
   * What must be written because names have got into use, went out of use, or are free again: no destination has had them for the
   * retention, and the store has no message that waits for them and no dead letter.
   */
  async outdated(
    destinations: readonly Destination[],
    retentionMs: number,
    store: Pick<ReadPort, 'stats'>,
  ): Promise<RecordChange[]> {
    if (this.#known.size === 0) return []
    const used = new Set(destinations.map(({ name }) => name))
    const now = Date.now()
    const changes: RecordChange[] = []
    const old: [string, Owner][] = []
    for (const [name, owner] of this.#known) {
      const { unusedSince, ...rest } = owner
      if (used.has(name) && unusedSince !== undefined) changes.push(toRecord(name, rest))
      if (used.has(name)) continue
      if (unusedSince === undefined) changes.push(toRecord(name, { ...rest, unusedSince: now }))
      else if (unusedSince + retentionMs < now) old.push([name, owner])
    }
    if (old.length === 0) return changes
    const stored = new Set((await store.stats()).map(({ destination }) => destination))
    const free = old.filter(([name]) => !stored.has(name))
    return [...changes, ...free.map(([name, { version }]) => toDeletion(name, version))]
  }
}

/**
 * Writes changes in slices. They are decided again if another process was faster.
 *
 * @throws StoreError
 */
export async function writeOwners(
  { store, follower }: OwnersParts,
  decide: () => Promise<RecordChange[]> | RecordChange[],
): Promise<void> {
  for (let tries = 1; ; tries++) {
    await follower.catchUp()
    const changes = await decide()
    try {
      for (let from = 0; from < changes.length; from += SLICE) {
        await store.writeRecords(changes.slice(from, from + SLICE))
      }
      if (changes.length > 0) await follower.catchUp()
      return
    } catch (error) {
      const isConflict = error instanceof StoreError && error.code === 'conflict'
      if (!isConflict || tries === TRIES) throw error
    }
  }
}

function toRecord(name: string, { version, ...stored }: Owner): RecordChange {
  return { kind: OWNER_KIND, name, version, body: JSON.stringify(stored satisfies Stored) }
}

function toDeletion(name: string, version: number): RecordChange {
  return { kind: OWNER_KIND, name, version, body: undefined }
}
