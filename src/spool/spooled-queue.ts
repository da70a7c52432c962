import type { Entry } from '../entry.js'
import type { SpoolError } from '../errors.js'
import { MAX_BODY_MESSAGES } from '../limits.js'
import { Queue } from '../queue.js'
import { detached, later } from '../runtime.js'
import type { Callback } from '../types.js'
import type { Segments, Spooled } from './segments.js'
import { Spool, type SpoolSurroundings } from './spool.js'

/** How much of what is on disk waits in memory too: so much that normal operation never reads the disk. */
const MAX_WINDOW_BYTES = 8 * 1024 * 1024

/** How much is written to a disk that works again in one turn of the event loop. */
const SLICE_BYTES = 256 * 1024

interface Surroundings extends Omit<SpoolSurroundings, 'onGone' | 'onReady'> {
  readonly maxQueueBytes: number
  /** The disk takes messages and can be read, for the first time or still. */
  onReady(): void
  /** These messages, as many as a report may have, can't be read any more. It is never called inside a call. */
  onLost(entries: readonly Entry[], error: SpoolError): void
  /**
   * Files are gone, or another process has them. Take all messages from everywhere and give them to `divide`: it gives back those
   * that are the other process's now, and returns the rest to this queue.
   */
  onGone(error: SpoolError, divide: (entries: readonly Entry[]) => Entry[]): void
}

/**
 * A queue that is on disk as well. The oldest messages are in memory, as in {@link Queue}. Once there are more than
 * fit, the others are on disk only, and are read when the first ones have left. While the disk takes no messages, new
 * ones wait in memory behind all others. They are written to the disk when it works again, also those that were taken.
 *
 *     take ← in memory │ unread, on disk only │ in memory only ← push
 *            #memory     #spool                 #unspooled
 */
export class SpooledQueue {
  readonly #around: Surroundings
  readonly #windowBytes: number
  readonly #memory = new Queue()
  readonly #spool: Spool
  readonly #onDisk: Segments
  readonly #unspooled = new Queue()
  /** Messages that were taken, and are in memory only. */
  readonly #taken = new Map<number, Entry>()
  /** Callbacks of messages that are on disk only. */
  readonly #callbacks = new Map<number, Callback>()
  /** How many unread messages belong to the open batch. */
  #openUnread = 0
  /** What can't be read any more, and is not reported yet. */
  readonly #lost: Spooled[] = []

