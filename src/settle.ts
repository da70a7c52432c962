import { entryBytes, entryJson, type Batch, type Entry } from './entry.js'
import { RejectedError } from './errors.js'
import { HooklineError } from './hookline-error.js'
import { MAX_BODY_MESSAGES } from './limits.js'
import { log } from './log.js'
import type { AnalyticsOptions } from './options.js'
import { readRejections } from './rejections.js'
import { detached, later } from './runtime.js'
import type { Callback, FlushResult, LostMessage, Stats, WireMessage } from './types.js'

type Outcome = 'delivered' | 'rejected' | 'dropped'

/** Somebody who waits for what was pending at one moment. */
interface Waiter {
  readonly lastSequence: number
  left: number
  delivered: number
  failed: number
  readonly resolve: (result: FlushResult) => void
  timer?: ReturnType<typeof setTimeout>
}

/** A message that was lost inside of its call, and who is to be told. */
export interface Loss {
  readonly error: HooklineError
  readonly callback: Callback | undefined
  /** What `onFailed` gets to see; undefined for a loss that was asked for. */
  readonly message: LostMessage | undefined
}

/** Who else is to know of outcomes. */
interface Surroundings {
  /** These messages have theirs. */
  onSettled(entries: readonly Entry[]): void
  /** Nothing is pending any more. */
  onEmpty(): void
}

/** More losses than these, in one turn of the event loop, are told at once: they must not pile up. */
const MAX_UNTOLD = 1_000

/** Keeps the books: what became of each message, and who is to be told. */
export class Books {
  readonly #hooks: Pick<AnalyticsOptions, 'onDelivered' | 'onFailed'>
  readonly #around: Surroundings
  readonly #waiters = new Set<Waiter>()
  readonly #counts = { accepted: 0, delivered: 0, rejected: 0, dropped: 0 }
  #lastSequence = 0
  #pendingBytes = 0
  #postponed = 0
  #untold: Loss[] = []

  constructor(hooks: Pick<AnalyticsOptions, 'onDelivered' | 'onFailed'>, around: Surroundings) {
    this.#hooks = hooks
    this.#around = around
  }

  get pendingBytes(): number {
    return this.#pendingBytes
  }

  get pending(): number {
    const { accepted, delivered, rejected, dropped } = this.#counts
    return accepted - delivered - rejected - dropped
  }

