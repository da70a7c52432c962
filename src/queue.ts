import { entryBytes, type Entry } from './entry.js'
import type { Callback } from './types.js'

const COMMA = 0x2c
const SLAB_BYTES = 65_536
/** A larger message gets a slab of its own, so that a slab's unused end stays a small part of it. */
const MAX_SHARED_BYTES = SLAB_BYTES / 8
/** Places that were taken are cut off the list once they are most of it, and at least this many. */
const MIN_CUT = 1_024

/**
 * What waits to be sent, in the order of the calls. Messages lie in large slabs of bytes, comma by comma
 * as they will in a body: outside of the heap, at a byte a byte, whatever their characters.
 *
 *     taken │ closed batches │ open batch
 *           │← head          │← closedTo
 */
export class Queue {
  #entries: (Entry | undefined)[] = []
  #head = 0
  #closedTo = 0
  #slab = new Uint8Array(0)
  #slabEnd = 0
  #bytes = 0
  #openBytes = 0

  /** Size of all that waits, in bytes of JSON. */
  get bytes(): number {
    return this.#bytes
  }

  /** Size of the open batch: its messages and their commas. */
  get openBytes(): number {
    return this.#openBytes
  }

  /** How many messages the open batch has. */
  get openLength(): number {
    return this.#entries.length - this.#closedTo
  }

  /** How many messages the closed batches have: these may be sent. */
  get closedLength(): number {
    return this.#closedTo - this.#head
  }

  /** The message that {@link Queue.takeOldest} would take. */
  get oldest(): Entry | undefined {
    return this.#entries[this.#head]
  }

  /** Keeps a copy of a message's JSON at the end of the open batch; true, since there is always room. */
  push(json: Uint8Array, sequence: number, callback: Callback | undefined): boolean {
    const room = 1 + json.length
    let slab = this.#slab
    let at = this.#slabEnd
    if (json.length > MAX_SHARED_BYTES) {
      slab = new Uint8Array(room)
      at = 0
    } else {
      if (at + room > slab.length) {
        this.#slab = slab = new Uint8Array(SLAB_BYTES)
        at = 0
      }
      this.#slabEnd = at + room
    }
    slab[at] = COMMA
    slab.set(json, at + 1)
    this.#entries.push({ sequence, slab, start: at + 1, end: at + room, callback })
    this.#bytes += json.length
    this.#openBytes += room
    return true
  }

  /** Lets everything that waits be sent. */
  closeBatch(): void {
    this.#closedTo = this.#entries.length
    this.#openBytes = 0
  }

  /** Takes the oldest messages of the closed batches that come before a place: as many as fit, and one at least. */
  take(maxMessages: number, maxBytes: number, before = Infinity): Entry[] {
    let end = this.#head
    const last = Math.min(this.#closedTo, end + maxMessages)
    for (let bytes = -1; end < last; end++) {
      const entry = this.#entries[end] as Entry // the places from head on are filled
      bytes += 1 + entryBytes(entry)
      if (entry.sequence >= before || (bytes > maxBytes && end > this.#head)) break
    }
    return this.#cut(end)
  }

  /** The first message of the closed batches from a place on. */
  findFrom(sequence: number): Entry | undefined {
    const closed = this.#entries.slice(this.#head, this.#closedTo) as Entry[]
    return closed.find((entry) => entry.sequence >= sequence)
  }

  /** Takes one message of the closed batches, wherever it is. */
  remove(entry: Entry): void {
    this.#entries.splice(this.#entries.indexOf(entry, this.#head), 1)
    this.#closedTo--
    this.#bytes -= entryBytes(entry)
  }

  /** Takes the oldest message, closed or not; undefined if nothing waits. */
  takeOldest(): Entry | undefined {
    if (this.#head === this.#entries.length) return undefined
    const [oldest] = this.#cut(this.#head + 1)
    return oldest
  }

  /** Takes everything. */
  takeAll(): Entry[] {
    this.closeBatch()
    return this.#cut(this.#closedTo)
  }

  /** Starts over in the slab, once no message of it is needed any more. */
  reuseSlab(): void {
    this.#slabEnd = 0
  }

  #cut(end: number): Entry[] {
    const taken = this.#entries.slice(this.#head, end) as Entry[]
    this.#entries.fill(undefined, this.#head, end)
    this.#head = end
    for (const entry of taken) this.#bytes -= entryBytes(entry)
    if (end > this.#closedTo) {
      for (const entry of taken) this.#openBytes -= 1 + entryBytes(entry)
      this.#closedTo = end
    }
    if (end >= MIN_CUT && end * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(end)
      this.#closedTo -= end
      this.#head = 0
    }
    return taken
  }
}
