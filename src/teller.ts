import { entryJson, type Batch, type Entry } from './entry.js'
import type { HooklineError } from './hookline-error.js'
import { MAX_BODY_MESSAGES } from './limits.js'
import { guard, type Log } from './log.js'
import type { Settings } from './options.js'
import { detached, nowMs } from './runtime.js'
import type { Callback, LostMessage, WireMessage } from './types.js'
import { causeOf, LossWarnings } from './warnings.js'

/** A message that was lost inside a call, and who is to be told. */
export interface Loss {
  readonly error: HooklineError
  readonly callback: Callback | undefined
  /** What `onFailed` gets to see; undefined if there is no such hook, or it is not to be told. */
  readonly message: LostMessage | undefined
}

/** More losses than these, in one turn of the event loop, are told at once: they must not pile up. */
const MAX_LOSSES = 1_000

/** After so many losses in a row, of messages that were recorded when the one before was told, a loss inside its call is not told. */
const MAX_CHAIN = 10

/** So many losses of messages that were recorded when others were told may wait to be told: each may lead to several. */
const MAX_CHAINED = 10_000

/** The callbacks of `deliver()`. They only resolve a promise, so that they may be called inside the call. */
export const resolvers = new WeakSet<Callback>()

/** Tells the application what became of its messages: the callbacks and the hooks, or else a warning. */
export class Teller {
  readonly #hooks: Pick<Settings, 'onDelivered' | 'onFailed'>
  readonly #log: Log
  readonly #later: (act: () => void) => void
  readonly #warnings: LossWarnings
  /** What is to be told in a later turn of the event loop. */
  #losses: (Loss & { readonly depth: number })[] = []
  #faults: HooklineError[] = []
  /** How many losses in a row led to a message, by its place in the sequence, for those that were recorded when a loss was told. */
  readonly #chains = new Map<number, number>()
  /** How many losses in a row there are with the one that is being told; 0 if none is. */
  #depth = 0

  /** @param later - runs something in a later turn of the event loop */
  constructor(
    hooks: Pick<Settings, 'onDelivered' | 'onFailed' | 'logger'>,
    log: Log,
    later: (act: () => void) => void,
  ) {
    this.#hooks = hooks
    this.#log = log
    this.#later = later
    this.#warnings = new LossWarnings(hooks.logger)
  }

  /** Whether a message that is recorded now, and lost inside its call, is the end of a chain: nobody is told of it. */
  get isEndless(): boolean {
    return this.#depth >= MAX_CHAIN
  }

