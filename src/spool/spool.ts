import { entryBytes, type Entry } from '../entry.js'
import { SpoolError } from '../errors.js'
import { log } from '../log.js'
import { detached, getBuiltin, later, unref } from '../runtime.js'
import { BEAT_MS, Lease, removeFolder } from './lease.js'
import { crc32, fs, PRIVATE_FILE } from './node.js'
import { MAX_RECORD_BYTES, RECORD_OVERHEAD } from './record.js'
import { Segment, type Stretch } from './segment.js'

/** A delivered segment is a file less. Large enough that files are rare, small enough to be read at once. */
const MAX_SEGMENT_BYTES = 8 * 1024 * 1024

/** Changes when the files do: versions leave each other's alone. */
const FORMAT = 'v1'

/** What the spool needs from the stages around it. */
export interface SpoolSurroundings {
  readonly writeKey: string
  readonly directory: string
  /** Bytes that its files may take. */
  readonly maxBytes: number
  readonly fsync: 'off' | 'batch'
  /** Enters messages of a dead process in the books; gives the sequence of the first. */
  onAdopted(count: number, bytes: number): number
  /** Something is wrong; what it means for messages is told apart. */
  onFault(error: SpoolError): void
  /** Others have taken over what was spooled here: it is no longer ours to send. */
  onTaken(error: SpoolError, unread: readonly Spooled[]): void
}

/** A stretch of records, with its place in the sequence of calls. */
export interface Spooled extends Stretch {
  readonly sequence: number
  /** Why it has no JSON. */
  readonly error?: SpoolError
}

/**
 * The messages on disk, in order: a folder of segments, of which the last is appended to.
 *
 *     directory/v1-<hash of the write key>/<client>/owner           see Lease
 *                                                  0000000001.log   see Segment
 *                                         *.corrupt                 what could not be read
 *
 * No failure of the disk is thrown on. After one, messages are not taken until the next beat.
 */
export class Spool {
  readonly #around: SpoolSurroundings
  readonly #home: string
  readonly #segmentBytes: number
  #segments: Segment[] = []
  /** Where reading goes on, in `#segments`. */
  #reading = 0
  #lastFile = 0
  #lease: Lease | undefined
  #isFailing = false
  #isReported = false
  #isTaken = false
  #unread = 0
  #unreadBytes = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  readonly #unsynced = new Set<string>()
  #syncing: Promise<void> | undefined

  constructor(around: SpoolSurroundings) {
    this.#around = around
    const { directory, writeKey, maxBytes } = around
    // What was recorded for one source is not sent to another. Names of folders are no place for a key.
    const hash = getBuiltin?.('node:crypto').createHash('sha256').update(writeKey).digest('hex')
    this.#home = `${getBuiltin?.('node:path').resolve(directory)}/${FORMAT}-${hash?.slice(0, 16)}`
    this.#segmentBytes = Math.min(MAX_SEGMENT_BYTES, maxBytes / 16)
  }

  /**
   * How many bytes of records may be pending. A file goes with its last record: beside what is pending, the disk
   * holds up to three segments that are partly done, the ones of the batch in flight and of what follows it.
   */
  get maxPendingBytes(): number {
    return this.#around.maxBytes - 3 * (this.#segmentBytes + MAX_RECORD_BYTES)
  }

  /** How many messages are on disk only. */
  get unread(): number {
    return this.#unread
  }

  /** Size of their JSON. */
  get unreadBytes(): number {
    return this.#unreadBytes
  }