  stats(): Stats {
    return { ...this.#counts, pending: this.pending, pendingBytes: this.#pendingBytes }
  }

  /** Enters a message that is going to wait, or several; gives the last one's place in their sequence. */
  accept(bytes: number, count = 1): number {
    this.#pendingBytes += bytes
    this.#counts.accepted += count
    return (this.#lastSequence += count)
  }

  /** Resolves once all that is pending now has its outcome, or with what has when the time is over. */
  settled(timeoutMs: number): Promise<FlushResult> {
    this.#tell()
    const left = this.pending - this.#postponed
    if (left === 0) return Promise.resolve({ delivered: 0, failed: 0 })
    return new Promise((resolve) => {
      const lastSequence = this.#lastSequence
      const waiter: Waiter = { lastSequence, left, delivered: 0, failed: 0, resolve }
      this.#waiters.add(waiter)
      if (timeoutMs === Infinity) return
      waiter.timer = setTimeout(() => {
        this.#release(waiter)
      }, timeoutMs)
    })
  }

  /** A server accepted a batch, but for those of its messages that the answer names. */
  accepted(batch: Batch, { status, body }: { status: number; body: string }): void {
    const { entries } = batch
    const rejections = readRejections(body, entries.length)
    for (const [index, { code, message }] of rejections) {
      const text = `The endpoint refused this message: ${message} (${code}).`
      const error = new RejectedError(text, status, code)
      this.lost('rejected', entries.slice(index, index + 1), error)
    }
    const isTaken = (_: Entry, index: number) => !rejections.has(index)
    const taken = rejections.size > 0 ? entries.filter(isTaken) : entries
    this.#settle('delivered', taken)
    const { onDelivered } = this.#hooks
    if (!onDelivered || taken.length === 0) return
    const report = {
      messages: taken.length,
      bytes: batch.bodyBytes,
      attempts: batch.attempts,
      durationMs: performance.now() - batch.startedMs,
    }
    guard('onDelivered', onDelivered, report)
  }

  /** These messages are lost, and will not be tried again. */
  lost(outcome: 'rejected' | 'dropped', entries: readonly Entry[], error: HooklineError): void {
    // The code, not the message: that may repeat what a server said, and a server what it was sent.
    if (entries.length > 0) log('%s %d messages: %s', outcome, entries.length, error.code)
    for (let from = 0; from < entries.length; from += MAX_BODY_MESSAGES) {
      const some = entries.slice(from, from + MAX_BODY_MESSAGES)
      const messages = this.#hooks.onFailed && some.map(toLostMessage)
      this.#settle(outcome, some, error)
      if (messages) this.#reportFailed(messages, error)
    }
  }

  /** A message was accepted, and dropped at once. It is told later: never inside of the call. */
  droppedAtCall(loss: Loss): void {
    this.#counts.accepted++
    this.#counts.dropped++
    this.tellLater(loss)
  }

  /** A message that waited is dropped to make room, or finds none after all. */
  overflowed(entry: Entry, error: HooklineError): void {
    const message = this.#hooks.onFailed && toLostMessage(entry)
    this.tellLater({ error, callback: entry.callback, message })
    this.#count('dropped', [entry])
  }

  /** What is pending stays so, and is safe where it is: nobody need wait for it here. */
  postponed(callbacks: readonly Callback[], error: HooklineError): void {
    this.#postponed = this.pending
    for (const callback of callbacks) guard('callback', callback, error)
    for (const waiter of this.#waiters) this.#release(waiter)
  }

  /** Something is wrong that has cost no message, or nobody knows which. */
  troubled(error: HooklineError): void {
    later(
      detached(() => {
        this.#reportFailed([], error)
      }),
    )
  }

  /** Tells of what was lost inside of a call, once the call has returned. */
  tellLater(loss: Loss): void {
    const isHeard = loss.callback ?? (loss.message && this.#hooks.onFailed)
    if (!isHeard || this.#untold.push(loss) > 1) return
    later(this.#tellDetached)
  }

  /** Tells at once of what is to be told later, if that is getting long. */
  tellIfMany(): void {
    if (this.#untold.length >= MAX_UNTOLD) this.#tell()
  }

  readonly #tellDetached = detached(() => {
    this.#tell()
  })

  #tell(): void {
    const untold = this.#untold
    this.#untold = []
    const reports = new Map<HooklineError, LostMessage[]>()
    for (const { error, callback, message } of untold) {
      if (callback) guard('callback', callback, error)
      if (!message) continue
      const messages = reports.get(error)
      if (messages) messages.push(message)
      else reports.set(error, [message])
    }
    for (const [error, messages] of reports) this.#reportFailed(messages, error)
  }

  #reportFailed(messages: readonly LostMessage[], error: HooklineError): void {
    const { onFailed } = this.#hooks
    if (onFailed) guard('onFailed', onFailed, { messages, error })
  }

  #settle(outcome: Outcome, entries: readonly Entry[], error?: HooklineError): void {
    this.#count(outcome, entries)
    for (const { callback } of entries) if (callback) guard('callback', callback, error)
  }

  #count(outcome: Outcome, entries: readonly Entry[]): void {
    this.#counts[outcome] += entries.length
    for (const entry of entries) this.#pendingBytes -= entryBytes(entry)
    for (const waiter of this.#waiters) this.#credit(waiter, outcome, entries)
    this.#around.onSettled(entries)
    if (this.pending === 0) this.#around.onEmpty()
  }

  #credit(waiter: Waiter, outcome: Outcome, entries: readonly Entry[]): void {
    let count = 0
    for (const entry of entries) if (entry.sequence <= waiter.lastSequence) count++
    waiter.left -= count
    waiter[outcome === 'delivered' ? 'delivered' : 'failed'] += count
    if (waiter.left === 0) this.#release(waiter)
  }

  #release(waiter: Waiter): void {
    const { timer, delivered, failed, resolve } = waiter
    clearTimeout(timer)
    this.#waiters.delete(waiter)
    // Callbacks come first: what is untold is told in an earlier turn than this.
    if (this.#untold.length > 0)
      later(() => {
        resolve({ delivered, failed })
      })
    else resolve({ delivered, failed })
  }
}

/** Runs a function of the application's: what it throws, or rejects with, is logged and goes no further. */
function guard<Argument>(name: string, act: (argument: Argument) => unknown, argument: Argument) {
  const onError = (error: unknown) => {
    // An error of ours that is thrown on may repeat what a server said.
    log('%s threw: %O', name, error instanceof HooklineError ? error.code : error)
  }
  try {
    const result = act(argument)
    // Perhaps a promise, of whatever realm.
    if (typeof result === 'object' && result !== null) Promise.resolve(result).catch(onError)
  } catch (error) {
    onError(error)
  }
}

function toLostMessage(entry: Entry): LostMessage {
  if (entry.slab.length === 0) return { type: 'unknown', messageId: undefined, json: undefined }
  const json = entryJson(entry)
  const { type, messageId } = JSON.parse(json) as WireMessage
  return { type, messageId, json }
}
