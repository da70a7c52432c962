import { entryBytes, entryJson, type Batch, type Entry } from './entry.js'
import { RejectedError } from './errors.js'
import type { Hold } from './exit.js'
import { Flushes } from './flushes.js'
import type { HooklineError } from './hookline-error.js'
import { MAX_BODY_MESSAGES } from './limits.js'
import { guard, type Log } from './log.js'
import type { Settings } from './options.js'
import { readRejections } from './rejections.js'
import { detached, nowMs } from './runtime.js'
import type { Callback, FlushResult, LostMessage, Stats, WireMessage } from './types.js'
import { causeOf, LossWarnings } from './warnings.js'

type Outcome = 'delivered' | 'rejected' | 'dropped'

/** A message that was lost inside its call, and who is to be told. */
export interface Loss {
  readonly error: HooklineError
  readonly callback: Callback | undefined
  /** What `onFailed` gets to see; undefined if there is no such hook. */
  readonly message: LostMessage | undefined
  /** The application asked for it: it is told to the callback alone. */
  readonly isAskedFor: boolean
}

/** Who else is told of outcomes. */
interface Surroundings {
  /** Runs something in a later turn of the event loop. */
  readonly later: (act: () => void) => void
  readonly log: Log
  /** These messages have their outcome. */
  onSettled(entries: readonly Entry[]): void
  /** No message is pending any more, but for those that were left on disk. */
  onEmpty(): void
  /** Keeps the process alive for those who wait. */
  readonly hold: Pick<Hold, 'start' | 'end'>
}

/** More losses than these, in one turn of the event loop, are told at once: they must not pile up. */
const MAX_UNTOLD = 1_000

/** After so many losses in a row, of messages that were recorded when the one before was told, a loss inside its call is not told. */
const MAX_CHAIN = 10

/** So many losses of messages that were recorded when others were told may wait to be told: each may lead to several. */
const MAX_CHAINED = 10_000

/** Keeps the books: what became of each message, and who is to be told. */
export class Books {
  readonly #hooks: Pick<Settings, 'onDelivered' | 'onFailed'>
  readonly #around: Surroundings
  readonly #warnings: LossWarnings
  readonly #flushes: Flushes
  readonly #counts = { accepted: 0, delivered: 0, rejected: 0, dropped: 0 }
  /** Of the dropped messages, those that the application asked to drop. */
  #askedFor = 0
  #lastSequence = 0
  #lastOutcomeMs = 0
  #pendingBytes = 0
  #postponed = 0
  /** Lets those go who wait for messages that were postponed. */
  #release: () => void = () => undefined
  #untold: (Loss & { readonly depth: number })[] = []
  /** How many losses in a row led to the message, by its place in the sequence, for those that were recorded when a loss was told. */
  readonly #chains = new Map<number, number>()
  #depth = 0
  #troubles: HooklineError[] = []

