import { messageOf } from '../describe.js'
import { entryBytes, type Entry } from '../entry.js'
import { SpoolError } from '../errors.js'
import type { Log } from '../log.js'
import { clearTimeout, detached, getBuiltin, later, startTimer, type Timer } from '../runtime.js'
import { BEAT_MS, FOREIGN, isForeign, Lease, removeFolder, type Claim } from './lease.js'
import { crc32, folderOf, fs, hasCode, isDenied, PRIVATE_FILE } from './node.js'
import { MAX_RECORD_BYTES, RECORD_OVERHEAD } from './record.js'
import { Segment, type Straggler, type Stretch } from './segment.js'

/** Large enough that files are few, small enough to be read at once. */
const MAX_SEGMENT_BYTES = 8 * 1024 * 1024

/** The most that is sent again after a crash because earlier messages had no outcome. */
const MAX_AHEAD_BYTES = 1024 * 1024

/** A version leaves the files of other formats alone. */
const FORMAT = 'v1'

/** What the spool needs from the stages around it. */
export interface SpoolSurroundings {
  readonly writeKey: string
  readonly directory: string
  /** Bytes that its files may take. */
  readonly maxBytes: number
  readonly fsync: 'off' | 'batch'
  readonly log: Log
  /** Counts the messages of a dead process as accepted; gives the sequence of the first. */
  onAdopted(count: number, bytes: number): number
  /** The pending messages are so many bytes smaller than was said: damage has added bytes to a file, or removed some. */
  onMiscounted(bytes: number): void
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

/** Consecutive records, with their place in the sequence of calls. */
export interface Spooled extends Stretch {
  readonly sequence: number
  /** Why there is no JSON. */
  readonly error?: SpoolError
}

/**
 * The messages on disk, in order: a folder of segments. Messages are appended to the last one.
 *
 *     directory/v1-<hash of the write key>/<client>/owner, reserve, watched               see Lease
 *                                                  0000000001-0000000042-0000000002.log   see #moveStragglers
 *                                                  0000000001.log                         see Segment
 *                                         *.corrupt                                       damaged bytes
 *                                         *.foreign                                       files that the spool did not make
 *
 * A failure of the disk is never thrown. After one, the spool takes no messages until the next beat.
 */
export class Spool {
  readonly #around: SpoolSurroundings
  readonly #home: string
  readonly #segmentBytes: number
  #segments: Segment[] = []
  /** The segment that is read next, in `#segments`. */
  #reading = 0
  #lastFile = 0
  #lease: Lease | undefined
  /** Folders that were taken over, and whose files are not in `#segments` yet. */
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
  #unread = 0
  #unreadBytes = 0
  /** Size of the records without an outcome. */
  #pendingBytes = 0
  /** The latest message that has its outcome. */
  #lastSettled = 0
  #timer: Timer | undefined
  readonly #unsynced = new Set<string>()
  #syncing: Promise<void> | undefined

  constructor(around: SpoolSurroundings) {
    this.#around = around
    const { directory, writeKey, maxBytes } = around
    // Messages of one source must not go to another. The key is hashed, since anybody can read a folder's name.
    const hash = getBuiltin?.('node:crypto').createHash('sha256').update(writeKey).digest('hex')
    this.#home = `${getBuiltin?.('node:path').resolve(directory)}/${FORMAT}-${hash?.slice(0, 16)}`
    this.#segmentBytes = Math.min(MAX_SEGMENT_BYTES, maxBytes / 16)
  }

  /**
   * How many bytes of records may be pending. The files also hold records that have their outcome, since a file is
   * removed as a whole. These take up to three segments: see {@link Spool.settle}.
   */
  get maxPendingBytes(): number {
    return this.#around.maxBytes - 3 * (this.#segmentBytes + MAX_RECORD_BYTES)
  }

  /** Whether the disk takes messages, as far as is known. */
  get isReady(): boolean {
    return this.#lease !== undefined && !this.#isFailing
  }

