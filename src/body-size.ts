import { halfOf } from './batch.js'
import type { Batch } from './entry.js'
import { MAX_BODY_MESSAGES } from './limits.js'

/** A client that knows nothing of its endpoint yet joins at most this many messages that piled up. */
const FIRST_MESSAGES = 100

/** The search for the largest body that a server takes ends within this part of it. */
const SEARCH_PRECISION = 0.1

/**
 * How large the next body may be: what this endpoint has shown it can take within the timeout.
 *
 * The time of a request has a fixed part, which no smaller body would save, and a part that grows with the
 * messages. A body doubles after a success as long as the growing part of twice the messages would need at
 * most half of the time that the fixed part leaves, and halves after a timeout. So a backlog never grows into
 * bodies that a slow collector stores but does not answer in time, only to get them again.
 */
export class BodySize {
  readonly #maxMessages: number
  readonly #maxBytes: number
  readonly #timeoutMs: number
  #messages: number
  #bytes: number
  /** The time that no smaller body would save, as far as it is known. */
  #fixedMs = 0
  #last: { messages: number; durationMs: number } | undefined
  /** The smallest body that was answered with 413. */
  #tooLargeBytes = Infinity

  constructor(limits: { flushAt: number; maxBatchBytes: number; timeoutMs: number }) {
    const { flushAt, maxBatchBytes, timeoutMs } = limits
    this.#maxMessages = flushAt === 1 ? 1 : MAX_BODY_MESSAGES
    this.#maxBytes = maxBatchBytes
    this.#timeoutMs = timeoutMs
    this.#messages = Math.min(this.#maxMessages, Math.max(flushAt, FIRST_MESSAGES))
    this.#bytes = maxBatchBytes
  }

  /** The most messages of the next body. */
  get messages(): number {
    return this.#messages
  }

  /** The most bytes of the next body. A single message may be larger. */
  get bytes(): number {
    return this.#bytes
  }

  /** A server accepted a body after so much time. */
  accepted(batch: Batch, durationMs: number): void {
    const { entries, bodyBytes } = batch
    this.#estimate(entries.length, durationMs)
    const growingMs = durationMs - this.#fixedMs
    const leftMs = this.#timeoutMs - this.#fixedMs
    if (growingMs > leftMs * 0.75) {
      this.#messages = halfOf(batch)
    } else if (growingMs * 2 <= leftMs / 2) {
      if (entries.length * 2 > this.#messages) {
        this.#messages = Math.min(this.#maxMessages, this.#messages * 2)
      }
      if (bodyBytes * 2 > this.#bytes) this.#growBytes(bodyBytes)
    }
  }

  /** Two bodies of which one has at least twice the messages show what a message costs, and what a request. */
  #estimate(messages: number, durationMs: number): void {
    const last = this.#last
    if (!last) this.#fixedMs = durationMs
    else if (messages >= last.messages * 2 || messages * 2 <= last.messages) {
      const messageMs = (durationMs - last.durationMs) / (messages - last.messages)
      this.#fixedMs = Math.max(0, durationMs - Math.max(0, messageMs) * messages)
    } else {
      this.#fixedMs = Math.min(this.#fixedMs, durationMs)
      return // the older one stays to compare with
    }
    this.#last = { messages, durationMs }
  }

  /** No answer came within the timeout. */
  timedOut(batch: Batch): void {
    this.#messages = halfOf(batch)
    this.#last = { messages: batch.entries.length, durationMs: this.#timeoutMs }
  }

  /** A server answered 413 to a body of several messages. */
  tooLarge({ bodyBytes }: Batch): void {
    this.#tooLargeBytes = Math.min(this.#tooLargeBytes, bodyBytes)
    this.#bytes = Math.min(this.#bytes, Math.floor(bodyBytes / 2))
  }

  /** A single message was answered 413: it may be the reason why the bodies that held it were. */
  forgetTooLarge(): void {
    this.#tooLargeBytes = Infinity
    this.#bytes = this.#maxBytes
  }

  /** Grows half the way to what is known to be too large, and stops close to it. */
  #growBytes(takenBytes: number): void {
    const isFound = this.#tooLargeBytes - this.#bytes < this.#tooLargeBytes * SEARCH_PRECISION
    if (isFound || takenBytes >= this.#tooLargeBytes) return
    const halfWay = Math.floor((this.#bytes + this.#tooLargeBytes) / 2)
    this.#bytes = Math.min(this.#maxBytes, this.#bytes * 2, halfWay)
  }
}