  constructor(hooks: Pick<Settings, 'onDelivered' | 'onFailed' | 'logger'>, around: Surroundings) {
    this.#hooks = hooks
    this.#around = around
    this.#warnings = new LossWarnings(hooks.logger)
    this.#flushes = new Flushes(around.hold)
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

  /** Whether so many losses in a row led to the one that is being told that a message which is lost inside its call is the last. */
  get isEndless(): boolean {
    return this.#depth >= MAX_CHAIN
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

  /** Enters one or more messages as pending. Gives the place of the last one in their sequence. */
  accept(bytes: number, count = 1): number {
    this.#pendingBytes += bytes
    this.#counts.accepted += count
    this.#flushes.accepted(count)
    this.#lastSequence += count
    if (this.#depth > 0) this.#chains.set(this.#lastSequence, this.#depth)
    return this.#lastSequence
  }

  /**
   * Resolves once all that is pending now has its outcome, or after the timeout with what has it by then.
   *
   * @param isHolding - whether the process stays alive meanwhile
   */
  settled(timeoutMs: number, isHolding = true): Promise<FlushResult> {
    this.#tellDetached()
    if (this.awaited === 0) return Promise.resolve({ delivered: 0, failed: 0 })
    // Callbacks come first: what is untold is told in an earlier turn than the one that resolves this.
    return this.#flushes
      .wait(this.#lastSequence, timeoutMs, isHolding)
      .then((result) => (this.#hasUntold ? this.#inLaterTurn(result) : result))
  }

  /** A server accepted a batch, but for those of its messages that the answer names. */
  accepted(batch: Batch, { status, body }: { status: number; body: string }): void {
    const { entries } = batch
    const rejections = readRejections(body, entries.length)
    for (const [index, { code, message }] of rejections) {
      const summary = 'The endpoint accepted the batch but refused this message.'
      const reason = [message, code && `(${code})`].filter(Boolean).join(' ') || 'it gave no reason'
      const text = `The endpoint refused this message: ${reason}.`
      const error = new RejectedError(text, status, code, summary)
      this.lost('rejected', entries.slice(index, index + 1), error)
    }
    const isTaken = (_: Entry, index: number) => !rejections.has(index)
    const taken = rejections.size > 0 ? entries.filter(isTaken) : entries
    this.#count('delivered', taken)
    this.#forget(taken)
    this.#callBack(taken)
    const { onDelivered } = this.#hooks
    if (!onDelivered || taken.length === 0) return
    const report = {
      messages: taken.length,
      bytes: batch.bodyBytes,
      attempts: batch.attempts,
      durationMs: nowMs() - batch.startedMs,
    }
    guard(this.#around.log, 'onDelivered', onDelivered, report)
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
    if (entries.length > 0) {
      const some = entries.slice(0, MAX_BODY_MESSAGES)
      const { length } = some
      // Not the message of the error: it may repeat what a server said, and a server what it was sent.
      this.#around.log('%s %d messages: %s: %s', outcome, length, error.code, causeOf(error))
      const messages = this.#hooks.onFailed ? some.map(toLostMessage) : []
      this.#count(outcome, some)
      for (const entry of some) {
        this.#depth = this.#depthOf(entry)
        this.#callBack([entry], error)
      }
      this.#depth = Math.max(...some.map((entry) => this.#depthOf(entry)))
      this.#reportFailed(messages, error)
      this.#depth = 0
      this.#forget(some) // if the process ends before, the next one finds them on disk
    }
    if (entries.length <= MAX_BODY_MESSAGES) then?.()
    else {
      this.#around.later(() => {
        this.lost(outcome, entries.slice(MAX_BODY_MESSAGES), error, then)
      })
    }
  }

  /**
   * A message was accepted, and dropped at once. It is told later: never inside the call.
   *
   * @returns the error if nobody is told of it
   */
  droppedAtCall(loss: Loss): HooklineError | undefined {
    this.#counts.accepted++
    this.#counts.dropped++
    if (loss.isAskedFor) this.#askedFor++
    return this.tellLater(loss)
  }

  /** Messages that were queued are lost, perhaps inside the call of another one. They are told later. */
  lostMeanwhile(entries: readonly Entry[], error: HooklineError): void {
    this.#around.log('dropped %d messages: %s: %s', entries.length, error.code, causeOf(error))
    for (const entry of entries) {
      const message = this.#hooks.onFailed && toLostMessage(entry)
      this.tellLater({ error, callback: entry.callback, message, isAskedFor: false })
    }
    this.#count('dropped', entries)
    this.#forget(entries)
  }

  /** So many messages stay pending, and are safe where they are: nobody needs to wait for them here. */
  postpone(count: number): void {
    this.#postponed += count
    this.#release = this.#flushes.end(this.#lastSequence)
  }

  /** Tells of messages that were postponed, once all losses have been told. */
  tellPostponed(callbacks: readonly Callback[], error: HooklineError): void {
    this.#release() // before the callbacks, which may record more
    for (const callback of callbacks) guard(this.#around.log, 'callback', callback, error)
  }

  /** Something is wrong that has cost no message, or nobody knows which. */
  troubled(error: HooklineError): void {
    if (this.#troubles.push(error) === 1) this.#around.later(this.#tellDetached)
  }

  /** There are losses that nobody can be told of any more: whoever is told records new ones. */
  untold(error: Pick<HooklineError, 'code' | 'message'>): void {
    this.#warnings.untold(error)
  }

  /**
   * Tells of what was lost inside a call, once the call has returned: unless whoever is told records a new one each time, and would
   * keep the process busy for ever.
   *
   * @returns the error if nobody is told of it
   */
  tellLater(loss: Loss): HooklineError | undefined {
    const { error, callback, message, isAskedFor } = loss
    if (!isAskedFor && !this.#hooks.onFailed) this.#warnings.lost(error)
    if (!(callback ?? (message && !isAskedFor))) return undefined
    const isTooMany = this.#depth > 0 && this.#untold.length >= MAX_CHAINED
    if (this.isEndless || isTooMany) {
      const recorded = isTooMany
        ? `so many messages that ${MAX_CHAINED} losses wait to be told`
        : `a message at each of ${MAX_CHAIN} losses in a row`
      const why = `A callback or onFailed recorded ${recorded}.`
      this.untold({ code: error.code, message: `${why} ${causeOf(error)}` })
      return error
    }
    const depth = this.#depth + 1
    if (this.#untold.push({ error, callback, message, isAskedFor, depth }) === 1)
      this.#around.later(this.#tellDetached)
    return undefined
  }

  /** Tells at once of what is to be told later, if that is getting long, unless somebody is being told. */
  tellIfMany(): void {
    if (this.#depth === 0 && this.#untold.length >= MAX_UNTOLD) this.#tellDetached()
  }

  get #hasUntold(): boolean {
    return this.#untold.length + this.#troubles.length > 0
  }

  /** Outside of the request that happens to be current: what is told belongs to others. */
  readonly #tellDetached = detached(() => {
    const [troubles, untold] = [this.#troubles, this.#untold]
    this.#troubles = []
    this.#untold = []
    for (const error of troubles) this.#reportFailed([], error)
    const before = this.#depth
    const reports = new Map<HooklineError, { messages: LostMessage[]; depth: number }>()
    for (const { error, callback, message, isAskedFor, depth } of untold) {
      this.#depth = depth
      if (callback) guard(this.#around.log, 'callback', callback, error)
      if (!message || isAskedFor) continue
      const report = reports.get(error) ?? { messages: [], depth }
      report.messages.push(message)
      report.depth = Math.max(report.depth, depth)
      reports.set(error, report)
    }
    for (const [error, { messages, depth }] of reports) {
      this.#depth = depth
      for (let at = 0; at < messages.length; at += MAX_BODY_MESSAGES) {
        this.#reportFailed(messages.slice(at, at + MAX_BODY_MESSAGES), error)
      }
    }
    this.#depth = before
  })

  #reportFailed(messages: readonly LostMessage[], error: HooklineError): void {
    const { onFailed } = this.#hooks
    if (onFailed) guard(this.#around.log, 'onFailed', onFailed, { messages, error })
    else this.#warnings.lost(error)
  }

  /** How many losses in a row there are with that of this message. */
  #depthOf({ sequence }: Entry): number {
    return 1 + (this.#chains.get(sequence) ?? 0)
  }

  #callBack(entries: readonly Entry[], error?: HooklineError): void {
    for (const { callback } of entries)
      if (callback) guard(this.#around.log, 'callback', callback, error)
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
    if (this.#chains.size > 0) for (const { sequence } of entries) this.#chains.delete(sequence)
    if (this.awaited === 0) this.#around.onEmpty()
  }

  #inLaterTurn<Value>(value: Value): Promise<Value> {
    return new Promise((resolve) => {
      this.#around.later(() => {
        resolve(value)
      })
    })
  }
}

function toLostMessage(entry: Entry): LostMessage {
  if (entry.slab.length === 0) return { type: 'unknown', messageId: undefined, json: undefined }
  const json = entryJson(entry)
  const { type, messageId } = JSON.parse(json) as WireMessage
  return { type, messageId, json }
}
