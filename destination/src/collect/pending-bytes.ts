import { storeUnavailable } from '../http/refusal.js'

/**
 * The most bytes of bodies whose calls wait for a commit. A commit takes a few ms, so only a stalled disk or database
 * reaches this. A waiting byte takes several bytes of memory: its text, the parsed call, and the rows for the store.
 */
const MAX_PENDING_BYTES = 32_000_000

/** Counts the bytes of the bodies whose calls wait for a commit. */
export class PendingBytes {
  #bytes = 0

  constructor(readonly maxBytes = MAX_PENDING_BYTES) {}

  /**
   * @param bytes - The size of another body.
   * @throws Refusal with 503 if there is no room for it. A body always has room if no other one waits.
   */
  check(bytes = 0): void {
    if (this.#bytes > 0 && this.#bytes + bytes >= this.maxBytes) {
      throw storeUnavailable('The store is too slow')
    }
  }

  /** Counts a body until its calls are stored, or could not be stored. */
  async during(bytes: number, stored: () => Promise<void>): Promise<void> {
    this.check(bytes)
    this.#bytes += bytes
    try {
      await stored()
    } finally {
      this.#bytes -= bytes
    }
  }
}
