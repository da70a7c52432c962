import { InOrder } from '../model/in-order.js'
import type { ClockPort, RecordPort, SharedPort, StoredRecord } from './store.js'

/** How often the store is asked for changes that nobody has reported, in ms. */
const POLL_MS = 500

/** Records that are read at once, so that other calls of the store do not wait. */
const SLICE = 500

/** Gets the changes of records. `isComplete` says that these are all records, and that all others are gone. */
export type OnRecords = (records: readonly StoredRecord[], isComplete: boolean) => Promise<void>

/** A store whose records are followed, and written. */
export type RecordStore = RecordPort & ClockPort & SharedPort<'onRecords'>

/** The store that a follower reads. */
type FollowedStore = Pick<RecordPort, 'records'> & SharedPort<'onRecords'>

/** What a follower tells. */
export interface FollowerEvents {
  /** The changes could not be read or used. The follower tries again. Reported once for several failures in a row. */
  followFailed(error: unknown): void
}

/**
 * Follows the records of a store, so that every process of the store uses the same settings. Changes are handed on in the
 * order in which they were made, and one call of the listener ends before the next begins.
 */
export class Follower {
  readonly #store: FollowedStore
  readonly #listener: OnRecords
  #revision = 0
  #history: string | undefined
  #isStarted = false
  #isStopped = false
  #hasFailed = false
  readonly #inOrder = new InOrder()
  #timer: NodeJS.Timeout | undefined

  constructor(store: FollowedStore, listener: OnRecords) {
    this.#store = store
    this.#listener = listener
  }

  /** Every change up to this revision has been handed on. */
  get revision(): number {
    return this.#revision
  }

  /**
   * Hands on everything that was changed until now.
   *
   * @throws StoreError if the store does not answer; and what the listener throws. The same changes are then read again.
   */
  catchUp(): Promise<void> {
    return this.#inOrder.run(() => this.#catchUp())
  }

  /** Begins to catch up whenever another process may have changed something. */
  start(events: FollowerEvents): void {
    const follow = () =>
      this.catchUp().then(
        () => {
          this.#hasFailed = false
        },
        (error: unknown) => {
          if (!this.#hasFailed && !this.#isStopped) events.followFailed(error)
          this.#hasFailed = true
        },
      )
    this.#store.shared?.onRecords(() => void follow())
    const poll = () => {
      this.#timer = setTimeout(() => {
        void follow().then(() => {
          if (!this.#isStopped) poll()
        })
      }, POLL_MS).unref()
    }
    poll()
  }

  /** Resolves once nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true
    clearTimeout(this.#timer)
    await this.#inOrder.ended()
  }

  async #catchUp(): Promise<void> {
    if (this.#isStopped) return
    let after = this.#revision
    const first = await this.#store.records(after, SLICE)
    // A store that was restored, or a standby that has taken over, may know less than this process.
    const isOther = first.revision < this.#revision || first.history !== this.#history
    const isComplete = !this.#isStarted || this.#revision < first.forgotten || isOther
    if (first.revision === this.#revision && !isComplete) return
    if (isComplete) after = 0
    // The same record may come twice, if it is changed while the slices are read: the last one counts.
    const changed = new Map<string, StoredRecord>()
    let isSame = true
    for (;;) {
      const { records, revision, history } =
        after === this.#revision && !isComplete ? first : await this.#store.records(after, SLICE)
      isSame &&= history === first.history
      for (const record of records) changed.set(`${record.kind}\0${record.name}`, record)
      after = records.at(-1)?.version ?? after
      if (records.length === SLICE) continue
      await this.#listener([...changed.values()], isComplete)
      this.#revision = revision
      this.#history = isSame ? first.history : undefined // all is read again if another server answered in between
      this.#isStarted = true
      return
    }
  }
}