  /** Whether a message may be added without passing `maxBytes`. */
  hasRoom(bytes: number): boolean {
    return this.#pendingBytes + bytes + RECORD_OVERHEAD <= this.maxPendingBytes
  }

  /** How many messages are on disk only. */
  get unread(): number {
    return this.#unread
  }

  /** Size of their JSON. */
  get unreadBytes(): number {
    return this.#unreadBytes
  }

  /** Makes a folder and takes over those of dead processes. Does the same again every few seconds. */
  readonly start = detached(() => {
    if (!this.#isReporting) this.recheck()
    if (!this.#isReporting) this.#useDisk() // else what was lost is reported first, and the next beat does this
    this.#timer = startTimer(this.start, BEAT_MS)
  })

  #useDisk(): void {
    this.#isFailing = false
    try {
      this.#lease ??= this.#makeLease()
      if (this.#isAdopting) this.#adopt(this.#lease)
      this.#lease.keepReserve() // now, since messages that wait would take the room
      this.#around.onReady()
      if (this.#unsynced.size > 0) void this.sync()
    } catch (error) {
      this.#fail(error)
    }
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
    for (const segment of this.#segments.filter(isDone)) this.#saveSettled(segment)
    try {
      const states = new Map(this.#segments.map((segment) => [segment, segment.lookForFile()]))
      const damaged = this.#segments.filter((segment) => states.get(segment) !== 'there')
      if (damaged.length === 0) return
      const removed = damaged.filter((segment) => states.get(segment) === 'removed')
      for (const segment of damaged) if (!removed.includes(segment)) this.#leaveUnread(segment)
      const paths = damaged.map(({ path }) => path).join(' and ')
      this.#loseRemoved(removed, `Somebody removed or cut ${paths}`, 'spool_corrupt')
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Leaves only the unread messages in a file. */
  #leaveUnread(segment: Segment): void {
    segment.settleRead()
    this.#seal(segment)
    if (segment.pending > 0) this.#saveSettled(segment)
  }

  #keepLease(): void {
    if (this.#lease?.isFresh === false) this.#renew()
  }

  /** Puts a message on disk. Gives false if that fails. */
  append(json: Uint8Array, sequence: number): boolean {
    this.#keepLease()
    const lease = this.#lease
    if (this.#isFailing || !lease) return false
    let segment: Segment | undefined
    let failure: unknown
    try {
      segment = this.#appendable(lease.folder, json.length, sequence)
      segment.append(json)
      if (this.#around.fsync === 'batch') this.#unsynced.add(segment.path)
    } catch (error) {
      failure = error
    }
    // A process may be stopped right before it writes, or right after. The folder may have moved then, and the file been read.
    this.#keepLease()
    if (this.#lease !== lease) {
      if (failure === undefined && segment?.retract(json) === false) return true // it was read: it is among what was taken
      return this.append(json, sequence)
    }
    if (failure !== undefined) {
      this.#fail(failure)
      return false
    }
    this.#unread++
    this.#unreadBytes += json.length
    this.#pendingBytes += json.length + RECORD_OVERHEAD
    this.#isReported = false
    return true
  }

  /** The message that was just appended is in memory too, and all before it were read. */
  skip(): void {
    this.#reading = this.#segments.length - 1
    this.#segments[this.#reading]?.skip()
    this.#unread = this.#unreadBytes = 0
  }

  /** Puts those of these messages on disk that are only in memory, each before all that came later. Gives false if that fails. */
  keep(entries: readonly Entry[]): boolean {
    this.#keepLease()
    let left = entries.filter((entry) => !this.has(entry)).sort((a, b) => a.sequence - b.sequence)
    for (let [first] = left; first; [first] = left) {
      const next = this.#segments.find(isAfter(first))
      const before = next ? left.filter((entry) => isAfter(entry)(next)) : left
      const bytes = before.reduce((sum, entry) => sum + entryBytes(entry) + RECORD_OVERHEAD, 0)
      if (this.#isFailing || !this.#lease || !this.hasRoom(bytes)) return false
      try {
        if (!next) this.#sealLast()
        const path = next
          ? this.#pathBefore(next, first.sequence)
          : this.#nextPath(this.#lease.folder)
        this.#insert(before.map(toStraggler), path, next)
      } catch (error) {
        this.#fail(error)
        return false
      }
      this.#pendingBytes += bytes
      left = left.slice(before.length)
    }
    return true
  }

  /** Gives some of the unread messages, in order; none if they can't be read at the moment. */
  read(): Spooled[] {
    let segment = this.#segments[this.#reading]
    while (segment?.unread === 0) segment = this.#segments[++this.#reading]
    if (!segment) this.leave() // never the case; but if it were, callers would read for ever
    return segment ? this.#readNext(segment) : []
  }

  /** Whether a message is on disk, without an outcome: here, or where another process has just taken over. */
  has({ sequence }: Pick<Entry, 'sequence'>): boolean {
    const hasIt = (segment: Segment) => segment.has(sequence)
    return this.#segments.some(hasIt) || this.#taken.some(hasIt)
  }

  /**
   * These messages have their outcome: the next start must not send them. Files without pending messages are removed.
   *
   * A message may wait for hours while later ones are delivered. On disk, a segment can only say that all messages
   * before a place have their outcome, so its later messages would be sent again after a crash, and its file would
   * stay. Before that gets too much, the messages that hold it up are moved to a file of their own.
   */
  settle(entries: readonly Entry[]): void {
    this.#keepLease()
    let segment: Segment | undefined
    for (const entry of entries) {
      const { sequence } = entry
      if (!segment?.has(sequence)) {
        if (segment) this.#saveSettled(segment)
        segment = this.#segments.find((one) => one.has(sequence))
      }
      if (!segment) continue
      segment.settle(sequence, entryBytes(entry))
      this.#pendingBytes -= entryBytes(entry) + RECORD_OVERHEAD
      this.#lastSettled = Math.max(this.#lastSettled, sequence)
    }
    if (segment) this.#saveSettled(segment)
    if (!this.#isFailing && this.#isHeldUp()) {
      this.#moveStragglers(this.#segments.filter(({ settledBytes }) => settledBytes > 0))
    }
  }

  /** Leaves the pending messages on disk. They are not read any more. */
  leave(): void {
    for (const segment of this.#segments) segment.skip()
    this.#unread = this.#unreadBytes = 0
    this.#leaveNoneAhead()
  }

  /** Writes all files through to the disk that have changed, if `fsync` asks for it. */
  sync(): Promise<void> {
    return (this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined
    }))
  }

  /** Ends. Any process that uses the directory may take over the pending messages, now or later. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    this.#keepLease()
    this.#leaveNoneAhead()
    if (this.#unsynced.size > 0 || this.#syncing) await this.sync()
    this.#keepLease()
    try {
      for (const segment of [...this.#segments]) this.#seal(segment)
      if (this.#segments.length + this.#claims.size > 0) this.#lease?.free()
      else this.#lease?.end()
    } catch (error) {
      this.#around.log('spool: not closed well: %s', error) // others take it over as after a crash
    }
    this.#lease = undefined
  }

  /** What could not be written through is tried again at the next beat. */
  async #sync(): Promise<void> {
    const failed: string[] = []
    for (const path of this.#unsynced) {
      this.#unsynced.delete(path) // now, since more may be written to it meanwhile
      try {
        await syncFile(path)
      } catch (error) {
        failed.push(path)
        this.#fail(error)
      }
    }
    for (const path of failed) this.#unsynced.add(path)
  }

  #appendable(folder: string, bytes: number, sequence: number): Segment {
    const last = this.#segments.at(-1)
    const follows = last?.firstSequence === sequence - (last?.length ?? 0)
    const fits = (last?.size ?? 0) + bytes + RECORD_OVERHEAD <= this.#segmentBytes
    if (last && !last.isSealed && follows && fits) return last
    this.#sealLast()
    const segment = Segment.create(this.#nextPath(folder))
    segment.firstSequence = sequence
    this.#segments.push(segment)
    if (this.#around.fsync === 'batch') this.#unsynced.add(folder)
    return segment
  }

  #nextPath(folder: string): string {
    return `${folder}/${toName(++this.#lastFile)}.log`
  }

  /** Sorts before a segment, so that the next start keeps the order. The last number makes the name a new one. */
  #pathBefore({ path }: Segment, sequence: number): string {
    return path.replace(/(-\d+)*\.log$/, `-${toName(sequence)}-${toName(++this.#lastFile)}.log`)
  }

  #readNext(segment: Segment): Spooled[] {
    const before = segment.unreadBytes
    const spooled = this.#readFrom(segment)
    let miscounted = before - segment.unreadBytes
    for (const { count, bytes } of spooled) {
      this.#unread -= count
      this.#unreadBytes -= bytes
      miscounted -= bytes
    }
    if (miscounted !== 0) {
      this.#unreadBytes -= miscounted
      this.#pendingBytes -= miscounted
      this.#around.onMiscounted(miscounted)
    }
    return spooled
  }

  #readFrom(segment: Segment): Spooled[] {
    const toSpooled = (stretch: Stretch): Spooled => {
      const sequence = segment.firstSequence + stretch.index
      if (stretch.json) return { ...stretch, sequence }
      const kept = this.#quarantine(stretch.damaged)
      return { ...stretch, sequence, error: unreadable(segment.path, stretch.count, kept) }
    }
    try {
      return segment.read().map(toSpooled)
    } catch (cause) {
      const kept = isPassing(cause) ? undefined : this.#setAside(segment.path)
      if (kept === undefined) {
        this.#reportBlocked(folderOf(segment.path), cause)
        return []
      }
      const lost = segment.lose()
      const sequence = segment.firstSequence + lost.index
      return [{ ...lost, sequence, error: unreadable(segment.path, lost.count, kept, cause) }]
    }
  }

  /**
   * Keeps a file that can't be read: it would be removed, since all its messages have an outcome now. Gives nothing if the file
   * stays: its messages are not lost, since the next start may be able to read it.
   */
  #setAside(path: string): string | undefined {
    const kept = `${this.#home}/${path.split('/').slice(-2).join('-')}.corrupt`
    try {
      fs.renameSync(path, kept)
      return kept
    } catch (error) {
      return hasCode(error, 'ENOENT', 'ENOTDIR') ? '' : undefined // empty: it was removed
    }
  }

  /** Keeps damaged bytes for people to look at. The same bytes make the same file. */
  #quarantine(bytes: Uint8Array | undefined): string | undefined {
    if (!bytes?.length) return undefined
    const path = `${this.#home}/${crc32(bytes).toString(16)}-${bytes.length}.corrupt`
    try {
      fs.writeFileSync(path, bytes, { mode: PRIVATE_FILE })
      return path
    } catch (error) {
      this.#around.log('spool: no quarantine: %s', error)
      return undefined
    }
  }

  /** Writes down the outcomes, or removes a file without pending messages. If it stays, each beat tries again. */
  #saveSettled(segment: Segment): void {
    try {
      if (isDone(segment)) this.#remove(segment)
      else segment.saveSettled()
    } catch (error) {
      this.#around.log('spool: outcomes not saved: %s', error) // after a crash, messages are sent twice
    }
  }

  /** Whether stragglers keep too much on disk, or from being counted as settled. */
  #isHeldUp(): boolean {
    let aheadBytes = 0
    let settledBytes = 0
    for (const segment of this.#segments) {
      if (!segment.hasStragglers(this.#lastSettled)) continue
      aheadBytes += segment.aheadBytes
      settledBytes += segment.settledBytes
    }
    const maxAheadBytes = Math.min(MAX_AHEAD_BYTES, this.#segmentBytes)
    // Two segments: the messages in flight may be the end of one and the start of the next.
    return aheadBytes > maxAheadBytes || settledBytes > 2 * this.#segmentBytes
  }

  /** What was delivered, or reported as lost, behind a message without an outcome must not come again at the next start. */
  #leaveNoneAhead(): void {
    this.#moveStragglers(this.#segments.filter(({ aheadBytes }) => aheadBytes > 0))
  }

  /** Moves messages that later ones have overtaken to files of their own, so that the others count as settled. */
  #moveStragglers(from: readonly Segment[]): void {
    try {
      for (const segment of from) {
        if (segment.hasStragglers(this.#lastSettled)) this.#move(segment)
      }
    } catch (error) {
      this.#fail(error)
    }
  }

  #move(from: Segment): void {
    const stragglers = from.readStragglers(this.#lastSettled)
    const [first] = stragglers
    if (!first) return
    this.#insert(stragglers, this.#pathBefore(from, first.sequence), from)
    for (const { sequence, json } of stragglers) from.settle(sequence, json.length)
    this.#saveSettled(from)
  }

  /** Makes a file of messages that are in memory too, before another one or as the last. */
  #insert(messages: readonly Straggler[], path: string, next: Segment | undefined): void {
    const segment = Segment.ofStragglers(path, messages)
    if (this.#around.fsync === 'batch') this.#syncNow(segment)
    const at = next ? this.#segments.indexOf(next) : this.#segments.length
    this.#segments.splice(at, 0, segment)
    if (at <= this.#reading) this.#reading++
  }

  #syncNow(segment: Segment): void {
    const paths = [segment.path, folderOf(segment.path)]
    try {
      for (const path of paths) syncNow(path)
    } catch (error) {
      if (!hasCode(error, 'ERR_ACCESS_DENIED', 'EPERM', 'EISDIR')) {
        segment.remove() // else its messages would be on disk twice
        throw error
      }
      // Node's permission model only permits it in the background, and Windows can't sync a folder.
      for (const path of paths) this.#unsynced.add(path)
      void this.sync()
    }
  }

  #sealLast(): void {
    const last = this.#segments.at(-1)
    if (last) this.#seal(last)
  }

  #seal(segment: Segment): void {
    try {
      segment.seal()
      if (segment.pending === 0) this.#saveSettled(segment)
    } catch (error) {
      this.#around.log('spool: not sealed: %s', error) // the next start finds the end by reading
    }
  }

  #remove(segment: Segment): void {
    segment.remove()
    const at = this.#segments.indexOf(segment)
    this.#segments.splice(at, 1)
    if (at < this.#reading) this.#reading--
    this.#unsynced.delete(segment.path)
  }

  /** Takes over from dead processes. Once half of the room is pending, what is left stays for the next beat, or another process. */
  #adopt(lease: Lease): void {
    const claims = [...this.#claims]
    const dead = lease.claim(this.#reportBlocked)
    while (this.#pendingBytes <= this.maxPendingBytes / 2) {
      const claim = claims.shift() ?? dead.next().value
      if (!claim || !this.#adoptFrom(claim, lease)) return
    }
  }

  /** Gives false if nothing more can be taken over at the moment. */
  #adoptFrom(claim: Claim, lease: Lease): boolean {
    this.#claims.add(claim)
    const adopted: Segment[] = []
    let failure: unknown
    try {
      this.#absorb(claim, lease, adopted)
      this.#claims.delete(claim)
    } catch (cause) {
      failure = cause
    }
    if (!this.#stillHolds(lease)) return false // this process stood still: another one has it all
    if (adopted.length > 0) this.#enter(adopted)
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

  #makeLease(): Lease {
    try {
      return new Lease(this.#home, this.#around.log)
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error
      return new Lease(this.#home, this.#around.log) // this process stood still, and the folder was taken before it was complete
    }
  }

  #stillHolds(lease: Lease): boolean {
    this.#keepLease()
    return this.#lease === lease
  }

  /** Adds segments of dead processes behind the messages that are pending already. */
  #enter(adopted: readonly Segment[]): void {
    let count = 0
    let bytes = 0
    for (const { unread, unreadBytes } of adopted) {
      count += unread
      bytes += unreadBytes
    }
    this.#around.log('spool: adopted %d messages', count)
    let sequence = this.#around.onAdopted(count, bytes)
    for (const segment of adopted) {
      this.#sealLast()
      segment.firstSequence = sequence - (segment.length - segment.unread)
      sequence += segment.unread
      this.#segments.push(segment)
    }
    this.#unread += count
    this.#unreadBytes += bytes
    this.#pendingBytes += bytes + count * RECORD_OVERHEAD
  }

  /**
   * Moves the files of a folder that was taken over into this client's own, the oldest first.
   *
   * @throws what the disk said last of the files that it does not give, after it has moved all others
   */
  #absorb({ folder, isDead }: Claim, lease: Lease, adopted: Segment[]): void {
    const entries = fs.readdirSync(folder, { withFileTypes: true })
    // Not a link: what it leads to is not the spool's to write.
    const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith('.log'))
    const names = files.map(({ name }) => name)
    let failure: Error | undefined
    for (const name of names.sort()) {
      try {
        const segment = this.#load(`${folder}/${name}`, lease)
        if (!segment) continue
        adopted.push(segment)
        // A holder that only stood still may write once more when it wakes up: nothing may be appended there.
        if (!isDead) this.#seal(segment)
      } catch (cause) {
        if (isShortage(cause) || !isOfDisk(cause)) throw cause
        failure = cause as Error
      }
    }
    // A process that died while it absorbed others left their folders. Their messages come after its own files.
    // Nobody knows whether their holders are dead, too.
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
    for (const name of folders.sort()) {
      this.#absorb({ folder: `${folder}/${name}`, isDead: false }, lease, adopted)
    }
    if (failure) throw failure
    if (!removeFolder(folder, this.#around.log)) this.#setForeignAside(folder)
  }

  /** Moves a folder with foreign files out of the way. Else each takeover would move it a level deeper, until its path is too long. */
  #setForeignAside(folder: string): void {
    const kept = `${this.#home}/${folder.slice(folder.lastIndexOf('/') + 1)}${FOREIGN}`
    try {
      if (isForeign(folder)) fs.renameSync(folder, kept)
    } catch (error) {
      this.#around.log('spool: %s stays: %s', folder, error)
    }
  }

  #load(from: string, lease: Lease): Segment | undefined {
    try {
      const { segment, torn, isCut, isPlaceLost } = Segment.load(from)
      segment.path = this.#nextPath(lease.folder)
      fs.renameSync(from, segment.path)
      const kept = this.#quarantine(torn)
      if (kept) this.#around.onFault(tornEnd(torn.length, kept))
      else if (isCut) this.#around.onFault(cutFile(from))
      if (isPlaceLost) this.#around.onFault(lostPlace(segment.path))
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
    const advice = isDenied(cause)
      ? 'Run as that user, or use chown -R and chmod -R u+rwX.'
      : 'Check the disk: it is asked again every few seconds.'
    const message = `Messages in ${folder} of user ${uidOf(folder)} wait: ${messageOf(cause)}. ${advice}`
    this.#around.onFault(new SpoolError('spool_failed', message, { cause }))
  }

  /** Takes no messages until the next beat. */
  #fail(cause: unknown): void {
    this.#sealLast()
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
    try {
      const state = this.#lease?.renew()
      if (state === 'taken') this.#giveUp()
      if (state === 'gone') {
        this.#loseRemoved(this.#segments, `${this.#lease?.folder} was removed`, 'spool_failed')
        this.#startAgain()
      }
    } catch (error) {
      this.#fail(error)
    }
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
    const message = `This process stood still. Another one took over its messages in ${this.#home}, and sends them.`
    this.#forget(this.#segments, new SpoolError('spool_taken', message), true)
    this.#startAgain()
  }

  /** Goes on in a new folder. */
  #startAgain(): void {
    this.#claims.clear()
    this.#lease = undefined
    try {
      this.#lease = this.#makeLease()
      this.#isFailing = false
    } catch (cause) {
      this.#fail(cause)
    }
  }

