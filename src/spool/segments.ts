import { entryBytes, type Entry } from '../entry.js'
import type { SpoolError } from '../errors.js'
import type { Log } from '../log.js'
import { quarantine, setAside, unreadable } from './damage.js'
import { folderOf, hasCode, isDenied, isShortage } from './node.js'
import { MAX_RECORD_BYTES, RECORD_OVERHEAD } from './record.js'
import { Segment, type Straggler, type Stretch } from './segment.js'
import { syncFile, syncNow } from './syncing.js'

/** Large enough that files are few, small enough to be read at once. */
const MAX_SEGMENT_BYTES = 8 * 1024 * 1024

/** The most that is sent again after a crash because earlier messages had no outcome. */
const MAX_AHEAD_BYTES = 1024 * 1024

/** What the segments need from the stages around the spool. */
export interface SegmentsSurroundings {
  /** Bytes that the files may take. */
  readonly maxBytes: number
  readonly fsync: 'off' | 'batch'
  readonly log: Log
  /** Counts the messages of a dead process as accepted; gives the sequence of the first. */
  onAdopted(count: number, bytes: number): number
  /** The pending messages are so many bytes smaller than was said: damage has added bytes to a file, or removed some. */
  onMiscounted(bytes: number): void
}

/** What they need from the spool, too. */
interface Surroundings extends SegmentsSurroundings {
  /** The folder with the folders of all clients. */
  readonly home: string
  /** The messages in a folder can't be read for now, and stay there. */
  readonly onBlocked: (folder: string, cause: unknown) => void
  /** A file could not be written through to the disk. */
  readonly onUnsynced: (cause: unknown) => void
}

/** Consecutive records, with their place in the sequence of calls. */
export interface Spooled extends Stretch {
  readonly sequence: number
  /** Why there is no JSON. */
  readonly error?: SpoolError
}

/**
 * All messages of a client that are on disk, in the order of the calls. Messages are appended to the last segment. If the disk fails,
 * what changes messages throws its error; reading tells of it, and the place that was reached is saved later.
 *
 *     0000000001-0000000042-0000000002.log   see #moveStragglers
 *     0000000001.log                         see Segment
 */
export class Segments {
  readonly #around: Surroundings
  readonly #segmentBytes: number
  #all: Segment[] = []
  /** The segment that is read next, in `#all`. */
  #reading = 0
  #lastFile = 0
  #unread = 0
  #unreadBytes = 0
  /** Size of the records without an outcome. */
  #pendingBytes = 0
  /** The latest message that has its outcome. */
  #lastSettled = 0
  readonly #unsynced = new Set<string>()
  #syncing: Promise<void> | undefined

  constructor(around: Surroundings) {
    this.#around = around
    this.#segmentBytes = Math.min(MAX_SEGMENT_BYTES, around.maxBytes / 16)
  }

  get all(): readonly Segment[] {
    return this.#all
  }

  /**
   * How many bytes of records may be pending. The files also hold records that have their outcome, since a file is
   * removed as a whole. These take up to three segments: see {@link Segments.relieve}.
   */
  get maxPendingBytes(): number {
    return this.#around.maxBytes - 3 * (this.#segmentBytes + MAX_RECORD_BYTES)
  }

  /** Whether a message may be added without passing `maxBytes`. */
  hasRoom(bytes: number): boolean {
    return this.#pendingBytes + bytes + RECORD_OVERHEAD <= this.maxPendingBytes
  }

  get isHalfFull(): boolean {
    return this.#pendingBytes > this.maxPendingBytes / 2
  }

  /** How many messages are on disk only. */
  get unread(): number {
    return this.#unread
  }

  /** Size of their JSON. */
  get unreadBytes(): number {
    return this.#unreadBytes
  }

  /** Gives the segment that has the message now, for {@link Segment.retract}. */
  append(folder: string, json: Uint8Array, sequence: number): Segment {
    const segment = this.#appendable(folder, json.length, sequence)
    segment.append(json)
    if (this.#around.fsync === 'batch') this.#unsynced.add(segment.path)
    this.#unread++
    this.#unreadBytes += json.length
    this.#pendingBytes += json.length + RECORD_OVERHEAD
    return segment
  }

  #appendable(folder: string, bytes: number, sequence: number): Segment {
    const last = this.#all.at(-1)
    const follows = last?.firstSequence === sequence - (last?.length ?? 0)
    const fits = (last?.size ?? 0) + bytes + RECORD_OVERHEAD <= this.#segmentBytes
    if (last && !last.isSealed && follows && fits) return last
    this.sealLast()
    const segment = Segment.create(this.nextPath(folder))
    segment.firstSequence = sequence
    this.#all.push(segment)
    if (this.#around.fsync === 'batch') this.#unsynced.add(folder)
    return segment
  }

  nextPath(folder: string): string {
    return `${folder}/${toName(++this.#lastFile)}.log`
  }

  /** Sorts before a segment, so that the next start keeps the order. The last number makes the name a new one. */
  #pathBefore({ path }: Segment, sequence: number): string {
    return path.replace(/(-\d+)*\.log$/, `-${toName(sequence)}-${toName(++this.#lastFile)}.log`)
  }

