import type { Entry } from '../entry.js'
import type { SpoolError } from '../errors.js'
import { Queue } from '../queue.js'
import type { Callback } from '../types.js'
import { Spool, type Spooled, type SpoolSurroundings } from './spool.js'

/** What waits in memory while the disk has it too: enough to never read in normal operation. */
const WINDOW_BYTES = 8 * 1024 * 1024

interface Surroundings extends Omit<SpoolSurroundings, 'onTaken'> {
  readonly maxQueueBytes: number
  /** These messages can't be read back, or are another process's now. */
  onLost(entries: readonly Entry[], error: SpoolError): void
  /** Give all messages up that are not in this queue: they are another process's now. */
  onTaken(error: SpoolError): void
}

/**
 * A queue that is on disk as well. The oldest messages are in memory, as in {@link Queue}; once there are more
 * than fit, the rest is on disk only, and is read as the first ones leave.
 *
 *     take ← in memory │ unread, on disk only │ ← push
 */
export class SpooledQueue {
  readonly #around: Surroundings
  readonly #memory = new Queue()
  readonly #spool: Spool
  /** Callbacks of messages that are on disk only. */
  readonly #callbacks = new Map<number, Callback>()
  /** How many of these belong to the open batch. */
  #openUnread = 0

  constructor(around: Surroundings) {
    this.#around = around
    this.#spool = new Spool({
      ...around,
      onTaken: (error, unread) => {
        around.onTaken(error)
        for (const spooled of unread) this.#lose(spooled)
      },
    })
  }

  get maxPendingBytes(): number {
    return this.#spool.maxPendingBytes
  }

  get bytes(): number {
    return this.#memory.bytes + this.#spool.unreadBytes
  }

  get openBytes(): number {
    return this.#memory.openBytes
  }

  get openLength(): number {
    return this.#memory.openLength + this.#openUnread
  }

  /** Reads ahead if need be: what is gone from the disk counts no more. */
  get closedLength(): number {
    while (this.#isDrained && this.#spool.unread > this.#openUnread) this.#refill()
    return this.#memory.closedLength
  }

  start(): void {
    this.#spool.start()
  }

  isOurs(): boolean {
    return this.#spool.isOurs()
  }

  push(json: Uint8Array, sequence: number, callback: Callback | undefined): boolean {
    const { maxQueueBytes } = this.#around
    const isInOrder = this.#spool.unread === 0
    const isOnDisk = this.#spool.append(json, sequence)
    // All that is in memory is about to be given up: this one is in nobody's hands.
    if (!isOnDisk && !this.#spool.isOurs()) return false
    const maxBytes = isOnDisk ? Math.min(WINDOW_BYTES, maxQueueBytes) : maxQueueBytes
    if (isInOrder && this.#memory.bytes + json.length <= maxBytes) {
      this.#memory.push(json, sequence, callback)
      if (isOnDisk) this.#spool.skip()
      return true
    }
    if (!isOnDisk) return false
    if (callback) this.#callbacks.set(sequence, callback)
    this.#openUnread++
    return true
  }

  closeBatch(): void {
    this.#memory.closeBatch()
    this.#openUnread = 0
    if (this.#around.fsync === 'batch') void this.#spool.sync()
  }

  take(maxMessages: number, maxBytes: number): Entry[] {
    return this.#memory.take(maxMessages, maxBytes)
  }

  takeOldest(): Entry | undefined {
    while (this.#isDrained && this.#spool.unread > 0) this.#refill()
    return this.#memory.takeOldest()
  }

  /** Takes what is in memory. */
  takeAll(): Entry[] {
    return this.#memory.takeAll()
  }

  /** Leaves to the next start what is on disk: of what was taken, and all that is unread. */
  leave(taken: readonly Entry[]): { lost: Entry[]; callbacks: Callback[] } {
    const isKept = (entry: Entry) => this.#spool.has(entry)
    const lost = taken.filter((entry) => !isKept(entry))
    const callbacks = taken.flatMap((entry) =>
      entry.callback && isKept(entry) ? [entry.callback] : [],
    )
    callbacks.push(...this.#callbacks.values())
    this.#callbacks.clear()
    this.#openUnread = 0
    this.#spool.leave()
    return { lost, callbacks }
  }

  settle(entries: readonly Entry[]): void {
    this.#spool.settle(entries)
  }

  reuseSlab(): void {
    this.#memory.reuseSlab()
  }

  close(): Promise<void> {
    return this.#spool.close()
  }

  get #isDrained(): boolean {
    return this.#memory.closedLength + this.#memory.openLength === 0
  }

  #refill(): void {
    const lost: Spooled[] = []
    for (const spooled of this.#spool.read()) {
      if (!spooled.json) lost.push(spooled)
      else this.#memory.push(spooled.json, spooled.sequence, this.#callbackOf(spooled.sequence))
    }
    this.#memory.closeBatch()
    this.#openUnread = Math.min(this.#openUnread, this.#spool.unread)
    for (const spooled of lost) this.#lose(spooled)
  }

  #lose({ sequence, count, bytes, error }: Spooled): void {
    if (!error) return
    const entries = Array.from({ length: count }, (_, index) => ({
      sequence: sequence + index,
      slab: UNREADABLE,
      start: 0,
      end: index === 0 ? bytes : 0, // how they share it nobody knows
      callback: this.#callbackOf(sequence + index),
    }))
    this.#around.onLost(entries, error)
  }

  #callbackOf(sequence: number): Callback | undefined {
    if (this.#callbacks.size === 0) return undefined
    const callback = this.#callbacks.get(sequence)
    this.#callbacks.delete(sequence)
    return callback
  }
}

const UNREADABLE = new Uint8Array(0)