  /** A message was queued, perhaps by somebody who is being told of a loss. */
  queued(sequence: number): void {
    if (this.#depth > 0) this.#chains.set(sequence, this.#depth)
  }

  /** These messages have their outcome. */
  forget(entries: readonly Entry[]): void {
    if (this.#chains.size > 0) for (const { sequence } of entries) this.#chains.delete(sequence)
  }

  /** These messages of a batch were delivered. */
  delivered(entries: readonly Entry[], batch: Batch): void {
    for (const { callback } of entries) this.callBack(callback)
    const { onDelivered } = this.#hooks
    if (!onDelivered || entries.length === 0) return
    const report = {
      messages: entries.length,
      bytes: batch.bodyBytes,
      attempts: batch.attempts,
      durationMs: nowMs() - batch.startedMs,
    }
    guard(this.#log, 'onDelivered', onDelivered, report)
  }

  /** These messages, as many as a report may have, are lost. */
  lost(entries: readonly Entry[], error: HooklineError): void {
    const messages = this.#hooks.onFailed ? entries.map(toLostMessage) : []
    for (const entry of entries) {
      this.#depth = this.#depthOf(entry)
      this.callBack(entry.callback, error)
    }
    this.#depth = Math.max(...entries.map((entry) => this.#depthOf(entry)))
    this.#report(messages, error)
    this.#depth = 0
  }

  /** This message is lost, perhaps inside the call of another one: it is told later. */
  lostMeanwhile(entry: Entry, error: HooklineError): void {
    const message = this.#hooks.onFailed && toLostMessage(entry)
    this.tellLater({ error, callback: entry.callback, message })
  }

  callBack(callback: Callback | undefined, error?: HooklineError): void {
    if (callback) guard(this.#log, 'callback', callback, error)
  }

  /** Something is wrong that has cost no message, or nobody knows which. */
  fault(error: HooklineError): void {
    if (this.#faults.push(error) === 1) this.#later(this.tellNow)
  }

  /** Nobody can be told of the end of a message any more: whoever is told records new ones. */
  unreported(text: string, code: string): void {
    this.#warnings.unreported(text, code)
  }

  /**
   * Tells of what was lost inside a call, once the call has returned: unless whoever is told records a new one each time, and would
   * keep the process busy for ever.
   */
  tellLater({ error, callback, message }: Loss): void {
    if (!this.#hooks.onFailed && !isAskedFor(error)) this.#warnings.lost(error)
    if (!callback && !message) return
    const isTooMany = this.#depth > 0 && this.#losses.length >= MAX_CHAINED
    if (this.isEndless || isTooMany) {
      const recorded = isTooMany
        ? `so many messages that ${MAX_CHAINED} losses wait to be told`
        : `a message at each of ${MAX_CHAIN} losses in a row`
      const why = `A callback or onFailed recorded ${recorded}.`
      const what = `a message was lost (${error.code}) that no callback and no onFailed is told of`
      this.unreported(`${what}. ${why} ${causeOf(error)}`, error.code)
      if (callback && resolvers.has(callback)) callback(error)
      return
    }
    const depth = this.#depth + 1
    if (this.#losses.push({ error, callback, message, depth }) === 1) this.#later(this.tellNow)
  }

  /** Tells at once of what is to be told later, if that is getting long, unless somebody is being told. */
  tellIfMany(): void {
    if (this.#depth === 0 && this.#losses.length >= MAX_LOSSES) this.tellNow()
  }

  /** Gives a value back once all has been told that is to be told by now. */
  afterTelling<Value>(value: Value): Value | Promise<Value> {
    if (this.#losses.length + this.#faults.length === 0) return value
    return new Promise((resolve) => {
      this.#later(() => {
        resolve(value)
      })
    })
  }

  /** Tells of what is to be told later. It is detached, since what is told belongs to other requests than the current one. */
  readonly tellNow = detached(() => {
    const [faults, losses] = [this.#faults, this.#losses]
    this.#faults = []
    this.#losses = []
    for (const error of faults) this.#report([], error)
    const before = this.#depth
    const reports = new Map<HooklineError, { messages: LostMessage[]; depth: number }>()
    for (const { error, callback, message, depth } of losses) {
      this.#depth = depth
      this.callBack(callback, error)
      if (!message) continue
      const report = reports.get(error) ?? { messages: [], depth }
      report.messages.push(message)
      report.depth = Math.max(report.depth, depth)
      reports.set(error, report)
    }
    for (const [error, { messages, depth }] of reports) {
      this.#depth = depth
      for (let at = 0; at < messages.length; at += MAX_BODY_MESSAGES) {
        this.#report(messages.slice(at, at + MAX_BODY_MESSAGES), error)
      }
    }
    this.#depth = before
  })

  #report(messages: readonly LostMessage[], error: HooklineError): void {
    const { onFailed } = this.#hooks
    if (onFailed) guard(this.#log, 'onFailed', onFailed, { messages, error })
    else this.#warnings.lost(error)
  }

  /** How many losses in a row there are with that of this message. */
  #depthOf({ sequence }: Entry): number {
    return 1 + (this.#chains.get(sequence) ?? 0)
  }
}

/** Whether the application asked to drop the message. `onFailed` is not told of it. If `beforeSend` failed, the error has a cause. */
export function isAskedFor(error: HooklineError): boolean {
  return error.code === 'disabled' || (error.code === 'before_send' && !('cause' in error))
}

function toLostMessage(entry: Entry): LostMessage {
  if (entry.slab.length === 0) return { type: 'unknown', messageId: undefined, json: undefined }
  const json = entryJson(entry)
  const { type, messageId } = JSON.parse(json) as WireMessage
  return { type, messageId, json }
}