  /** Takes a folder, and what dead processes left; looks after both from now on. */
  readonly start = detached(() => {
    if (this.#lease) this.#renew()
    this.#isFailing = false
    try {
      this.#lease ??= new Lease(this.#home)
      this.#adopt(this.#lease)
    } catch (error) {
      this.#fail(error)
    }
    this.#timer = setTimeout(this.start, BEAT_MS)
    unref(this.#timer)
  })

  /** Whether its messages are still this process's to send. */
  isOurs(): boolean {
    if (!this.#isTaken && this.#lease && !this.#lease.isFresh) this.#renew()
    return !this.#isTaken
  }

  /** Puts a message on disk. Gives false if that can't be had. */
  append(json: Uint8Array, sequence: number): boolean {
    if (this.#isFailing || !this.isOurs() || !this.#lease) return false
    try {
      const segment = this.#appendable(this.#lease.folder, json.length, sequence)
      segment.append(json)
      if (this.#around.fsync === 'batch') this.#unsynced.add(segment.path)
    } catch (error) {
      this.#fail(error)
      return false
    }
    this.#unread++
    this.#unreadBytes += json.length
    this.#isReported = false
    return true
  }

  /** What was just appended is in memory too, and is all that was unread. */
  skip(): void {
    this.#reading = this.#segments.length - 1
    this.#segments[this.#reading]?.skip()
    this.#unread = this.#unreadBytes = 0
  }

  /** Reads on, in order: some of what is unread. */
  read(): Spooled[] {
    let segment = this.#segments[this.#reading]
    while (segment?.unread === 0) segment = this.#segments[++this.#reading]
    if (!segment) this.leave() // can't be; but nobody is to wait for it
    const spooled = segment ? this.#readFrom(segment) : []
    for (const { count, bytes } of spooled) {
      this.#unread -= count
      this.#unreadBytes -= bytes
    }
    return spooled
  }

  /** Whether a message is on disk. */
  has({ sequence }: Entry): boolean {
    return this.#segments.some((segment) => segment.has(sequence))
  }

  /** These messages have their outcome: the next start need not send them. Files that are done with go. */
  settle(entries: readonly Entry[]): void {
    let segment: Segment | undefined
    for (const entry of entries) {
      const { sequence } = entry
      if (!segment?.has(sequence)) {
        if (segment) this.#saveSettled(segment)
        segment = this.#segments.find((one) => one.has(sequence))
      }
      segment?.settle(sequence, entryBytes(entry))
    }
    if (segment) this.#saveSettled(segment)
  }

  /** Leaves what has no outcome where it is: nothing of it is read any more. */
  leave(): void {
    for (const segment of this.#segments) segment.skip()
    this.#unread = this.#unreadBytes = 0
  }

  /** Makes what was recorded so far outlive the machine too, if that was asked for. */
  sync(): Promise<void> {
    return (this.#syncing ??= this.#sync().finally(() => {
      this.#syncing = undefined
    }))
  }

  /** Ends. What has no outcome is for the next start, or for any other process on the directory. */
  async close(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#unsynced.size > 0 || this.#syncing) await this.sync()
    if (!this.isOurs()) return
    try {
      for (const segment of [...this.#segments]) this.#seal(segment)
      if (this.#segments.length > 0) this.#lease?.free()
      else this.#lease?.end()
    } catch (error) {
      log('spool: not closed well: %s', error) // who comes next finds it out
    }
    this.#lease = undefined
  }

  async #sync(): Promise<void> {
    try {
      while (this.#unsynced.size > 0) {
        const paths = [...this.#unsynced]
        this.#unsynced.clear()
        for (const path of paths) await syncFile(path)
      }
    } catch (error) {
      this.#fail(error)
    }
  }

  #appendable(folder: string, bytes: number, sequence: number): Segment {
    const last = this.#segments.at(-1)
    const follows = last?.firstSequence === sequence - (last?.length ?? 0)
    const fits = (last?.size ?? 0) + bytes + RECORD_OVERHEAD <= this.#segmentBytes
    if (last && !last.isSealed && follows && fits) return last
    if (last) this.#seal(last)
    const segment = Segment.create(this.#nextPath(folder))
    segment.firstSequence = sequence
    this.#segments.push(segment)
    if (this.#around.fsync === 'batch') this.#unsynced.add(folder)
    return segment
  }

  #nextPath(folder: string): string {
    return `${folder}/${String(++this.#lastFile).padStart(10, '0')}.log`
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
      const lost = segment.lose()
      const sequence = segment.firstSequence + lost.index
      return [{ ...lost, sequence, error: unreadable(segment.path, lost.count, undefined, cause) }]
    }
  }

  /** Keeps bytes that are no message, for people to look at. The same bytes make the same file. */
  #quarantine(bytes: Uint8Array | undefined): string | undefined {
    if (!bytes?.length) return undefined
    const path = `${this.#home}/${crc32(bytes).toString(16)}-${bytes.length}.corrupt`
    try {
      fs.writeFileSync(path, bytes, { mode: PRIVATE_FILE })
      return path
    } catch (error) {
      log('spool: no quarantine: %s', error)
      return undefined
    }
  }

  #saveSettled(segment: Segment): void {
    try {
      if (!this.#removeDone(segment)) segment.saveSettled()
    } catch (error) {
      log('spool: what has its outcome could not be noted: %s', error) // it may be sent twice
    }
  }

  #seal(segment: Segment): void {
    try {
      segment.seal()
      this.#removeDone(segment)
    } catch (error) {
      log('spool: not sealed: %s', error) // the end will be found by reading
    }
  }

  #removeDone(segment: Segment): boolean {
    if (!segment.isSealed || segment.pending > 0) return false
    const at = this.#segments.indexOf(segment)
    this.#segments.splice(at, 1)
    if (at < this.#reading) this.#reading--
    this.#unsynced.delete(segment.path)
    segment.remove()
    return true
  }

  #adopt(lease: Lease): void {
    const adopted = lease.claim().flatMap(({ folder }) => this.#absorb(folder, lease.folder))
    if (adopted.length === 0) return
    let count = 0
    let bytes = 0
    for (const { unread, unreadBytes } of adopted) {
      count += unread
      bytes += unreadBytes
    }
    log('spool: adopted %d messages', count)
    let sequence = this.#around.onAdopted(count, bytes)
    for (const segment of adopted) {
      const last = this.#segments.at(-1)
      if (last) this.#seal(last)
      segment.firstSequence = sequence - (segment.length - segment.unread)
      sequence += segment.unread
      this.#segments.push(segment)
    }
    this.#unread += count
    this.#unreadBytes += bytes
  }

  /** Makes the files of a folder that was taken over this client's own, its oldest first. */
  #absorb(folder: string, into: string): Segment[] {
    const entries = fs.readdirSync(folder, { withFileTypes: true })
    const names = entries.filter(({ name }) => name.endsWith('.log')).map(({ name }) => name)
    // A process that died while it did the same left folders, with what was to come after its files.
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
    const segments = names.sort().flatMap((name) => this.#load(`${folder}/${name}`, into))
    const inner = folders.sort().flatMap((name) => this.#absorb(`${folder}/${name}`, into))
    removeFolder(folder)
    return [...segments, ...inner]
  }

  #load(from: string, into: string): Segment[] {
    const path = this.#nextPath(into)
    fs.renameSync(from, path)
    try {
      const { segment, torn } = Segment.load(path)
      const kept = this.#quarantine(torn)
      if (kept) this.#around.onFault(tornEnd(torn.length, kept))
      if (segment.unread > 0) return [segment]
      segment.remove()
    } catch (cause) {
      this.#around.onFault(unreadable(path, 0, path, cause))
    }
    return []
  }

  /** Does without the disk until the next beat. */
  #fail(cause: unknown): void {
    const last = this.#segments.at(-1)
    if (last) this.#seal(last)
    this.#isFailing = true
    log('spool failed: %s', cause)
    if (this.#isReported) return
    this.#isReported = true
    const { directory } = this.#around
    const message = `The spool in ${directory} takes no messages: ${reasonOf(cause)}. They wait in memory, up to maxQueueBytes, until it does: see that the directory can be written and its disk has room.`
    this.#around.onFault(new SpoolError('spool_failed', message, { cause }))
  }

  #renew(): void {
    try {
      const state = this.#lease?.renew()
      if (state === 'taken') this.#giveUp()
      if (state !== 'gone') return
      const { folder } = this.#lease as Lease
      this.#lease = undefined
      throw new Error(`${folder} was removed, and what was on disk only is lost`)
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Another process has taken over: all of this is its to send. Told later, since a call may be under way. */
  #giveUp(): void {
    this.#isTaken = true
    later(() => {
      const message = `This process stood still for so long that another one took over what it had in ${this.#home}, and sends it.`
      const error = new SpoolError('spool_taken', message)
      const segments = this.#segments
      this.#segments = [] // nothing is noted in them any more
      this.#reading = this.#unread = this.#unreadBytes = 0
      const lost = segments.map((segment) => {
        const stretch = segment.lose()
        segment.close()
        return { ...stretch, sequence: segment.firstSequence + stretch.index, error }
      })
      this.#around.onTaken(error, lost)
      this.#lease = undefined
      this.#isTaken = false
    })
  }
}

function unreadable(
  path: string,
  count: number,
  kept: string | undefined,
  cause?: unknown,
): SpoolError {
  const why = cause === undefined ? 'damaged' : reasonOf(cause)
  const where = kept ? ` The bytes are in ${kept}.` : ''
  const message = `${count} messages in ${path} can't be read: ${why}.${where}`
  return new SpoolError('spool_corrupt', message, { cause })
}

function tornEnd(bytes: number, kept: string): SpoolError {
  const message = `${bytes} bytes at the end of the spool were no whole message: see ${kept}. A process that is killed in a call leaves at most that call's; more is the mark of a machine that lost its power.`
  return new SpoolError('spool_corrupt', message)
}

const reasonOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))

/** Writes a file, or a folder's list of files, through to the disk. One that is gone needs no more. */
async function syncFile(path: string): Promise<void> {
  try {
    const file = await fs.promises.open(path, path.endsWith('.log') ? 'r+' : 'r')
    await file.sync().finally(() => file.close())
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // EPERM, EISDIR: Windows has no sync of folders.
    if (code !== 'ENOENT' && code !== 'EPERM' && code !== 'EISDIR') throw error
  }
}