  constructor(around: Surroundings) {
    this.#around = around
    // Half of what memory may hold, so that there is room when the disk fails.
    this.#windowBytes = Math.min(MAX_WINDOW_BYTES, around.maxQueueBytes / 2)
    this.#spool = new Spool({
      ...around,
      onReady: () => {
        this.#returnToDisk()
        around.onReady()
      },
      onGone: (error, isTaken, unread) => {
        around.onGone(error, (entries) => this.#divide(entries, isTaken))
        for (const spooled of unread) this.#lose(spooled)
      },
    })
    this.#onDisk = this.#spool.segments
  }

  get maxPendingBytes(): number {
    return this.#onDisk.maxPendingBytes
  }

  /**
   * Whether there is room for a message: on disk or, while that takes none, in memory. What was taken over may be more than
   * fits on disk. A message then takes the room of those that were dropped for it, which had `freedBytes`.
   */
  hasRoom(bytes: number, freedBytes = 0): boolean {
    if (!this.#isDiskNext) return this.#fitsInMemory(bytes)
    return freedBytes >= bytes || this.#onDisk.hasRoom(bytes)
  }

  /** Whether the next message goes to disk, as far as is known. */
  get #isDiskNext(): boolean {
    return this.#spool.isReady && this.#isSpooled
  }

  /** Whether all messages are on disk. */
  get #isSpooled(): boolean {
    return this.#taken.size === 0 && !this.#unspooled.oldest
  }

  get bytes(): number {
    return this.#memory.bytes + this.#onDisk.unreadBytes + this.#unspooled.bytes
  }

  get openBytes(): number {
    return this.#memory.openBytes + this.#unspooled.openBytes
  }

  get openLength(): number {
    return this.#memory.openLength + this.#openUnread + this.#unspooled.openLength
  }

  /** Reads ahead if need be: messages that can't be read any more don't count. */
  get closedLength(): number {
    this.#fill(this.#openUnread)
    return this.#first.closedLength
  }

  start(): void {
    this.#spool.start()
  }

  /** Takes over nothing more of dead processes: this client ends. */
  adoptNoMore(): void {
    this.#spool.adoptNoMore()
  }

  isOurs(): boolean {
    return this.#spool.isOurs()
  }

  push(json: Uint8Array, sequence: number, callback: Callback | undefined): boolean {
    // Order: while messages wait in memory only, new ones wait behind them.
    if (!this.#isSpooled || !this.#spool.append(json, sequence)) {
      return this.#fitsInMemory(json.length) && this.#unspooled.push(json, sequence, callback)
    }
    const isNext = this.#onDisk.unread === 1
    if (isNext && this.#memory.bytes + json.length <= this.#windowBytes) {
      this.#onDisk.skip()
      return this.#memory.push(json, sequence, callback)
    }
    if (callback) this.#callbacks.set(sequence, callback)
    this.#openUnread++
    return true
  }

  closeBatch(): void {
    this.#memory.closeBatch()
    this.#unspooled.closeBatch()
    this.#openUnread = 0
    void this.#onDisk.sync()
  }

  take(maxMessages: number, maxBytes: number, before?: number): Entry[] {
    const first = this.#first
    const taken = first.take(maxMessages, maxBytes, before)
    if (first === this.#unspooled) for (const entry of taken) this.#taken.set(entry.sequence, entry)
    return taken
  }

  /** Looks in memory only: what is on disk stays there. */
  findFrom(sequence: number): Entry | undefined {
    this.#fill(this.#openUnread)
    return this.#first.findFrom(sequence)
  }

  remove(entry: Entry): void {
    const first = this.#first
    first.remove(entry)
    if (first === this.#unspooled) this.#taken.set(entry.sequence, entry)
  }

  /** Takes the oldest message that takes up the room of the next one, which is on disk or in memory. */
  takeOldest(): Entry | undefined {
    if (this.#isDiskNext) this.#fill(0)
    return this.#memory.takeOldest() ?? this.#unspooled.takeOldest()
  }

  /** Takes all messages that are in memory. */
  takeAll(): Entry[] {
    if (this.#spoolTaken()) while (this.#spoolOldest() > 0);
    return [...this.#memory.takeAll(), ...this.#unspooled.takeAll()]
  }

  /**
   * Leaves the messages on disk to the next start, the unread ones and those among `taken`.
   *
   * @returns how many are kept so, with their callbacks, and those that are lost
   */
  leave(taken: readonly Entry[]): { kept: number; lost: Entry[]; callbacks: Callback[] } {
    this.#spool.recheck()
    this.#spool.keep(taken)
    const lost: Entry[] = []
    const callbacks: Callback[] = []
    for (const entry of taken) {
      if (!this.#spool.has(entry)) lost.push(entry)
      else if (entry.callback) callbacks.push(entry.callback)
    }
    const kept = taken.length - lost.length + this.#onDisk.unread
    // Those of messages that are lost are called when that is reported.
    for (const sequence of this.#callbacks.keys()) {
      const isKept = this.#spool.has({ sequence }) && !this.#isLost(sequence)
      const callback = isKept ? this.#callbackOf(sequence) : undefined
      if (callback) callbacks.push(callback)
    }
    this.#openUnread = 0
    this.#spool.leave(taken)
    return { kept, lost, callbacks }
  }

  /** Runs `act` in a later turn of the event loop, once it is reported what files of the spool have cost. */
  afterLosses(act: () => void): void {
    later(() => {
      if (this.#lost.length > 0) this.afterLosses(act)
      else act()
    })
  }

  settle(entries: readonly Entry[]): void {
    if (this.#taken.size > 0) for (const { sequence } of entries) this.#taken.delete(sequence)
    this.#spool.settle(entries)
  }

  reuseSlab(): void {
    this.#memory.reuseSlab()
    this.#unspooled.reuseSlab()
  }

  close(): Promise<void> {
    return this.#spool.close()
  }

  #fitsInMemory(bytes: number): boolean {
    return this.#memory.bytes + this.#unspooled.bytes + bytes <= this.#around.maxQueueBytes
  }

  /** Gets messages from disk into memory if there are none, but for the last `except`. */
  #fill(except: number): void {
    while (this.#isDrained && this.#onDisk.unread > except) if (!this.#refill()) return
  }

  get #isDrained(): boolean {
    return this.#memory.oldest === undefined
  }

  /** Where the next messages are that can be taken. */
  get #first(): Queue {
    return this.#isDrained && this.#onDisk.unread === 0 ? this.#unspooled : this.#memory
  }

  /** Reads on; false if nothing can be read at the moment. */
  #refill(): boolean {
    const spooled = this.#onDisk.read()
    for (const { json, sequence } of spooled) {
      if (json) this.#memory.push(json, sequence, this.#callbackOf(sequence))
    }
    this.#memory.closeBatch()
    this.#openUnread = Math.min(this.#openUnread, this.#onDisk.unread)
    for (const each of spooled) if (!each.json) this.#lose(each)
    return spooled.length > 0
  }

  /** Writes to disk what is in memory only, in slices: a turn of the event loop must stay short. */
  readonly #returnToDisk = detached(() => {
    if (!this.#spoolTaken()) return
    for (let left = SLICE_BYTES; left > 0;) {
      const bytes = this.#spoolOldest()
      if (bytes === 0) return
      left -= bytes
    }
    later(this.#returnToDisk)
  })

  /** Writes the messages to disk that were taken while it took none. False if that failed. */
  #spoolTaken(): boolean {
    if (!this.#spool.keep([...this.#taken.values()])) return false
    this.#taken.clear()
    return true
  }

  /** Writes the oldest message that waits in memory only to disk. Gives its size, 0 if that failed or there is none. */
  #spoolOldest(): number {
    const { oldest } = this.#unspooled
    if (!oldest) return 0
    const json = oldest.slab.subarray(oldest.start, oldest.end)
    if (!this.#onDisk.hasRoom(json.length) || !this.#spool.append(json, oldest.sequence)) return 0
    if (this.#unspooled.closedLength === 0) this.#openUnread++
    if (oldest.callback) this.#callbacks.set(oldest.sequence, oldest.callback)
    this.#unspooled.takeOldest()
    return json.length
  }

  /** Gives the messages that are another process's now. The others wait here again, in their order. */
  #divide(entries: readonly Entry[], isTaken: (entry: Entry) => boolean): Entry[] {
    const ours = entries.filter((entry) => !isTaken(entry))
    this.#spool.keep(ours)
    for (const entry of ours) {
      const { slab, start, end, sequence, callback } = entry
      const queue = this.#spool.has(entry) ? this.#memory : this.#unspooled
      queue.push(slab.subarray(start, end), sequence, callback)
    }
    this.closeBatch()
    return entries.filter(isTaken)
  }

  #lose(spooled: Spooled): void {
    if (spooled.count > 0 && this.#lost.push(spooled) === 1) later(this.#reportLost)
  }

  /** Reports a batch of what is lost, and the next one in another turn of the event loop: a turn must stay short. */
  readonly #reportLost = detached(() => {
    const lost = this.#lost.shift()
    if (!lost?.error) return
    const { sequence, bytes, error } = lost
    const count = Math.min(lost.count, MAX_BODY_MESSAGES)
    const left = lost.count - count
    if (left > 0) this.#lost.unshift({ ...lost, sequence: sequence + count, count: left, bytes: 0 })
    if (this.#lost.length > 0) later(this.#reportLost)
    const entries = Array.from({ length: count }, (_, index) => ({
      sequence: sequence + index,
      slab: UNREADABLE,
      start: 0,
      end: index === 0 ? bytes : 0, // the size of each is unknown
      callback: this.#callbackOf(sequence + index),
    }))
    this.#around.onLost(entries, error)
  })

  #isLost(sequence: number): boolean {
    return this.#lost.some(
      (lost) => sequence >= lost.sequence && sequence < lost.sequence + lost.count,
    )
  }

  #callbackOf(sequence: number): Callback | undefined {
    if (this.#callbacks.size === 0) return undefined
    const callback = this.#callbacks.get(sequence)
    this.#callbacks.delete(sequence)
    return callback
  }
}

const UNREADABLE = new Uint8Array(0)