  /** Goes on without files that are not there any more. This is reported later, since a call may be under way. */
  #forget(gone: readonly Segment[], error: SpoolError, areOthers: boolean): void {
    this.#segments = this.#segments.filter((segment) => !gone.includes(segment))
    this.#reading = this.#unread = this.#unreadBytes = this.#pendingBytes = 0
    for (const { unread, unreadBytes, pendingBytes } of this.#segments) {
      this.#unread += unread
      this.#unreadBytes += unreadBytes
      this.#pendingBytes += pendingBytes
    }
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

const toName = (number: number) => String(number).padStart(10, '0')

const toStraggler = ({ sequence, slab, start, end }: Entry): Straggler => ({
  sequence,
  json: slab.subarray(start, end),
})

/** Whether a segment holds messages that came after this one. */
const isAfter =
  ({ sequence }: Entry) =>
  ({ firstSequence, length }: Segment) =>
    firstSequence + length > sequence

/** Who owns a folder; unknown if what is above it is denied, too. */
function uidOf(folder: string): number | undefined {
  try {
    return fs.statSync(folder).uid
  } catch {
    return undefined
  }
}

/** Whether a file is not needed any more. */
const isDone = ({ isSealed, pending }: Segment) => isSealed && pending === 0

/** Whether this process has too many files open. */
const isShortage = (error: unknown) => hasCode(error, 'EMFILE', 'ENFILE')

/** Whether this can pass, unlike damage. */
const isPassing = (error: unknown) => isShortage(error) || isDenied(error)

/** Whether the disk, or a right, is at fault, and not the bytes. ENOENT and ENOTDIR mean that there is no file. */
const isOfDisk = (error: unknown) =>
  /^E(?!RR_|NOENT$|NOTDIR$)/.test(String((error as NodeJS.ErrnoException).code))

function unreadable(
  path: string,
  count: number,
  kept: string | undefined,
  cause?: unknown,
): SpoolError {
  const why = cause === undefined ? 'damaged' : messageOf(cause)
  const where = kept ? ` The bytes are in ${kept}.` : ''
  const message = `${count} messages in ${path} can't be read: ${why}.${where}`
  return new SpoolError('spool_corrupt', message, { cause })
}

function tornEnd(bytes: number, kept: string): SpoolError {
  const message = `The last ${bytes} bytes of a file of the spool are no complete message: see ${kept}.`
  return new SpoolError('spool_corrupt', message)
}

function cutFile(path: string): SpoolError {
  const message = `${path} lost its end, and an unknown number of messages with it.`
  return new SpoolError('spool_corrupt', message)
}

function lostPlace(path: string): SpoolError {
  const message = `The first bytes of ${path} are damaged: messages in it that were delivered arrive twice.`
  return new SpoolError('spool_corrupt', message)
}

/** Windows only syncs what is open for writing. A folder can't be. */
const modeFor = (path: string) => (path.endsWith('.log') ? 'r+' : 'r')

/** Writes a file, or a folder's list of files, through to the disk. */
function syncNow(path: string): void {
  const fd = fs.openSync(path, modeFor(path))
  try {
    fs.fsyncSync(fd)
  } finally {
    fs.closeSync(fd)
  }
}

/** Writes a file, or a folder's list of files, through to the disk, unless it has been removed. */
async function syncFile(path: string): Promise<void> {
  try {
    const file = await fs.promises.open(path, modeFor(path))
    await file.sync().finally(() => file.close())
  } catch (error) {
    // EPERM, EISDIR: Windows can't sync a folder.
    if (!hasCode(error, 'ENOENT', 'ENOTDIR', 'EPERM', 'EISDIR')) throw error
  }
}
