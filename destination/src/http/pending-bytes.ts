import { storeUnavailable } from './refusal.js'

/**
 * The most bytes of bodies whose calls wait for a commit, and as many of the messages that were made of them. A commit takes a few ms, so
 * only a stalled disk or database reaches this. A waiting byte takes several bytes of memory: its text, the parsed call, and the rows
 * for the store.
 */
const MAX_PENDING_BYTES = 32_000_000

/** The share of them that one source may take, so that one that floods the destination leaves room for others. */
const SOURCE_SHARE = 1 / 2

/** Counts the bytes of what waits: the bodies whose calls are to be read or stored, or the messages that were made of them. */
export class PendingBytes {
  #bytes = 0
  readonly #bySource = new Map<string, number>()

  constructor(readonly maxBytes = MAX_PENDING_BYTES) {}

  /**
   * @param bytes - The size of another body.
   * @throws Refusal with 503 if there is no room for it. A body always has room if no other one waits.
   */
  check(source: string, bytes = 0): void {
    const own = this.#bySource.get(source) ?? 0
    const isFull = this.#bytes > 0 && this.#bytes + bytes >= this.maxBytes
    const isShareFull = own > 0 && own + bytes >= this.maxBytes * SOURCE_SHARE
    if (isFull || isShareFull) throw storeUnavailable('The store is too slow')
  }

  /** Checks a body, and counts it until its calls are stored, or could not be stored. */
  during<T>(source: string, bytes: number, stored: () => Promise<T>): Promise<T> {
    this.check(source, bytes)
    return this.hold(source, bytes, stored)
  }

  /** Counts bytes without a check, until they are stored, or could not be stored. */
  async hold<T>(source: string, bytes: number, stored: () => Promise<T>): Promise<T> {
    this.#add(source, bytes)
    try {
      return await stored()
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
