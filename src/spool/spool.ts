import { messageOf } from '../describe.js'
import type { Entry } from '../entry.js'
import { SpoolError } from '../errors.js'
import { clearTimeout, detached, getBuiltin, later, startTimer, type Timer } from '../runtime.js'
import { absorb } from './absorb.js'
import { blocked, faultsOf, quarantine, unreadable } from './damage.js'
import { BEAT_MS, Lease, type Claim } from './lease.js'
import { fs, hasCode, isOfDisk, isShortage } from './node.js'
import { Segment } from './segment.js'
import { Segments, type SegmentsSurroundings, type Spooled } from './segments.js'

/** A version leaves the files of other formats alone. */
const FORMAT = 'v1'

/** What the spool needs from the stages around it. */
export interface SpoolSurroundings extends SegmentsSurroundings {
  readonly writeKey: string
  readonly directory: string
  /** Reports an error of the disk. Messages that it costs are reported separately. */
  onFault(error: SpoolError): void
  /** The disk takes messages, for the first time or still. */
  onReady(): void
  /**
   * Files are gone. Another process has taken over the messages that `isTaken` names, and sends them; all others that are in memory are
   * this process's still. The `unread` ones were in these files only.
   */
  onGone(error: SpoolError, isTaken: (entry: Entry) => boolean, unread: readonly Spooled[]): void
}

/**
 * The copy of the queue on disk. It holds a folder of its own as long as it renews its lease.
 *
 *     directory/v1-<hash of the write key>/<client>/owner, reserve, watched   see Lease
 *                                                  *.log                      see Segments
 *                                         *.corrupt                           damaged bytes
 *                                         *.foreign                           files that the spool did not make
 *
 * A failure of the disk is never thrown. After one, the spool takes no messages until the next beat.
 */
export class Spool {
  readonly #around: SpoolSurroundings & { readonly home: string }
  /** What is on disk. The queue only reads it and counts: what changes it goes through the methods here. */
  readonly segments: Segments
  #lease: Lease | undefined
  /** Folders that were taken over, and whose files are not all in `segments` yet. */
  readonly #claims = new Set<Claim>()
  #isAdopting = true
  #isFailing = false
  #isReported = false
  /** Folders whose messages stay in their place for now: each is reported once. */
  readonly #blocked = new Set<string>()
  /** Whether files are gone, and that is reported in a moment. Until then, nothing is sent. */
  #isReporting = false
  /** What another process has taken over, until that is reported. */
  #taken: readonly Segment[] = []
  #timer: Timer | undefined

  constructor(around: SpoolSurroundings) {
    const { directory, writeKey } = around
    // Messages of one source must not go to another. The key is hashed, since anybody can read a folder's name.
    const hash = getBuiltin?.('node:crypto').createHash('sha256').update(writeKey).digest('hex')
    const home = `${getBuiltin?.('node:path').resolve(directory)}/${FORMAT}-${hash?.slice(0, 16)}`
    this.#around = { ...around, home }
    this.segments = new Segments({
      ...this.#around,
      onBlocked: this.#reportBlocked,
      onUnsynced: this.#fail,
    })
  }

  /** Whether the disk takes messages, as far as is known. */
  get isReady(): boolean {
    return this.#lease !== undefined && !this.#isFailing
  }

  /** Makes a folder and takes over those of dead processes. Does the same again every few seconds. */
  readonly start = detached(() => {
    if (!this.#isReporting) this.recheck()
    if (!this.#isReporting) this.#useDisk() // else what was lost is reported first, and the next beat does this
    this.#timer = startTimer(this.start, BEAT_MS)
  })

  #useDisk(): void {
    this.#isFailing = false
    this.#try(() => {
      this.#lease ??= this.#makeLease()
      if (this.#isAdopting) this.#adopt(this.#lease)
      this.#lease.keepReserve() // now, since messages that wait would take the room
      this.#around.onReady()
      void this.segments.sync()
    })
  }

  /** Takes over nothing more: what a client adopts after its `close()` began, it could not send in time. */
  adoptNoMore(): void {
    this.#isAdopting = false
  }

  /** Whether the messages that wait are this process's to send. */
  isOurs(): boolean {
    this.#keepLease()
    return !this.#isReporting
  }

