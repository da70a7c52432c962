import { hash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { Follower, type FollowerEvents, type RecordStore } from '../store/follower.js'
import { isConflict } from '../store/store-error.js'
import type { RecordChange, StoredRecord } from '../store/store.js'
import type { Alert } from './alert.js'
import type { Streak } from './streak.js'

/** The kinds of the records. */
export const FAILING = 'failing'
export const DEAD_LETTERS = 'dead letters'
export const UNTOLD_PAUSE = 'untold pause'

/** What the records of each kind have. */
interface Bodies {
  [FAILING]: Streak
  [DEAD_LETTERS]: Excess
  [UNTOLD_PAUSE]: UntoldPause
}

type RecordKind = keyof Bodies

/** A record, with its version. */
export interface Saved<Body> {
  body: Body
  version: number
  /** When this process learnt of it. */
  knownAt: number
}

/** A destination has more dead letters than it should, at least until this time. */
export interface Excess {
  since: number
  until: number
  isTold: boolean
}

/** A pause by an alert, of which nobody has told yet. */
interface UntoldPause {
  alert: Alert
  /** The time that people are shown. */
  at: number
}

/** Hears what becomes of the records of endpoints that fail. */
export interface OnFailing {
  /** The record of an endpoint was written. */
  written(key: string): void
  /** The record of an endpoint was deleted. */
  deleted(key: string): void
}

/** What fails, as it is in the store: so a restart forgets nothing, and all workers of a store give each alert once. */
export class Records {
  readonly #store: RecordStore
  readonly #on: OnFailing
  readonly #follower: Follower
  readonly #known: { readonly [Kind in RecordKind]: Map<string, Saved<Bodies[Kind]>> } = {
    [FAILING]: new Map(),
    [DEAD_LETTERS]: new Map(),
    [UNTOLD_PAUSE]: new Map(),
  }
  /** The keys of the streaks by the names of their records. */
  readonly #keys = new Map<string, string>()

  constructor(store: RecordStore, on: OnFailing) {
    this.#store = store
    this.#on = on
    this.#follower = new Follower(store, (records, isComplete) => {
      this.#use(records, isComplete)
      return Promise.resolve()
    })
  }

  /** Begins to follow the changes of other processes. */
  start(events: FollowerEvents): void {
    if (this.#store.shared) this.#follower.start(events)
  }

  /** Learns what was changed until now. @throws StoreError */
  catchUp(): Promise<void> {
    return this.#follower.catchUp()
  }

  stop(): Promise<void> {
    return this.#follower.stop()
  }

  /** The records of one kind: of endpoints by their keys, of dead letters and pauses by the destination. */
  of<Kind extends RecordKind>(kind: Kind): ReadonlyMap<string, Saved<Bodies[Kind]>> {
    return this.#known[kind]
  }

  /**
   * @param saved - The record that the change was decided by.
   * @returns `false` if another process changed the record before.
   */
  async write<Kind extends RecordKind>(
    kind: Kind,
    key: string,
    saved: Saved<Bodies[Kind]> | undefined,
    body: Bodies[Kind] | undefined,
  ): Promise<boolean> {
    if (!saved && !body) return true
    try {
      await this.#store.writeRecords([changeOf(kind, key, saved, body)])
    } catch (error) {
      await this.#follower.catchUp()
      if (isConflict(error)) return false
      // If only the answer was lost, the record is written, and nobody would give its alert any more.
      if (!isDeepStrictEqual(this.#known[kind].get(key)?.body, body)) throw error
      return true
    }
    await this.#follower.catchUp()
    return true
  }

  #use(records: readonly StoredRecord[], isComplete: boolean): void {
    if (isComplete) {
      for (const known of Object.values(this.#known)) known.clear()
      this.#keys.clear()
    }
    const knownAt = this.#store.clock.now()
    for (const { kind, name, version, body } of records) {
      if (kind !== FAILING && kind !== DEAD_LETTERS && kind !== UNTOLD_PAUSE) continue
      if (body === undefined) {
        this.#end(kind, name)
        continue
      }
      const { key, ...rest } = JSON.parse(body) as { key: string } & Bodies[RecordKind]
      if (kind === DEAD_LETTERS) {
        this.#known[kind].set(key, { body: rest as Excess, version, knownAt })
      } else if (kind === UNTOLD_PAUSE) {
        this.#known[kind].set(key, { body: rest as UntoldPause, version, knownAt })
      } else {
        const before = this.#known[kind].get(key)
        this.#keys.set(name, key)
        this.#known[kind].set(key, {
          body: rest as Streak,
          version,
          knownAt: before?.knownAt ?? knownAt,
        })
        this.#on.written(key)
      }
    }
  }

  #end(kind: RecordKind, name: string): void {
    if (kind !== FAILING) {
      this.#known[kind].delete(name)
      return
    }
    const key = this.#keys.get(name)
    if (key === undefined) return
    this.#keys.delete(name)
    this.#known[kind].delete(key)
    this.#on.deleted(key)
  }
}

/** The name of a record. A URL may be longer than a name, and may contain a key in its query. */
function nameOf(kind: string, key: string): string {
  return kind === FAILING ? hash('sha256', key) : key
}

/** Writes a record, or deletes it. */
export function changeOf<Kind extends RecordKind>(
  kind: Kind,
  key: string,
  saved: Saved<Bodies[Kind]> | undefined,
  body: Bodies[Kind] | undefined,
): RecordChange {
  return {
    kind,
    name: nameOf(kind, key),
    version: saved?.version ?? 0,
    body: body && JSON.stringify({ key, ...body }),
  }
}
