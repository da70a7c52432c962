import { overloaded, storeUnavailable } from './refusal.js'

/**
 * The most bytes of bodies whose calls wait to be read or for a commit, and as many of the messages that were made of them. Reading and
 * a commit take a few ms, so only more calls than this machine can read, or a stalled disk or database, reach this. A waiting byte takes
 * several bytes of memory: its text, the parsed call, and the rows for the store.
 */
const MAX_PENDING_BYTES = 32_000_000

/** The share of them that one source may take, so that one that floods the destination leaves room for others. */
const SOURCE_SHARE = 1 / 2

/** Counts the bytes of what waits: the bodies whose calls are to be read or stored, or the messages that were made of them. */
export class PendingBytes {
  #bytes = 0
  /** How many of them wait for the store. The others wait to be read. */
  #storing = 0
  readonly #bySource = new Map<string, number>()

  constructor(readonly maxBytes = MAX_PENDING_BYTES) {}

  /**
   * @param bytes - The size of another body.
   * @throws Refusal with 503 if there is no room for it. It names what most of the bytes wait for. A body always has room if no other
   * one waits.
   */
  check(source: string, bytes = 0): void {
    const own = this.#bySource.get(source) ?? 0
    const isFull = this.#bytes > 0 && this.#bytes + bytes >= this.maxBytes
    const isShareFull = own > 0 && own + bytes >= this.maxBytes * SOURCE_SHARE
    if (!isFull && !isShareFull) return
    if (this.#storing >= this.#bytes / 2) throw storeUnavailable('The store is too slow')
    throw overloaded('Calls arrive faster than they can be read')
  }

  /** Checks a body, and counts it until its calls are stored, or could not be stored. */
  async during<T>(source: string, bytes: number, work: () => Promise<T>): Promise<T> {
    this.check(source, bytes)
    this.#add(source, bytes)
    try {
      return await work()
    } finally {
      this.#add(source, -bytes)
    }
  }

  /** Notes that the calls of a body have been read, and wait for the store. */
  async storing<T>(bytes: number, stored: () => Promise<T>): Promise<T> {
    this.#storing += bytes
    try {
      return await stored()
    } finally {
      this.#storing -= bytes
    }
  }

  /** Counts messages without a check, until they are stored, or could not be stored. */
  async hold<T>(source: string, bytes: number, stored: () => Promise<T>): Promise<T> {
    this.#add(source, bytes)
    try {
      return await this.storing(bytes, stored)
    } finally {
      this.#add(source, -bytes)
    }
  }

  #add(source: string, bytes: number): void {
    this.#bytes += bytes
    const own = (this.#bySource.get(source) ?? 0) + bytes
    if (own > 0) this.#bySource.set(source, own)
    else this.#bySource.delete(source)
  }
}
