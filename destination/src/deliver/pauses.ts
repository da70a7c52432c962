import type { Pause } from '../model/answers.js'
import { PAUSE_KIND, type Actor } from '../model/audit.js'
import { Follower, type FollowerEvents, type RecordStore } from '../store/follower.js'
import { isConflict, untilNoConflict } from '../store/store-error.js'
import type { RecordChange, StoredRecord } from '../store/store.js'

/** How often a change is tried if other processes change the same pause at the same time. */
const TRIES = 5

/**
 * What a record has. It stays after the pause, because what failed before the pause must not count afterwards. A pause has the time
 * that people are shown, and its end one of the store's clock, because other processes compare it with theirs.
 */
type Stored = { pause: Pause } | { resumedAt: number }

/** What is known of a destination that is or was paused, with the version of its record. */
interface Known {
  pause?: Pause
  resumedAt?: number
  version: number
}

/**
 * The destinations that are paused: nothing is sent to them, and their messages wait. The store keeps the pauses, so that they
 * survive a restart, and so that every process of the store has the same.
 */
export class Pauses {
  readonly #store: RecordStore
  readonly #follower: Follower
  #known = new Map<string, Known>()
  #apply: (() => Promise<void>) | undefined
  #settings: Pick<Follower, 'catchUp'> | undefined
  /** Whether something has changed that nobody has obeyed yet. */
  #isMissed = false

  private constructor(store: RecordStore) {
    this.#store = store
    this.#follower = new Follower(store, (records, isComplete) => this.#use(records, isComplete))
  }

  /**
   * Reads the pauses.
   *
   * @throws StoreError
   */
  static async open(store: RecordStore): Promise<Pauses> {
    const pauses = new Pauses(store)
    await pauses.#follower.catchUp()
    pauses.#isMissed = false
    return pauses
  }

  /**
   * Begins to follow the changes of other processes.
   *
   * @param apply - Makes this process obey the present pauses.
   * @param settings - Follows the settings.
   */
  start(
    apply: () => Promise<void>,
    settings: Pick<Follower, 'catchUp'>,
    events: FollowerEvents,
  ): void {
    this.#apply = apply
    this.#settings = settings
    if (this.#isMissed) void apply()
    // A store that only this process uses changes only by this object.
    if (this.#store.shared) this.#follower.start(events)
  }

  /** The pause of a destination; `undefined` if it is not paused. */
  of(destination: string): Pause | undefined {
    return this.#known.get(destination)?.pause
  }

  /** The destinations that are paused. */
  *names(): Generator<string> {
    for (const [name, { pause }] of this.#known) if (pause) yield name
  }

  /** When the last pause of a destination ended, by the store's clock; 0 if it was never paused. */
  resumedAt(destination: string): number {
    return this.#known.get(destination)?.resumedAt ?? 0
  }

  /** The version of what is known of a destination, for {@link pauseSince}. It changes whenever the destination is paused or resumed. */
  versionOf(destination: string): number {
    return this.#known.get(destination)?.version ?? 0
  }

  /**
   * Pauses a destination, unless it was paused or resumed since a version of which it was not paused. So a decision that another
   * process, or a person, has made meanwhile holds.
   *
   * @param alongside - Is written if, and only if, the pause is.
   * @returns whether this call has paused it.
   * @throws StoreError
   */
  async pauseSince(
    destination: string,
    version: number,
    pause: Omit<Pause, 'at'>,
    actor: Actor,
    alongside: RecordChange,
  ): Promise<boolean> {
    const at = Math.round(this.#store.clock.wall())
    try {
      await this.#write(destination, { version }, { at, ...pause }, actor, [alongside])
      return true
    } catch (error) {
      if (!isConflict(error)) throw error
      await this.#follower.catchUp()
      return false
    }
  }

  /**
   * Pauses a destination. If it is paused already, only the reason changes. When this resolves, this process starts no more
   * attempts for the destination; the others follow within a second.
   *
   * @returns whether it was paused before.
   * @throws StoreError
   */
  pause(destination: string, pause: Omit<Pause, 'at'>, actor: Actor): Promise<boolean> {
    const at = Math.round(this.#store.clock.wall())
    return this.#change(destination, actor, (before) => ({ at: before?.at ?? at, ...pause }))
  }

  /**
   * Ends the pause of a destination.
   *
   * @returns whether it was paused.
   * @throws StoreError
   */
  resume(destination: string, actor: Actor): Promise<boolean> {
    return this.#change(destination, actor, () => undefined)
  }

  /**
   * What must be written so that new destinations of these names are not paused: nothing for those that were never paused.
   *
   * @throws StoreError
   */
  async endsOf(destinations: readonly string[]): Promise<RecordChange[]> {
    await this.#follower.catchUp()
    return destinations.flatMap((name) => {
      const known = this.#known.get(name)
      return known ? [{ kind: PAUSE_KIND, name, version: known.version, body: undefined }] : []
    })
  }

  /** Obeys what was changed until now. @throws StoreError */
  catchUp(): Promise<void> {
    return this.#follower.catchUp()
  }

  stop(): Promise<void> {
    return this.#follower.stop()
  }

  /** @returns whether the destination was paused before. */
  #change(
    destination: string,
    actor: Actor,
    decide: (before: Pause | undefined) => Pause | undefined,
  ): Promise<boolean> {
    return untilNoConflict(TRIES, async () => {
      // Another process may have paused it, or resumed it, a moment ago.
      await this.#follower.catchUp()
      const known = this.#known.get(destination)
      const next = decide(known?.pause)
      if (!known?.pause && !next) return false
      await this.#write(destination, known ?? { version: 0 }, next, actor)
      return known?.pause !== undefined
    })
  }

  /** @throws StoreError `conflict` if another process has changed what is known. */
  async #write(
    destination: string,
    { pause, version }: Known,
    next: Pause | undefined,
    actor: Actor,
    alongside: readonly RecordChange[] = [],
  ): Promise<void> {
    const stored: Stored = next
      ? { pause: next }
      : { resumedAt: Math.round(this.#store.clock.now()) }
    const body = JSON.stringify(stored)
    const entry = noteOf(pause, next, actor)
    const change = { kind: PAUSE_KIND, name: destination, version, body, entry }
    await this.#store.writeRecords([change, ...alongside])
    await this.#follower.catchUp()
  }

  async #use(records: readonly StoredRecord[], isComplete: boolean): Promise<void> {
    const changed = records.filter(({ kind }) => kind === PAUSE_KIND)
    if (changed.length === 0 && !isComplete) return
    const known = new Map(isComplete ? [] : this.#known)
    for (const { name, version, body } of changed) {
      if (body === undefined) known.delete(name)
      else known.set(name, { ...(JSON.parse(body) as Stored), version })
    }
    // What a pause has waited for comes first: its destination has a new URL now, or is deleted. Else messages would be sent as before.
    const isAnyEnding = Array.from(this.names()).some((name) => !known.get(name)?.pause)
    if (isAnyEnding) await this.#settings?.catchUp()
    this.#known = known
    if (this.#apply) await this.#apply()
    else this.#isMissed = true
  }
}

/** An entry of the audit log, which shows it as a change of the destination. */
function noteOf(before: Pause | undefined, after: Pause | undefined, actor: Actor): string {
  const change = {
    path: 'paused',
    ...(before && { from: before.reason }),
    ...(after && { to: after.reason }),
  }
  return JSON.stringify({ action: after ? 'pause' : 'resume', ...actor, changes: [change] })
}
