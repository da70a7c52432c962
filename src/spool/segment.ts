import { crc32, fs, PRIVATE_FILE, statOf } from './node.js'
import {
  findRecords,
  jsonOf,
  makeRecord,
  MAX_RECORD_BYTES,
  RECORD_OVERHEAD,
  scratch,
} from './record.js'

// The head of a segment holds two places, each as index, offset and their CRC-32. Everything before the first place
// has its outcome. The second place is the end. It is written once nothing follows, and shows if a file was cut. Each
// CRC-32 starts with where the place is: if damage moves one to the other's, it does not count there.
const PLACE_BYTES = 12
const HEAD_BYTES = 2 * PLACE_BYTES

/** How much is read at once: the messages of a few bodies. */
const READ_BYTES = 1_048_576

/** Looks, 5 ms apart, from the moment in which a folder is taken over to that in which its files are sealed. */
const SEAL_LOOKS = 20

/** A place between two records. */
interface Place {
  index: number
  offset: number
}

const NO_RECORDS: Place = { index: 0, offset: HEAD_BYTES }

/** Consecutive records of a segment. */
export interface Stretch {
  readonly index: number
  readonly count: number
  /** Size of their JSON. */
  readonly bytes: number
  /** The JSON, if this is one record that is whole. */
  readonly json?: Uint8Array
  /** The bytes that can't be read, if these records are damaged. */
  readonly damaged?: Uint8Array
}

/** What another process left. */
export interface Loaded {
  readonly segment: Segment
  /** The bytes after the last record, which are no whole record. */
  readonly torn: Uint8Array
  /** Whether the file lost its end, and nobody knows how many records it had. */
  readonly isCut: boolean
  /** Whether nobody knows which of its records have their outcome: all of them count as unread. */
  readonly isPlaceLost: boolean
}

/** A record that other records with a later place in the sequence of calls have overtaken. */
export interface Straggler {
  readonly sequence: number
  readonly json: Uint8Array
}

/**
 * A file of records, and how far they have got.
 *
 *     head │ have an outcome │ read, in memory │ unread │
 *                            ↑ #settled        ↑ #read  ↑ #end
 */
export class Segment {
  path: string
  /** Whether nothing is appended any more. */
  isSealed = false
  /** The place of record 0 in the sequence of calls, unless the segment holds stragglers. */
  firstSequence = 0
  /** The sequence of each record in a segment of stragglers: it has gaps. */
  #sequences: readonly number[] | undefined
  /** Its inverse. */
  #indexes: ReadonlyMap<number, number> | undefined
  #fd: number | undefined
  /** Which file it is: another one may come to its path. */
  #ino = 0
  /** Its size when it was loaded: it may have been cut before. */
  #loadedBytes = Infinity
  /** The index of the first straggler when one of them was found damaged on disk. */
  #stuckAt = -1
  #settled: Place = { ...NO_RECORDS }
  #read: Place = { ...NO_RECORDS }
  #end: Place = { ...NO_RECORDS }
  /** Size of each record that has its outcome while an earlier one in this segment has none. */
  readonly #ahead = new Map<number, number>()
  #aheadBytes = 0

  private constructor(path: string, fd: number) {
    this.path = path
    this.#fd = fd
  }

  static create(path: string): Segment {
    const segment = new Segment(path, fs.openSync(path, 'wx+', PRIVATE_FILE))
    try {
      segment.#ino = fs.fstatSync(segment.#open()).ino
      segment.#savePlace(0, segment.#settled)
    } catch (error) {
      segment.remove() // a full disk is tried again and again, and each time would leave an open file
      throw error
    }
    return segment
  }

  /** Makes a sealed segment of records that are in memory already. */
  static ofStragglers(path: string, stragglers: readonly Straggler[]): Segment {
    const segment = Segment.create(path)
    try {
      for (const { json } of stragglers) segment.append(json)
      segment.seal()
    } catch (error) {
      segment.remove()
      throw error
    }
    segment.skip()
    segment.#sequences = stragglers.map(({ sequence }) => sequence)
    segment.#indexes = new Map(segment.#sequences.map((sequence, index) => [sequence, index]))
    segment.firstSequence = stragglers[0]?.sequence ?? 0
    return segment
  }

