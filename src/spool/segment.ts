import { crc32, fs, PRIVATE_FILE } from './node.js'
import { findRecords, jsonOf, makeRecord, RECORD_OVERHEAD, scratch } from './record.js'

// A segment's head: two places in it, each as index, offset and their CRC-32. The first moves with what has
// an outcome. The second is the end, written once nothing follows: it tells a file that was cut.
const PLACE_BYTES = 12
const HEAD_BYTES = 2 * PLACE_BYTES

/** Read in one go: a few bodies. */
const READ_BYTES = 1_048_576

/** A place between two records. */
interface Place {
  index: number
  offset: number
}

/** Records that follow each other, and what is left of them. */
export interface Stretch {
  readonly index: number
  readonly count: number
  /** Size of their JSON. */
  readonly bytes: number
  /** Of one record that is whole. */
  readonly json?: Uint8Array
  /** Where several were: what can't be read. */
  readonly damaged?: Uint8Array
}

/**
 * A file of records, and what became of them.
 *
 *     head │ have an outcome │ read, in memory │ unread │
 *                            ↑ #settled        ↑ #read  ↑ #end
 */
export class Segment {
  path: string
  /** The place of record 0 in the sequence of calls. */
  firstSequence = 0
  #fd: number | undefined
  #isSealed = false
  #settled: Place = { index: 0, offset: HEAD_BYTES }
  #read: Place = { index: 0, offset: HEAD_BYTES }
  #end: Place = { index: 0, offset: HEAD_BYTES }
  /** Bytes of records that have an outcome before one that precedes them has. */
  readonly #ahead = new Map<number, number>()

  private constructor(path: string, fd: number) {
    this.path = path
    this.#fd = fd
  }

  static create(path: string): Segment {
    const segment = new Segment(path, fs.openSync(path, 'wx+', PRIVATE_FILE))
    try {
      segment.#savePlace(0, segment.#settled)
    } catch (error) {
      segment.remove() // a disk that is full is asked again and again: each time would leave a file open
      throw error
    }
    return segment
  }

