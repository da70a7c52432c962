import { entryBytes, type Batch, type Entry } from './entry.js'
import { RejectedError } from './errors.js'
import type { Hold } from './exit.js'
import { Flushes } from './flushes.js'
import type { HooklineError } from './hookline-error.js'
import { MAX_BODY_MESSAGES } from './limits.js'
import type { Log } from './log.js'
import { readRejections, type Rejection } from './rejections.js'
import { nowMs } from './runtime.js'
import { isAskedFor, type Loss, type Teller } from './teller.js'
import type { FlushResult, Stats } from './types.js'
import { causeOf } from './warnings.js'

type Outcome = 'delivered' | 'rejected' | 'dropped'

/** Who else has to know of outcomes. */
interface Surroundings {
  readonly log: Log
  readonly teller: Teller
  /** Runs something in a later turn of the event loop. */
  later(act: () => void): void
  /** These messages have their outcome. */
  onSettled(entries: readonly Entry[]): void
  /** No message is pending any more, but for those that were left on disk. */
  onEmpty(): void
  /** Keeps the process alive for those who wait. */
  readonly hold: Pick<Hold, 'until'>
}

/** Keeps the books: what became of each message. */
export class Books {
  readonly #around: Surroundings
  readonly #flushes = new Flushes()
  readonly #counts = { accepted: 0, delivered: 0, rejected: 0, dropped: 0 }
  /** Of the dropped messages, those that the application asked to drop. */
  #askedFor = 0
  #lastSequence = 0
  #lastOutcomeMs = 0
  #pendingBytes = 0
  #postponed = 0

  constructor(around: Surroundings) {
    this.#around = around
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  get pending(): number {
    const { accepted, delivered, rejected, dropped } = this.#counts
    return accepted - delivered - rejected - dropped
  }

  /** How many messages somebody may wait for: those that were left on disk wait for another start. */
  get awaited(): number {
    return this.pending - this.#postponed
  }

  /** How many messages were left on disk for another start. */
  get postponed(): number {
    return this.#postponed
  }

  /** When a message had its outcome last, on the clock of `nowMs()`. */
  get lastOutcomeMs(): number {
    return this.#lastOutcomeMs
  }

  stats(): Stats {
    return { ...this.#counts, pending: this.pending, pendingBytes: this.#pendingBytes }
  }

  /** What became of all messages since the client was made, but for those that were to be dropped. */
  totals(): FlushResult {
    const { delivered, rejected, dropped } = this.#counts
    return { delivered, failed: rejected + dropped - this.#askedFor }
  }

  /** The place of the next message in the sequence. */
  get nextSequence(): number {
    return this.#lastSequence + 1
  }

  /** Enters one or more messages as pending. */
  accept(bytes: number, count = 1): void {
    this.#pendingBytes += bytes
    this.#counts.accepted += count
    this.#flushes.accepted(count)
    this.#lastSequence += count
    this.#around.teller.queued(this.#lastSequence)
  }

  /**
   * Resolves once all that is pending now has its outcome, or after the timeout with what has it by then.
   *
   * @param isHolding - whether the process stays alive meanwhile
   */
  settled(timeoutMs: number, isHolding = true): Promise<FlushResult> {
    const { teller, hold } = this.#around
    let settled: Promise<FlushResult> = Promise.resolve({ delivered: 0, failed: 0 })
    // Before the callbacks, which may record more.
    if (this.awaited > 0) {
      settled = this.#flushes.wait(this.#lastSequence, timeoutMs)
      if (isHolding) hold.until(settled)
    }
    teller.tellNow()
    return settled.then((result) => teller.afterTelling(result))
  }

  /** A server accepted a batch, but for those of its messages that the answer names. */
  delivered(batch: Batch, { status, body }: { status: number; body: string }): void {
    const { entries } = batch
    const rejections = readRejections(body, entries.length)
    for (const [index, rejection] of rejections) {
      this.lost('rejected', entries.slice(index, index + 1), toError(rejection, status))
    }
    const isTaken = (_: Entry, index: number) => !rejections.has(index)
    const taken = rejections.size > 0 ? entries.filter(isTaken) : entries
    this.#count('delivered', taken)
    this.#forget(taken)
    this.#around.teller.delivered(taken, batch)
  }

  /**
   * These messages are lost, and will not be tried again. Of many, a batch is told in each turn of the event loop.
   *
   * @param then - comes when all of them have been told
   */
  lost(
    outcome: 'rejected' | 'dropped',
    entries: readonly Entry[],
    error: HooklineError,
    then?: () => void,
  ): void {
    const some = entries.slice(0, MAX_BODY_MESSAGES)
    if (some.length > 0) {
      this.#logLoss(outcome, some, error)
      this.#count(outcome, some)
      this.#around.teller.lost(some, error)
      this.#forget(some) // if the process ends before, the next one finds them on disk
    }
    if (some.length === entries.length) then?.()
    else {
      this.#around.later(() => {
        this.lost(outcome, entries.slice(MAX_BODY_MESSAGES), error, then)
      })
    }
  }

  /** A message was accepted, and dropped at once. It is told later: never inside the call. */
  droppedAtCall(loss: Loss): void {
    this.#counts.accepted++
    this.#counts.dropped++
    if (isAskedFor(loss.error)) this.#askedFor++
    this.#around.teller.tellLater(loss)
  }

  /** A message that was queued is lost, perhaps inside the call of another one. It is told later. */
  lostMeanwhile(entry: Entry, error: HooklineError): void {
    this.#logLoss('dropped', [entry], error)
    this.#around.teller.lostMeanwhile(entry, error)
    this.#count('dropped', [entry])
    this.#forget([entry])
  }

  /**
   * So many messages stay pending, and are safe where they are: nobody needs to wait for them here.
   *
   * @returns lets those go who wait for them
   */
  postpone(count: number): () => void {
    this.#postponed += count
    return this.#flushes.end(this.#lastSequence)
  }

  #logLoss(outcome: Outcome, { length }: readonly Entry[], error: HooklineError): void {
    // Not the message of the error: it may repeat what a server said, and a server what it was sent.
    this.#around.log('%s %d messages: %s: %s', outcome, length, error.code, causeOf(error))
  }

  #count(outcome: Outcome, entries: readonly Entry[]): void {
    this.#counts[outcome] += entries.length
    this.#lastOutcomeMs = nowMs()
    const flushed = outcome === 'delivered' ? 'delivered' : 'failed'
    for (const entry of entries) {
      this.#pendingBytes -= entryBytes(entry)
      this.#flushes.settled(entry.sequence, flushed)
    }
  }

  #forget(entries: readonly Entry[]): void {
    this.#around.onSettled(entries)
    this.#around.teller.forget(entries)
    if (this.awaited === 0) this.#around.onEmpty()
  }
}

function toError({ code, message }: Rejection, status: number): RejectedError {
  const summary = 'The endpoint accepted the batch but refused this message.'
  const reason = [message, code && `(${code})`].filter(Boolean).join(' ') || 'it gave no reason'
  return new RejectedError(`The endpoint refused this message: ${reason}.`, status, code, summary)
}