  /** Opens what another process left. */
  static load(path: string): Loaded {
    const segment = new Segment(path, fs.openSync(path, 'r+'))
    try {
      return { segment, ...segment.#load() }
    } finally {
      segment.close()
    }
  }

  #load(): Omit<Loaded, 'segment'> {
    const head = this.#bytes(0, HEAD_BYTES)
    const settled = placeAt(head, 0)
    const end = placeAt(head, PLACE_BYTES)
    this.#settled = settled ?? this.#settled
    this.isSealed = end !== undefined
    if (end) this.#end = end
    const { index, offset } = this.#settled
    const { ino, size } = fs.fstatSync(this.#open())
    this.#ino = ino
    this.#loadedBytes = size
    // A file that is new has the first place, and nothing else.
    const isCut = !end && size > 0 && size < offset && !(size === PLACE_BYTES && index === 0)
    const torn = end && this.#isInPlace() ? new Uint8Array(0) : this.#search()
    // Records that have their outcome may be missing: they are not needed any more.
    if (this.#end.index <= this.#settled.index) this.#end = { ...this.#settled }
    this.#read = { ...this.#settled }
    return { torn, isCut, isPlaceLost: settled === undefined && this.unread > 0 }
  }

  /** Whether the first record without an outcome is where the head says, if there is one. */
  #isInPlace(): boolean {
    const { index, offset } = this.#settled
    if (index >= this.#end.index) return true
    const [first] = findRecords(this.#bytes(offset, MAX_RECORD_BYTES), true).records
    return first?.from === 0 && first.index === index
  }

  /** Searches all records of a file that has no end, or was damaged. Gives the bytes after the last one if it has no end. */
  #search(): Uint8Array {
    const bytes = fs.readFileSync(this.path)
    const { records } = findRecords(bytes, true)
    const { index, offset } = this.#settled
    const at = records.findIndex((record) => record.index >= index)
    const first = records[at]
    let shift = 0
    if (first && (first.index === index || first.from < offset)) {
      // Damage before this record may have moved it, even to where the head will be written.
      const start = records[at - 1]?.to ?? HEAD_BYTES
      const from = first.index === index ? first.from : Math.min(start, first.from)
      shift = Math.max(0, HEAD_BYTES - from)
      if (shift > 0) fs.writeSync(this.#open(), bytes, 0, bytes.length, shift)
      this.#settled.offset = from + shift
      this.#end.offset += from + shift - offset
    }
    if (this.isSealed) return new Uint8Array(0)
    const last = records.at(-1)
    this.#end = last ? { index: last.index + 1, offset: last.to + shift } : { ...NO_RECORDS }
    const torn = new Uint8Array(bytes.subarray(last?.to ?? HEAD_BYTES))
    if (torn.length > 0) fs.ftruncateSync(this.#open(), this.#end.offset)
    return torn
  }

  /** Whether a message is in this segment, and has no outcome yet. */
  has(sequence: number): boolean {
    const index = this.#indexOf(sequence)
    return index >= this.#settled.index && index < this.#end.index && !this.#ahead.has(index)
  }

  /** NaN for a message that is not among these stragglers. */
  #indexOf(sequence: number): number {
    return this.#indexes ? (this.#indexes.get(sequence) ?? NaN) : sequence - this.firstSequence
  }

  #sequenceOf(index: number): number {
    return this.#sequences?.[index] ?? this.firstSequence + index
  }

  /** Size of the file. */
  get size(): number {
    return this.#end.offset
  }

  /** How many records it was given. */
  get length(): number {
    return this.#end.index
  }

  /** How many records have no outcome. */
  get pending(): number {
    return this.#end.index - this.#settled.index - this.#ahead.size
  }

  /** How many records are on disk only. */
  get unread(): number {
    return this.#end.index - this.#read.index
  }

  /** Size of the records that have their outcome and can't be counted as such on disk. */
  get aheadBytes(): number {
    return this.#aheadBytes
  }

  /** Size of the records that have their outcome. */
  get settledBytes(): number {
    return this.#settled.offset - HEAD_BYTES + this.#aheadBytes
  }

  /** Size of the records that have no outcome. */
  get pendingBytes(): number {
    return this.#end.offset - this.#settled.offset - this.#aheadBytes
  }

  /** Size of the JSON of the unread records. */
  get unreadBytes(): number {
    return bytesBetween(this.#read, this.#end)
  }

  /** Appends a record in one write. From then on the kernel has it, and it outlives the process. */
  append(json: Uint8Array): void {
    const length = makeRecord(json, this.#end.index)
    const written = fs.writeSync(this.#open(), scratch, 0, length, this.#end.offset)
    if (written < length) throw new Error('ENOSPC: the disk took only a part')
    this.#end.index++
    this.#end.offset += length
  }

  /**
   * Forgets the record that was just appended, unless another process has sealed the segment with it. That process may be about
   * to: this one stood still for half a minute, and waits for a moment more.
   */
  retract(json: Uint8Array): boolean {
    for (let look = 0; look < SEAL_LOOKS && this.#sealedLength() === 0; look++) sleep(5)
    if (this.#sealedLength() >= this.#end.index) return false
    this.#end.index--
    this.#end.offset -= json.length + RECORD_OVERHEAD
    return true
  }

  /** With how many records another process has sealed this segment; 0 if none has, or if the disk does not tell. */
  #sealedLength(): number {
    try {
      return placeAt(this.#bytes(0, HEAD_BYTES), PLACE_BYTES)?.index ?? 0
    } catch {
      return 0
    }
  }

  /** Treats all records as read: they are in memory too, or nobody will read them. */
  skip(): void {
    this.#read.index = this.#end.index
    this.#read.offset = this.#end.offset
  }

  /** Gives some of the unread records, and the places where records were that can't be read. */
  read(): Stretch[] {
    const stretches: Stretch[] = []
    const lose = (to: Place) => {
      const { index, offset } = this.#read
      const count = to.index - index
      const damaged = this.#bytes(offset, to.offset - offset)
      const size = Math.max(0, bytesBetween(this.#read, to)) // damage may have taken most of it
      stretches.push({ index, count, bytes: size, damaged })
      this.#read = to
    }
    let { offset } = this.#read
    // Damage may have moved the last records behind the end that was written down.
    const end = Math.max(this.#end.offset, fs.fstatSync(this.#open()).size)
    let isEnd = false
    // Damage may be longer than one read.
    while (!isEnd && stretches.length === 0) {
      const asked = Math.min(READ_BYTES, end - offset)
      const bytes = this.#bytes(offset, asked)
      isEnd = bytes.length < asked || offset + asked >= end
      const { records, seen } = findRecords(bytes, isEnd)
      for (const record of records) {
        const { index } = record
        if (index < this.#read.index || index >= this.#end.index) continue
        if (index > this.#read.index) lose({ index, offset: offset + record.from })
        const json = jsonOf(bytes, record)
        this.#read = { index: index + 1, offset: offset + record.to }
        stretches.push({ index, count: 1, bytes: json.length, json })
      }
      offset += seen
    }
    if (isEnd && this.unread > 0) lose({ index: this.#end.index, offset: end })
    if (this.unread === 0) this.#end.offset = this.#read.offset // where the last record really ends
    return stretches
  }

  /** Gives up the unread records. */
  lose(): Stretch {
    const { unread, unreadBytes } = this
    const { index } = this.#read
    this.skip()
    return { index, count: unread, bytes: unreadBytes }
  }

  /** Notes that a record has its outcome; `bytes` is the size of its JSON. */
  settle(sequence: number, bytes: number): void {
    const settled = this.#settled
    const size = bytes + RECORD_OVERHEAD
    this.#ahead.set(this.#indexOf(sequence), size)
    this.#aheadBytes += size
    for (let next = this.#ahead.get(settled.index); next; next = this.#ahead.get(settled.index)) {
      this.#ahead.delete(settled.index++)
      this.#aheadBytes -= next
      settled.offset += next
    }
  }

  /** Whether messages up to this sequence were read, and are without an outcome. */
  hasStragglers(lastSequence: number): boolean {
    const { index } = this.#settled
    if (index >= this.#read.index || index === this.#stuckAt) return false
    return this.#sequenceOf(index) <= lastSequence
  }

  /**
   * Reads the messages up to this sequence that were read before and have no outcome. If one was damaged on disk, all stay where they
   * are: the next start reads the file from that one on, so the others would be sent twice.
   */
  readStragglers(lastSequence: number): Straggler[] {
    const { index: from, offset } = this.#settled
    const { index: to, offset: end } = this.#read
    const bytes = this.#bytes(offset, end - offset)
    const records = new Map(
      findRecords(bytes, true).records.map((record) => [record.index, record]),
    )
    const stragglers: Straggler[] = []
    for (let index = from; index < to && this.#sequenceOf(index) <= lastSequence; index++) {
      if (this.#ahead.has(index)) continue
      const record = records.get(index)
      if (!record) {
        this.#stuckAt = from // it must not be tried again with each batch
        return []
      }
      stragglers.push({ sequence: this.#sequenceOf(index), json: jsonOf(bytes, record) })
    }
    return stragglers
  }

  /** Writes down how far the outcomes have got, for the next start. */
  saveSettled(): void {
    this.#savePlace(0, this.#settled)
  }

  /** Ends the segment: nothing is appended any more. Closes its file. */
  seal(): void {
    const isNew = !this.isSealed
    this.isSealed = true
    try {
      if (isNew) this.#savePlace(PLACE_BYTES, this.#end)
    } finally {
      this.close()
    }
  }

  /**
   * Looks whether the file is in its place. If a copy that has all of it is there, that one is used from now on.
   *
   * @returns `'removed'` also if somebody has put a shorter one in its place, as a rotation of logs does. A rotation may also have
   * `'cut'` the file, and what was appended since then has filled its start with zeros.
   */
  lookForFile(): 'there' | 'removed' | 'cut' {
    const there = statOf(this.path)
    if (!there || there.size < PLACE_BYTES) return 'removed'
    const isShort = there.size < Math.min(this.#end.offset, this.#loadedBytes)
    if (there.ino === this.#ino) {
      // Only an open file was appended to.
      const hasHead = this.#fd === undefined || placeAt(this.#bytes(0, PLACE_BYTES), 0)
      return isShort || !hasHead ? 'cut' : 'there'
    }
    if (isShort) return 'removed'
    this.close()
    this.#ino = there.ino
    return 'there'
  }

  /** Another file gets the records that are in memory. */
  settleRead(): void {
    this.#settled = { ...this.#read }
    this.#ahead.clear()
    this.#aheadBytes = 0
  }

  remove(): void {
    this.close()
    try {
      fs.rmSync(this.path, { force: true })
    } catch (error) {
      this.saveSettled() // else the next start would send its messages again
      throw error
    }
  }

  #open(): number {
    return (this.#fd ??= fs.openSync(this.path, 'r+'))
  }

  /** Closes the file. It is opened again if need be. */
  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd)
    this.#fd = undefined
  }

  #savePlace(at: number, { index, offset }: Place): void {
    const bytes = new Uint8Array(PLACE_BYTES)
    const view = new DataView(bytes.buffer)
    view.setUint32(0, index)
    view.setUint32(4, offset)
    view.setUint32(8, crc32(bytes.subarray(0, 8), at))
    fs.writeSync(this.#open(), bytes, 0, PLACE_BYTES, at)
  }

  #bytes(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    return bytes.subarray(0, fs.readSync(this.#open(), bytes, 0, length, offset))
  }
}

/** Blocks this thread, since it is in the middle of a call. */
function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

/** Size of the JSON of all records between two places. */
function bytesBetween(from: Place, to: Place): number {
  return to.offset - from.offset - (to.index - from.index) * RECORD_OVERHEAD
}

/** Reads a place; undefined if it is damaged, or impossible: damage may move a record to where a place was. */
function placeAt(bytes: Uint8Array, at: number): Place | undefined {
  if (bytes.length < at + PLACE_BYTES) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, PLACE_BYTES)
  if (view.getUint32(8) !== crc32(bytes.subarray(at, at + 8), at)) return undefined
  const place = { index: view.getUint32(0), offset: view.getUint32(4) }
  return bytesBetween(NO_RECORDS, place) < 0 ? undefined : place
}