  /** Finds out whether the folder and its files are still there. */
  recheck(): void {
    this.#renew()
    this.#try(() => {
      const { damaged, removed } = this.segments.checkFiles()
      if (damaged.length === 0) return
      const paths = damaged.map(({ path }) => path).join(' and ')
      this.#loseRemoved(removed, `Somebody removed or cut ${paths}`, 'spool_corrupt')
    })
  }

  #keepLease(): void {
    if (this.#lease?.isFresh === false) this.#renew()
  }

  #stillHolds(lease: Lease): boolean {
    this.#keepLease()
    return this.#lease === lease
  }

  /** Puts a message on disk. Gives false if that fails. */
  append(json: Uint8Array, sequence: number): boolean {
    this.#keepLease()
    const lease = this.#lease
    if (this.#isFailing || !lease) return false
    let segment: Segment | undefined
    let failure: unknown
    try {
      segment = this.segments.append(lease.folder, json, sequence)
    } catch (error) {
      failure = error
    }
    // A process may be stopped right before it writes, or right after. The folder may have moved then, and the file been read.
    if (!this.#stillHolds(lease)) {
      if (segment?.retract(json) === false) return true // it was read: it is among what was taken
      return this.append(json, sequence)
    }
    if (!segment) {
      this.#fail(failure)
      return false
    }
    this.#isReported = false
    return true
  }

  /** Puts those of these messages on disk that are only in memory, each before all that came later. Gives false if that fails. */
  keep(entries: readonly Entry[]): boolean {
    this.#keepLease()
    const left = entries.filter((entry) => !this.has(entry)).sort((a, b) => a.sequence - b.sequence)
    if (left.length === 0) return true
    const { folder } = this.#lease ?? {}
    if (this.#isFailing || folder === undefined) return false
    return this.#try(() => this.segments.insert(left, folder)) ?? false
  }

  /** Whether a message is on disk, without an outcome: here, or where another process has just taken over. */
  has({ sequence }: Pick<Entry, 'sequence'>): boolean {
    return this.segments.has(sequence) || this.#taken.some((segment) => segment.has(sequence))
  }

  /** These messages have their outcome: the next start must not send them. */
  settle(entries: readonly Entry[]): void {
    this.#keepLease()
    this.segments.settle(entries)
    if (this.#isFailing) return
    this.#try(() => {
      this.segments.relieve()
    })
  }

  /** Leaves the pending messages on disk, of which these are in memory. They are not read any more. */
  leave(inMemory: readonly Entry[]): void {
    this.#try(() => {
      this.segments.leave(inMemory)
    })
  }

  /** Ends. Any process that uses the directory may take over the pending messages, now or later. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    this.#keepLease()
    this.#try(() => {
      this.segments.leaveNoneAhead()
    })
    const syncing = this.segments.sync()
    if (syncing) await syncing
    this.#keepLease()
    try {
      for (const segment of [...this.segments.all]) this.segments.seal(segment)
      if (this.segments.all.length + this.#claims.size > 0) this.#lease?.free()
      else this.#lease?.end()
    } catch (error) {
      this.#around.log('spool: not closed well: %s', error) // others take it over as after a crash
    }
    this.#lease = undefined
  }

  /** Takes over from dead processes. Once half of the room is pending, what is left stays for the next beat, or another process. */
  #adopt(lease: Lease): void {
    const claims = [...this.#claims]
    const dead = lease.claim(this.#reportBlocked)
    while (!this.segments.isHalfFull) {
      const claim = claims.shift() ?? dead.next().value
      if (!claim || !this.#adoptFrom(claim, lease)) return
    }
  }

  /** Gives false if nothing more can be taken over at the moment. */
  #adoptFrom(claim: Claim, lease: Lease): boolean {
    this.#claims.add(claim)
    const adopted: Segment[] = []
    let failure: unknown
    const take = (path: string, isDead: boolean) => {
      const segment = this.#load(path, lease)
      if (!segment) return
      adopted.push(segment)
      // A holder that only stood still may write once more when it wakes up: nothing may be appended there.
      if (!isDead) this.segments.seal(segment)
    }
    try {
      absorb(claim, take, this.#around.home, this.#around.log)
      this.#claims.delete(claim)
    } catch (cause) {
      failure = cause
    }
    if (!this.#stillHolds(lease)) return false // this process stood still: another one has it all
    if (adopted.length > 0) this.segments.adopt(adopted)
    if (failure === undefined) return true
    if (isShortage(failure)) return false // the rest is still there at the next beat
    if (isOfDisk(failure)) {
      this.#reportBlocked(claim.folder, failure) // the next beat tries it again
      return true
    }
    this.#claims.delete(claim)
    this.#around.onFault(unreadable(claim.folder, 0, claim.folder, failure))
    return true
  }

  /** Moves a file into this client's folder; undefined if it has no message that can be read. */
  #load(from: string, lease: Lease): Segment | undefined {
    const { home, log } = this.#around
    try {
      const loaded = Segment.load(from)
      const { segment } = loaded
      segment.path = this.segments.nextPath(lease.folder)
      fs.renameSync(from, segment.path)
      const kept = quarantine(home, loaded.torn, log)
      for (const fault of faultsOf(from, loaded, kept)) this.#around.onFault(fault)
      if (segment.unread > 0) return segment
      segment.remove()
    } catch (cause) {
      if (isOfDisk(cause) || !this.#stillHolds(lease)) throw cause
      this.#around.onFault(unreadable(from, 0, from, cause))
    }
    return undefined
  }

  /** Says once that the messages in a folder stay there for now. */
  readonly #reportBlocked = (folder: string, cause: unknown): void => {
    if (isShortage(cause) || this.#blocked.has(folder)) return
    this.#blocked.add(folder)
    this.#around.onFault(blocked(folder, cause))
  }

  #makeLease(): Lease {
    try {
      return new Lease(this.#around.home, this.#around.log)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
      return new Lease(this.#around.home, this.#around.log) // this process stood still, and the folder was taken before it was complete
    }
  }

  /** Does something with the disk. After a failure, the spool takes no messages until the next beat. */
  #try<Result>(act: () => Result): Result | undefined {
    try {
      return act()
    } catch (error) {
      this.#fail(error)
      return undefined
    }
  }

  readonly #fail = (cause: unknown): void => {
    this.segments.sealLast()
    this.#isFailing = true
    this.#around.log('spool failed: %s', cause)
    if (this.#isReported) return
    this.#isReported = true
    const { directory } = this.#around
    const left = this.#lease ? '' : ' Messages that earlier processes left there wait, too.'
    const advice = isShortage(cause)
      ? 'Raise the limit of open files (ulimit -n).'
      : 'Check that the directory can be written, and that its disk has room.'
    const message = `The spool in ${directory} takes no messages: ${messageOf(cause)}. They wait in memory, up to maxQueueBytes.${left} ${advice}`
    this.#around.onFault(new SpoolError('spool_failed', message, { cause }))
  }

  #renew(): void {
    this.#try(() => {
      const state = this.#lease?.renew()
      if (state === 'taken') this.#giveUp()
      if (state === 'gone') {
        const what = `${this.#lease?.folder} was removed`
        this.#loseRemoved(this.segments.all, what, 'spool_failed')
        this.#startAgain()
      }
    })
  }

  /** Somebody has removed files, as `what` says. What is in memory is written to the disk again. */
  #loseRemoved(
    removed: readonly Segment[],
    what: string,
    code: 'spool_failed' | 'spool_corrupt',
  ): void {
    const message = `${what}. Messages that are not in memory are lost, unless the files come back.`
    this.#around.onFault(new SpoolError(code, message))
    this.#forget(removed, new SpoolError('spool_corrupt', message), false)
  }

  /** Another process has taken over. */
  #giveUp(): void {
    const message = `This process stood still. Another one took over its messages in ${this.#around.home}, and sends them.`
    this.#forget(this.segments.all, new SpoolError('spool_taken', message), true)
    this.#startAgain()
  }

  /** Goes on in a new folder. */
  #startAgain(): void {
    this.#claims.clear()
    this.#lease = undefined
    this.#try(() => {
      this.#lease = this.#makeLease()
      this.#isFailing = false
    })
  }

  /** Goes on without files that are not there any more. This is reported later, since a call may be under way. */
  #forget(gone: readonly Segment[], error: SpoolError, areOthers: boolean): void {
    this.segments.forget(gone)
    this.#isReporting = true
    if (areOthers) this.#taken = gone
    later(() => {
      if (areOthers) this.#taken = []
      const isTaken = ({ sequence }: Entry) =>
        areOthers && gone.some((segment) => segment.has(sequence))
      const lost = gone.map((segment) => {
        const stretch = segment.lose()
        segment.close()
        return { ...stretch, sequence: segment.firstSequence + stretch.index, error }
      })
      this.#isReporting = false
      this.#around.onGone(error, isTaken, lost)
    })
  }
}