  /** The message that was just appended is in memory too, and all before it were read. */
  skip(): void {
    this.#reading = this.#all.length - 1
    this.#all[this.#reading]?.skip()
    this.#unread = this.#unreadBytes = 0
  }

  /**
   * Writes messages that are only in memory, in the order of the calls, each before all that came later.
   *
   * @returns false if there is no room for all of them
   */
  insert(entries: readonly Entry[], folder: string): boolean {
    let left = entries
    for (let [first] = left; first; [first] = left) {
      const next = this.#all.find(isAfter(first))
      const before = next ? left.filter((entry) => isAfter(entry)(next)) : left
      const bytes = before.reduce((sum, entry) => sum + entryBytes(entry) + RECORD_OVERHEAD, 0)
      if (!this.hasRoom(bytes)) return false
      if (!next) this.sealLast()
      const path = next ? this.#pathBefore(next, first.sequence) : this.nextPath(folder)
      this.#addFile(before.map(toStraggler), path, next)
      this.#pendingBytes += bytes
      left = left.slice(before.length)
    }
    return true
  }

  /** Makes a file of messages that are in memory too, before another one or as the last. */
  #addFile(messages: readonly Straggler[], path: string, next: Segment | undefined): void {
    const segment = Segment.ofStragglers(path, messages)
    if (this.#around.fsync === 'batch') this.#syncNow(segment)
    const at = next ? this.#all.indexOf(next) : this.#all.length
    this.#all.splice(at, 0, segment)
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

  /** Adds segments of dead processes behind the messages that are pending already. */
  adopt(adopted: readonly Segment[]): void {
    let count = 0
    let bytes = 0
    for (const { unread, unreadBytes } of adopted) {
      count += unread
      bytes += unreadBytes
    }
    this.#around.log('spool: adopted %d messages', count)
    let sequence = this.#around.onAdopted(count, bytes)
    for (const segment of adopted) {
      this.sealLast()
      segment.firstSequence = sequence - (segment.length - segment.unread)
      sequence += segment.unread
      this.#all.push(segment)
    }
    this.#unread += count
    this.#unreadBytes += bytes
    this.#pendingBytes += bytes + count * RECORD_OVERHEAD
  }

  /** Gives some of the unread messages, in order; none if they can't be read at the moment. */
  read(): Spooled[] {
    let segment = this.#all[this.#reading]
    while (segment?.unread === 0) segment = this.#all[++this.#reading]
    if (!segment) this.#skipAll() // never the case; but if it were, callers would read for ever
    return segment ? this.#readNext(segment) : []
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
    const { path, firstSequence } = segment
    const { home, log, onBlocked } = this.#around
    const toSpooled = (stretch: Stretch): Spooled => {
      const sequence = firstSequence + stretch.index
      if (stretch.json) return { ...stretch, sequence }
      const kept = quarantine(home, stretch.damaged, log)
      return { ...stretch, sequence, error: unreadable(path, stretch.count, kept) }
    }
    try {
      return segment.read().map(toSpooled)
    } catch (cause) {
      // A shortage and a missing right can pass, unlike damage.
      const kept = isShortage(cause) || isDenied(cause) ? undefined : setAside(home, path)
      if (kept === undefined) {
        onBlocked(folderOf(path), cause)
        return []
      }
      const lost = segment.lose()
      const sequence = firstSequence + lost.index
      return [{ ...lost, sequence, error: unreadable(path, lost.count, kept, cause) }]
    }
  }

  /** Whether a message is here, without an outcome. */
  has(sequence: number): boolean {
    return this.#all.some((segment) => segment.has(sequence))
  }

  /** These messages have their outcome: the next start must not send them. Files without pending messages are removed. */
  settle(entries: readonly Entry[]): void {
    let segment: Segment | undefined
    for (const entry of entries) {
      const { sequence } = entry
      if (!segment?.has(sequence)) {
        if (segment) this.#saveSettled(segment)
        segment = this.#all.find((one) => one.has(sequence))
      }
      if (!segment) continue
      segment.settle(sequence, entryBytes(entry))
      this.#pendingBytes -= entryBytes(entry) + RECORD_OVERHEAD
      this.#lastSettled = Math.max(this.#lastSettled, sequence)
    }
    if (segment) this.#saveSettled(segment)
  }

  /**
   * Moves stragglers, if need be.
   *
   * A message may wait for hours while later ones are delivered. On disk, a segment can only say that all messages
   * before a place have their outcome, so its later messages would be sent again after a crash, and its file would
   * stay. Before that gets too much, the messages that hold it up are moved to a file of their own.
   */
  relieve(): void {
    let aheadBytes = 0
    let settledBytes = 0
    for (const segment of this.#all) {
      if (!segment.hasStragglers(this.#lastSettled)) continue
      aheadBytes += segment.aheadBytes
      settledBytes += segment.settledBytes
    }
    const maxAheadBytes = Math.min(MAX_AHEAD_BYTES, this.#segmentBytes)
    // Two segments: the messages in flight may be the end of one and the start of the next.
    if (aheadBytes <= maxAheadBytes && settledBytes <= 2 * this.#segmentBytes) return
    this.#moveStragglers(this.#all.filter((segment) => segment.settledBytes > 0))
  }

  /** What was delivered, or reported as lost, behind a message without an outcome must not come again at the next start. */
  leaveNoneAhead(): void {
    this.#moveStragglers(this.#all.filter((segment) => segment.aheadBytes > 0))
  }

  /** Moves messages that later ones have overtaken to files of their own, so that the others count as settled. */
  #moveStragglers(from: readonly Segment[]): void {
    for (const segment of from) {
      if (!segment.hasStragglers(this.#lastSettled)) continue
      this.#move(segment, segment.readStragglers(this.#lastSettled))
    }
  }

  #move(from: Segment, stragglers: readonly Straggler[]): void {
    const [first] = stragglers
    if (!first) return
    this.#addFile(stragglers, this.#pathBefore(from, first.sequence), from)
    for (const { sequence, json } of stragglers) from.settle(sequence, json.length)
    this.#saveSettled(from)
  }

  /**
   * Leaves the pending messages on disk. They are not read any more.
   *
   * @param inMemory - those that are in memory, in the order of the calls: their records may be damaged by now
   */
  leave(inMemory: readonly Entry[]): void {
    this.#skipAll()
    const overtaken = inMemory.filter(({ sequence }) => sequence <= this.#lastSettled)
    for (const segment of this.#all.filter(({ aheadBytes }) => aheadBytes > 0)) {
      const stragglers = overtaken.filter(({ sequence }) => segment.has(sequence))
      this.#move(segment, stragglers.map(toStraggler))
    }
  }

  #skipAll(): void {
    for (const segment of this.#all) segment.skip()
    this.#unread = this.#unreadBytes = 0
  }

  /**
   * Looks for the files. One that was cut keeps only its unread messages.
   *
   * @returns the damaged ones, and those of them that were removed
   */
  checkFiles(): { damaged: readonly Segment[]; removed: readonly Segment[] } {
    for (const segment of this.#all.filter(isDone)) this.#saveSettled(segment)
    const states = new Map(this.#all.map((segment) => [segment, segment.lookForFile()]))
    const damaged = this.#all.filter((segment) => states.get(segment) !== 'there')
    const removed = damaged.filter((segment) => states.get(segment) === 'removed')
    for (const segment of damaged) if (!removed.includes(segment)) this.#leaveUnread(segment)
    return { damaged, removed }
  }

  #leaveUnread(segment: Segment): void {
    segment.settleRead()
    this.seal(segment)
    if (segment.pending > 0) this.#saveSettled(segment)
  }

  /** Goes on without segments that are not here any more. */
  forget(gone: readonly Segment[]): void {
    this.#all = this.#all.filter((segment) => !gone.includes(segment))
    this.#reading = this.#unread = this.#unreadBytes = this.#pendingBytes = 0
    for (const { unread, unreadBytes, pendingBytes } of this.#all) {
      this.#unread += unread
      this.#unreadBytes += unreadBytes
      this.#pendingBytes += pendingBytes
    }
  }

  sealLast(): void {
    const last = this.#all.at(-1)
    if (last) this.seal(last)
  }

  seal(segment: Segment): void {
    try {
      segment.seal()
      if (segment.pending === 0) this.#saveSettled(segment)
    } catch (error) {
      this.#around.log('spool: not sealed: %s', error) // the next start finds the end by reading
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

  #remove(segment: Segment): void {
    segment.remove()
    const at = this.#all.indexOf(segment)
    this.#all.splice(at, 1)
    if (at < this.#reading) this.#reading--
    this.#unsynced.delete(segment.path)
  }

  /** Writes all files through to the disk that have changed, if `fsync` asks for it; undefined if there are none. */
  sync(): Promise<void> | undefined {
    if (this.#unsynced.size === 0) return this.#syncing
    return (this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined
    }))
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
        this.#around.onUnsynced(error)
      }
    }
    for (const path of failed) this.#unsynced.add(path)
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

/** Whether a file is not needed any more. */
const isDone = ({ isSealed, pending }: Segment) => isSealed && pending === 0