  /** Opens what another process left. Gives what follows its last record too, if anything does. */
  static load(path: string): { segment: Segment; torn: Uint8Array } {
    const segment = new Segment(path, fs.openSync(path, 'r+'))
    try {
      return { segment, torn: segment.#load() }
    } finally {
      segment.close()
    }
  }

  #load(): Uint8Array {
    const head = this.#bytes(0, HEAD_BYTES)
    const settled = placeAt(head, 0)
    const end = placeAt(head, PLACE_BYTES)
    let torn = new Uint8Array(0)
    if (end) {
      this.#isSealed = true
      this.#end = end
    } else {
      const bytes = fs.readFileSync(this.path).subarray(HEAD_BYTES)
      const last = findRecords(bytes, true).records.at(-1)
      if (last) this.#end = { index: last.index + 1, offset: HEAD_BYTES + last.to }
      torn = new Uint8Array(bytes.subarray(last?.to ?? 0))
      if (torn.length > 0) fs.ftruncateSync(this.#open(), this.#end.offset)
    }
    if (settled) this.#settled = settled
    // What has its outcome needs no record any more, and is not sent again for want of one.
    if (isBefore(this.#end, this.#settled)) this.#end = { ...this.#settled }
    this.#read = { ...this.#settled }
    return torn
  }

  get isSealed(): boolean {
    return this.#isSealed
  }

  /** Whether a message is in here, and has no outcome yet. */
  has(sequence: number): boolean {
    const index = sequence - this.firstSequence
    return index >= this.#settled.index && index < this.#end.index
  }

  /** Size of the file. */
  get size(): number {
    return this.#end.offset
  }

  /** How many records it has had. */
  get length(): number {
    return this.#end.index
  }

  /** How many records have no outcome. */
  get pending(): number {
    return this.#end.index - this.#settled.index - this.#ahead.size
  }

  get unread(): number {
    return this.#end.index - this.#read.index
  }

  /** Size of the JSON of what is unread. */
  get unreadBytes(): number {
    return bytesBetween(this.#read, this.#end)
  }

  /** Appends a record, in one write: what the kernel has outlives the process. */
  append(json: Uint8Array): void {
    const length = makeRecord(json, this.#end.index)
    const written = fs.writeSync(this.#open(), scratch, 0, length, this.#end.offset)
    if (written < length) throw new Error('ENOSPC: the disk took only a part of a record')
    this.#end.index++
    this.#end.offset += length
  }

  /** What was appended is in memory too: it need not be read. */
  skip(): void {
    this.#read.index = this.#end.index
    this.#read.offset = this.#end.offset
  }

  /** Reads on: some of the unread records, and where some were. */
  read(): Stretch[] {
    const stretches: Stretch[] = []
    const lose = (to: Place) => {
      const { index, offset } = this.#read
      const count = to.index - index
      const damaged = this.#bytes(offset, to.offset - offset)
      stretches.push({ index, count, bytes: bytesBetween(this.#read, to), damaged })
      this.#read = to
    }
    let { offset } = this.#read
    let isEnd = false
    // A stretch that is damaged may be longer than one read.
    while (!isEnd && stretches.length === 0) {
      const asked = Math.min(READ_BYTES, this.#end.offset - offset)
      const bytes = this.#bytes(offset, asked)
      isEnd = bytes.length < asked || offset + asked >= this.#end.offset
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
    if (isEnd && this.unread > 0) lose({ ...this.#end })
    return stretches
  }

  /** Gives up what is unread. */
  lose(): Stretch {
    const { unread, unreadBytes } = this
    const { index } = this.#read
    this.skip()
    return { index, count: unread, bytes: unreadBytes }
  }

  /** A record has its outcome. */
  settle(sequence: number, bytes: number): void {
    const settled = this.#settled
    const index = sequence - this.firstSequence
    if (index !== settled.index) {
      this.#ahead.set(index, bytes)
      return
    }
    for (let next: number | undefined = bytes; next !== undefined;) {
      settled.index++
      settled.offset += next + RECORD_OVERHEAD
      if (this.#ahead.size === 0) return
      next = this.#ahead.get(settled.index)
      this.#ahead.delete(settled.index)
    }
  }

  /** Lets the next start know what has its outcome. */
  saveSettled(): void {
    this.#savePlace(0, this.#settled)
  }

  /** Nothing is appended any more. */
  seal(): void {
    if (this.#isSealed) return
    this.#isSealed = true
    try {
      this.#savePlace(PLACE_BYTES, this.#end)
    } finally {
      this.close()
    }
  }

  remove(): void {
    this.close()
    fs.rmSync(this.path, { force: true })
  }

  #open(): number {
    return (this.#fd ??= fs.openSync(this.path, 'r+'))
  }

  /** Lets go of the file; it is opened again if need be. */
  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd)
    this.#fd = undefined
  }

  #savePlace(at: number, { index, offset }: Place): void {
    const bytes = new Uint8Array(PLACE_BYTES)
    const view = new DataView(bytes.buffer)
    view.setUint32(0, index)
    view.setUint32(4, offset)
    view.setUint32(8, crc32(bytes.subarray(0, 8)))
    fs.writeSync(this.#open(), bytes, 0, PLACE_BYTES, at)
  }

  #bytes(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    return bytes.subarray(0, fs.readSync(this.#open(), bytes, 0, length, offset))
  }
}

/** Size of the JSON of all records between two places. */
function bytesBetween(from: Place, to: Place): number {
  return to.offset - from.offset - (to.index - from.index) * RECORD_OVERHEAD
}

const isBefore = (one: Place, other: Place) => one.index < other.index || one.offset < other.offset

/** A place that is what was written, and can be one: damage may put a record where a place was. */
function placeAt(bytes: Uint8Array, at: number): Place | undefined {
  if (bytes.length < at + PLACE_BYTES) return undefined
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, PLACE_BYTES)
  if (view.getUint32(8) !== crc32(bytes.subarray(at, at + 8))) return undefined
  const place = { index: view.getUint32(0), offset: view.getUint32(4) }
  return bytesBetween({ index: 0, offset: HEAD_BYTES }, place) < 0 ? undefined : place
}
