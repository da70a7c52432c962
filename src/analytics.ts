import { recogniseAcrossBuilds } from './across-builds.js'
import { createTransport, type Transport } from './attempt.js'
import { ENVELOPE_BYTES } from './batch.js'
import { BodySize } from './body-size.js'
import { Books } from './books.js'
import { describe, isPlainObject, messageOf, readMessage } from './describe.js'
import { complete, encode } from './encode.js'
import { entryBytes, type Entry } from './entry.js'
import { ClosedError, DroppedError, OptionError, SpoolError, ValidationError } from './errors.js'
import { Hold } from './exit.js'
import { HooklineError } from './hookline-error.js'
import { MAX_TIMER_MS } from './limits.js'
import { createLog, guard, isDebugging, type Log } from './log.js'
import { checkOptions, type AnalyticsOptions, type Settings } from './options.js'
import { Queue } from './queue.js'
import { backoffMs } from './retry.js'
import { decoder, detached, later, nowMs, startDeadline, startTimer } from './runtime.js'
import { ScriptEnd } from './script-end.js'
import { Sender, type Pace } from './send.js'
import { SpooledQueue } from './spool/spooled-queue.js'
import { isAskedFor, resolvers, Teller } from './teller.js'
import type {
  AliasMessage,
  AnalyticsClient,
  AnyPlan,
  Callback,
  DeliveryOutcome,
  FlushResult,
  GroupMessage,
  IdentifyMessage,
  MessageType,
  OtherMessages,
  PageMessage,
  PlanOf,
  Stats,
  TrackMessage,
  WireMessage,
} from './types.js'
import { checkReturned, MESSAGE_TYPES, validate } from './validate.js'

/** How many messages may be in flight when batching is off. */
const UNBATCHED_CONCURRENCY = 16

/** How long `close()` waits by default. */
const CLOSE_TIMEOUT_MS = 30_000

/** How long a promise that was given to `waitUntil` keeps a serverless function alive at the most. */
const WAIT_UNTIL_MS = 30_000

const PACE: Pace = { backoffMs, gatherMs: 2, later }

/**
 * Records what users do, and delivers it in the background: in batches, in order, through outages.
 *
 * A call validates its message, encodes it once and queues it. It never waits, never makes a request, and
 * throws only for a programmer's mistake; see {@link AnalyticsOptions.onInvalid}. Make one client for each
 * write key, keep it for the life of the process, and `await` its {@link Analytics.close | close()} when
 * the process ends. A script that simply ends needs no `close()`.
 *
 * @typeParam Plan - the properties of each event, by its name; see {@link PlanOf}
 *
 * @example
 * ```ts
 * import { Analytics } from 'hookline'
 *
 * const analytics = new Analytics('WRITE_KEY', { endpoint: 'https://collect.example.com' })
 * analytics.track({ userId: 'u1', event: 'Order Completed', properties: { total: 42 } })
 * await analytics.close()
 * ```
 */
export class Analytics<
  in out Plan extends PlanOf<Plan> = AnyPlan,
> implements AnalyticsClient<Plan> {
  readonly #settings: Settings
  readonly #queue: Queue | SpooledQueue
  readonly #spool: SpooledQueue | undefined
  readonly #teller: Teller
  readonly #books: Books
  readonly #transport: Transport
  readonly #sender: Sender
  readonly #pace: Pace
  readonly #log: Log
  readonly #hold = new Hold()
  readonly #scriptEnd: ScriptEnd
  readonly #fullError: DroppedError
  readonly #maxPendingBytes: number
  readonly #maxBatchBytes: number
  #lastFlushMs = nowMs()
  #isFlushScheduled = false
  /** Whether the platform got a promise for the calls of this turn. */
  #isKeptAwake = false
  #isGivingUp = false
  #nextGiveUp: DroppedError | undefined
  #closing: Promise<FlushResult> | undefined

  /**
   * @param writeKey - the write key of the source, from its settings
   * @param options - see {@link AnalyticsOptions}
   * @throws {@link OptionError} that names the option, the rule and what came
   */
  constructor(writeKey: string, options?: AnalyticsOptions)
  // Two signatures, so that the one for hookline/testing stays out of the published types.
  // eslint-disable-next-line @typescript-eslint/unified-signatures
  /** @internal */ constructor(writeKey: string, options: AnalyticsOptions, pace: Pace)
  constructor(writeKey: string, options: AnalyticsOptions = {}, pace = PACE) {
    const settings = checkOptions(writeKey, options)
    // They may be taken off the client, or given as listeners.
    for (const name of [...MESSAGE_TYPES, 'deliver', 'flush', 'close', 'stats'] as const) {
      this[name] = (this[name] as () => unknown).bind(this) as never
    }
    this.#settings = settings
    this.#pace = pace
    this.#log = createLog(settings.logger)
    this.#transport = createTransport(settings, this.#log)
    const spool = this.#createSpool(settings)
    this.#spool = spool
    this.#queue = spool ?? new Queue()
    this.#maxPendingBytes = spool?.maxPendingBytes ?? settings.maxQueueBytes
    this.#maxBatchBytes = settings.maxBatchBytes - ENVELOPE_BYTES
    this.#teller = new Teller(settings, this.#log, pace.later)
    this.#books = new Books({
      log: this.#log,
      teller: this.#teller,
      later: pace.later,
      onSettled: (entries) => spool?.settle(entries),
      onEmpty: this.#onEmpty,
      hold: this.#hold,
    })
    this.#fullError = new DroppedError('queue_full', describeFull(settings))
    this.#sender = new Sender({
      concurrency: settings.flushAt === 1 ? UNBATCHED_CONCURRENCY : 1,
      maxRetries: settings.maxRetries,
      maxQueueBytes: settings.maxQueueBytes,
      pace,
      size: new BodySize(settings),
      log: this.#log,
      transport: this.#transport,
      isOurs: () => spool?.isOurs() ?? true,
      queue: this.#queue,
      books: this.#books,
    })
    this.#scriptEnd = new ScriptEnd({
      endpoint: settings.endpoint,
      log: this.#log,
      books: this.#books,
      teller: this.#teller,
      sender: this.#sender,
      hold: this.#hold,
      closeBatch: this.#closeBatch,
      giveUp: this.#giveUp,
    })
    spool?.start()
  }

  #createSpool({ spool, disabled, writeKey, maxQueueBytes }: Settings): SpooledQueue | undefined {
    if (!spool || disabled) return undefined
    return new SpooledQueue({
      ...spool,
      writeKey,
      maxQueueBytes,
      log: this.#log,
      onAdopted: (count, bytes) => {
        this.#scriptEnd.watch()
        this.#sender.wake()
        const first = this.#books.nextSequence
        this.#books.accept(bytes, count)
        return first
      },
      onMiscounted: (bytes) => {
        this.#books.accept(-bytes, 0)
      },
      onLost: (entries, error) => {
        this.#books.lost('dropped', entries, error)
      },
      onFault: (error) => {
        this.#teller.fault(error)
      },
      onReady: () => {
        this.#sender.wake()
      },
      onGone: detached((error: SpoolError, divide: (entries: readonly Entry[]) => Entry[]) => {
        const { left, tellAnswered } = this.#takeAll(error)
        const lost = divide(left)
        tellAnswered()
        this.#books.lost('dropped', lost, error)
        this.#sender.wake()
      }),
    })
  }

  /**
   * Says who a user is, and what you know about them. Call it when an account is created, and again when
   * traits change.
   *
   * @param message - the user, and their traits
   * @param callback - called once with the outcome; not called if the call throws
   * @throws `ValidationError` and `MessageTooLargeError`, as do all calls
   */
  identify(message: IdentifyMessage, callback?: Callback): void {
    this.#record('identify', message, callback)
  }

  /**
   * Says what a user did.
   *
   * @param message - the user, the event and its properties
   * @param callback - called once with the outcome; not called if the call throws
   */
  track<Event extends keyof Plan & string>(
    message: TrackMessage<Plan, Event>,
    callback?: Callback,
  ): void {
    this.#record('track', message, callback)
  }

  /**
   * Says which page a user saw.
   *
   * @param message - the user, the page and its traits
   * @param callback - called once with the outcome; not called if the call throws
   */
  page(message: PageMessage, callback?: Callback): void {
    this.#record('page', message, callback)
  }

  /**
   * Says which screen of an app a user saw.
   *
   * @param message - the user, the screen and its traits
   * @param callback - called once with the outcome; not called if the call throws
   */
  screen(message: PageMessage, callback?: Callback): void {
    this.#record('screen', message, callback)
  }

  /**
   * Says which group a user belongs to, and what you know about the group.
   *
   * @param message - the user, the group and its traits
   * @param callback - called once with the outcome; not called if the call throws
   */
  group(message: GroupMessage, callback?: Callback): void {
    this.#record('group', message, callback)
  }

  /**
   * Says that two ids are one user. Order matters to destinations: first what the anonymous user did,
   * then alias, then identify, then what the identified user does. Source: spec "Endpoints", rule 3.
   *
   * @param message - the new id, and the one that the user had until now
   * @param callback - called once with the outcome; not called if the call throws
   */
  alias(message: AliasMessage, callback?: Callback): void {
    this.#record('alias', message, callback)
  }

  /**
   * Records one message, sends it without waiting for its batch to fill, and waits for its outcome: for the few
   * messages whose delivery decides what your program does next.
   *
   * @param type - the type of the call
   * @param message - what the call of that type takes
   * @returns the outcome; it rejects only where the call itself would throw
   *
   * @example
   * ```ts
   * const { delivered, error } = await analytics.deliver('track', { userId: 'u1', event: 'Order Paid' })
   * if (!delivered) console.error(error.code, error.message)
   * ```
   */
  deliver<Event extends keyof Plan & string>(
    type: 'track',
    message: TrackMessage<Plan, Event>,
  ): Promise<DeliveryOutcome>
  /** Records one message of another type, sends it at once, and waits for its outcome. */
  deliver<Type extends keyof OtherMessages>(
    type: Type,
    message: OtherMessages[Type],
  ): Promise<DeliveryOutcome>
  deliver(type: MessageType, message: unknown): Promise<DeliveryOutcome> {
    const outcome = new Promise<DeliveryOutcome>((resolve) => {
      const told: Callback = (error) => {
        resolve(error ? { delivered: false, error } : { delivered: true })
      }
      resolvers.add(told)
      if (MESSAGE_TYPES.includes(type)) this.#record(type, message, told)
      else this.#refuse('deliver' as MessageType, wrongType(type), told)
      this.#closeBatch()
    })
    this.#hold.until(outcome)
    return outcome
  }

  /**
   * Sends what is queued, and waits until each message recorded before has its outcome. It never rejects,
   * and any number of callers may wait at a time. The process stays alive while a caller waits.
   *
   * @param options - `timeout`: milliseconds after which to stop waiting. What has no outcome by then is
   * counted neither as delivered nor as failed: it stays queued, and `stats().pending` has it. Default:
   * Infinity, so for as long as an outage lasts.
   * @returns how many of the messages that were pending when it was called were delivered, and how many lost
   */
  flush(options: { timeout?: number | undefined } = {}): Promise<FlushResult> {
    const timeoutMs = checkTimeout('flush', options, Infinity)
    const settled = this.#books.settled(timeoutMs)
    this.#closeBatch() // after it, which may have called callbacks that recorded more
    return settled
  }

  /**
   * Flushes, and reports what is left after the timeout as failed; with a `spool`, leaves it on disk for the
   * next start. Later calls do not throw: their callbacks and `onFailed` get a {@link ClosedError}. Closing
   * again gives the same promise.
   *
   * @param options - `timeout`: milliseconds, default 30,000; 0 gives up at once, Infinity never does
   * @returns how many messages were delivered and lost since the client was made. Messages that `beforeSend`
   * or `disabled` dropped are not counted: the application asked for that.
   */
  close(options: { timeout?: number | undefined } = {}): Promise<FlushResult> {
    const timeoutMs = checkTimeout('close', options, CLOSE_TIMEOUT_MS)
    // Set before anything is told of closing: a callback may close again.
    return (this.#closing ??= Promise.resolve().then(() => this.#close(timeoutMs)))
  }

  /** Closes the client at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** The books at this instant. */
  stats(): Stats {
    return this.#books.stats()
  }

  #record(type: MessageType, given: unknown, callback: Callback | undefined): void {
    this.#teller.tellIfMany()
    let message: WireMessage
    let json: Uint8Array
    try {
      const checked = validate(type, given) // first: who gives ('Event', { … }) takes the second for the properties
      checkCallback(type, callback)
      message = complete(checked, this.#settings)
      json = this.#encode(message)
    } catch (error) {
      this.#refuse(type, toHooklineError(type, error), callback, given)
      return
    }
    if (this.#settings.beforeSend) {
      const redacted = this.#redact(message, json)
      if (redacted instanceof DroppedError) {
        this.#drop(message, undefined, callback, redacted) // onFailed must not see what beforeSend did not
        return
      }
      json = redacted
    }
    const refusal = this.#refusalOf(type)
    if (refusal) this.#drop(message, json, callback, refusal)
    else if (!this.#makeRoom(json.length) || !this.#enqueue(message, json, callback)) {
      this.#drop(message, json, callback, this.#fullError)
    }
  }

  /** Why the client takes no message at all. */
  #refusalOf(type: MessageType): HooklineError | undefined {
    if (this.#closing) return new ClosedError(`${type}() came after close().`)
    if (this.#settings.disabled) {
      return new DroppedError('disabled', 'The client is disabled: nothing is sent.')
    }
    if (this.#scriptEnd.isWaiting && this.#teller.isEndless) {
      return new DroppedError('process_exit', `The script ended.${this.#sender.lastFailure}`)
    }
    return undefined
  }

  /** A logger may record in the middle of a call: then each call needs bytes of its own. */
  #encode(message: WireMessage): Uint8Array {
    const json = encode(message)
    return this.#settings.logger || isDebugging() ? json.slice() : json
  }

  /** False if there is no room after all: the disk has just failed, and memory is full. */
  #enqueue(message: WireMessage, json: Uint8Array, callback: Callback | undefined): boolean {
    const queue = this.#queue
    if (queue.openBytes + json.length > this.#maxBatchBytes) this.#closeBatch()
    if (!queue.push(json, this.#books.nextSequence, callback)) return false
    this.#books.accept(json.length)
    this.#log('enqueue %s %s', message.type, message.messageId)
    if (this.#settings.waitUntil && !this.#isKeptAwake) this.#keepAwake(this.#settings.waitUntil)
    if (this.#books.awaited === 1) this.#scriptEnd.watch() // until #onEmpty
    if (this.#scriptEnd.isWaiting || queue.openLength >= this.#settings.flushAt) this.#closeBatch()
    else if (!this.#isFlushScheduled) this.#scheduleFlush()
    return true
  }

  /** Whether a message fits into the queue, if need be in place of the oldest. */
  #makeRoom(bytes: number): boolean {
    if (this.#fits(bytes)) return true
    // What is in flight stays: it may have arrived.
    const inFlightBytes = this.#books.pendingBytes - this.#queue.bytes
    const { overflow } = this.#settings
    const isNewestDropped = overflow === 'drop-newest' || this.#teller.isEndless
    if (isNewestDropped || inFlightBytes + bytes > this.#maxPendingBytes) return false
    for (let freedBytes = 0; !this.#fits(bytes, freedBytes);) {
      const oldest = this.#queue.takeOldest()
      if (!oldest) return false
      freedBytes += entryBytes(oldest)
      this.#books.lostMeanwhile(oldest, this.#fullError)
    }
    return true
  }

  #fits(bytes: number, freedBytes = 0): boolean {
    if (this.#spool) return this.#spool.hasRoom(bytes, freedBytes)
    return this.#books.pendingBytes + bytes <= this.#maxPendingBytes
  }

  /** Lets the application's hook change a message. If that drops it, gives an error, which has a cause unless the hook asked for it. */
  #redact(message: WireMessage, json: Uint8Array): Uint8Array | DroppedError {
    const { type } = message
    try {
      const seen = JSON.parse(decoder.decode(json)) as WireMessage
      const changed: unknown = this.#settings.beforeSend?.(seen)
      checkReturned(changed)
      if (changed !== null) {
        Object.assign(message, complete(validate(type, changed), {}))
        return this.#encode(message)
      }
      return new DroppedError('before_send', `beforeSend dropped the ${type}.`)
    } catch (cause) {
      const why = toHooklineError(type, cause).message
      const text = `beforeSend failed, so the ${type} was dropped: ${why}`
      return new DroppedError('before_send', text, { cause })
    }
  }

  /** Drops a message inside its call. `onFailed` gets to see its JSON, if that is given. */
  #drop(
    { type, messageId }: WireMessage,
    json: Uint8Array | undefined,
    callback: Callback | undefined,
    error: HooklineError,
  ): void {
    this.#log('drop %s %s: %s', type, messageId, error.code)
    const isSeen = this.#settings.onFailed && !isAskedFor(error)
    const message = isSeen ? { type, messageId, json: json && decoder.decode(json) } : undefined
    this.#books.droppedAtCall({ error, callback, message })
  }

  /** A call was given what is no message: that is the caller's to know, here or through a hook. */
  #refuse(
    type: MessageType,
    error: HooklineError,
    callback: Callback | undefined,
    given?: unknown,
  ): void {
    if (this.#settings.onInvalid === 'throw' && !this.#closing) throw error
    this.#log('refused %s: %s', type, error.code) // its message quotes what was given
    this.#teller.tellLater({
      error,
      callback: typeof callback === 'function' ? callback : undefined,
      message: { type, messageId: readId(given), json: undefined },
    })
  }

  readonly #closeBatch = (): void => {
    this.#lastFlushMs = nowMs()
    if (this.#queue.openLength === 0) return
    this.#log('flush %d messages', this.#queue.openLength)
    this.#queue.closeBatch()
    this.#sender.wake()
  }

  /**
   * Flushes when the interval ends. Intervals follow each other from the last flush on, as in the Go
   * client, whether or not there is something to flush.
   */
  readonly #scheduleFlush = detached(() => {
    this.#isFlushScheduled = true
    const { flushAfterMs } = this.#settings
    const elapsedMs = (nowMs() - this.#lastFlushMs) % flushAfterMs
    startTimer(this.#onInterval, Math.ceil(flushAfterMs - elapsedMs))
  })

  readonly #onInterval = (): void => {
    this.#isFlushScheduled = false
    if (nowMs() - this.#lastFlushMs >= this.#settings.flushAfterMs) this.#closeBatch()
    else if (this.#queue.openLength > 0) this.#scheduleFlush()
  }

  readonly #onEmpty = (): void => {
    this.#queue.reuseSlab()
    this.#scriptEnd.stop()
  }

  /** Gives the platform a promise that lasts until what is queued in this turn has its outcome. */
  #keepAwake(waitUntil: (promise: Promise<unknown>) => void): void {
    this.#isKeptAwake = true
    const sent = new Promise<unknown>((resolve) => {
      this.#pace.later(() => {
        this.#isKeptAwake = false // a call of another turn may be of another request
        resolve(this.#books.settled(WAIT_UNTIL_MS, false)) // the platform keeps the process, not this
        this.#closeBatch()
      })
    })
    guard(this.#log, 'waitUntil', waitUntil, sent)
  }

  readonly #close = detached(async (timeoutMs: number): Promise<FlushResult> => {
    this.#spool?.adoptNoMore()
    const settled = this.flush()
    this.#sender.hurry()
    const giveUp = () => {
      const message = `close() ran out of time after ${timeoutMs} ms: the message may or may not have arrived.`
      this.#giveUp(new DroppedError('close_timeout', message + this.#sender.lastFailure))
    }
    const stop = startDeadline(timeoutMs, giveUp)
    await settled
    stop()
    this.#transport.close()
    await this.#spool?.close()
    return this.#books.totals()
  })

  /** Gives up all that is pending, one such call after the other: what is told takes several turns of the event loop. */
  readonly #giveUp = (error: DroppedError): void => {
    if (this.#isGivingUp) {
      this.#nextGiveUp = error
      return
    }
    this.#isGivingUp = true
    const { left, tellAnswered } = this.#takeAll(error)
    const spooled = this.#spool?.leave(left)
    // Before the callbacks, which may record more: that need not be on disk.
    const release = spooled && this.#books.postpone(spooled.kept)
    tellAnswered()
    this.#books.lost('dropped', spooled?.lost ?? left, error, () => {
      this.#isGivingUp = false
      // What files of the spool cost is counted first, so that those who wait go once it was told.
      if (release) {
        this.#spool?.afterLosses(() => {
          this.#tellPostponed(spooled.callbacks, release)
        })
      }
      const next = this.#nextGiveUp
      this.#nextGiveUp = undefined
      if (next) this.#giveUp(next)
    })
  }

  /** What is on disk stays there for the next start. */
  #tellPostponed(callbacks: readonly Callback[], release: () => void): void {
    this.#log('spooled: %d messages', this.#books.postponed)
    const message = `The message is not delivered yet. It is on disk, in ${this.#settings.spool?.directory}, and goes out at the next start.`
    const error = new SpoolError('spooled', message)
    // Both come before the callbacks, which may record more.
    if (this.#books.awaited === 0) this.#onEmpty()
    release()
    for (const callback of callbacks) this.#teller.callBack(callback, error)
  }

  /**
   * Takes all pending messages that are in memory, in the order of their calls. Those that the endpoint has already answered are not
   * among them: they have their outcome, and `tellAnswered` tells of it.
   */
  #takeAll(error: HooklineError): { left: Entry[]; tellAnswered: () => void } {
    const { left: tried, answered } = this.#sender.abandon(error)
    const left = [...tried, ...this.#queue.takeAll()].sort((a, b) => a.sequence - b.sequence)
    const tellAnswered = () => {
      for (const [batch, answer] of answered) this.#books.delivered(batch, answer)
    }
    return { left, tellAnswered }
  }
}

recogniseAcrossBuilds({ Analytics })

function checkCallback(type: MessageType, callback: unknown): void {
  if (callback === undefined || typeof callback === 'function') return
  throw new ValidationError(
    'callback',
    `${type}() takes a function as its callback, got ${describe(callback)}.`,
  )
}

function wrongType(type: unknown): ValidationError {
  return new ValidationError(
    'type',
    `deliver() takes the type of a call first: ${MESSAGE_TYPES.join(', ')}. Got ${describe(type)}.`,
  )
}

function describeFull({ spool, maxQueueBytes, endpoint }: Settings): string {
  const waiting = `of messages wait for ${endpoint.origin}. See that the endpoint answers`
  return spool
    ? `The spool is full, or its disk: up to ${spool.maxBytes} bytes, or ${maxQueueBytes} while the disk takes none, ${waiting} and the disk has room, or raise spool.maxBytes.`
    : `The queue is full: ${maxQueueBytes} bytes ${waiting}, or raise maxQueueBytes.`
}

function checkTimeout(method: string, options: unknown, byDefault: number): number {
  if (isTimeoutOrCallback(options)) {
    throw new OptionError(
      'timeout',
      `${method}() takes an object, such as { timeout: 5000 } in ms, and gives a promise; got ${describe(options)}.`,
    )
  }
  // A listener gets what its event has, such as the name of a signal, and must not throw for it.
  const { timeout = byDefault, ...others } = isPlainObject(options) ? options : {}
  const [other] = Object.keys(others)
  if (other !== undefined) {
    throw new OptionError(
      other,
      `${method}() has no option ${JSON.stringify(other)}. Its only option is timeout.`,
    )
  }
  if (timeout === Infinity) return Infinity
  if (typeof timeout === 'number' && timeout >= 0 && timeout <= MAX_TIMER_MS) return timeout
  throw new OptionError(
    'timeout',
    `${method}() takes a timeout from 0 to ${MAX_TIMER_MS} ms, or Infinity, got ${describe(timeout)}.`,
  )
}

/** What other clients take. An event may have a number too: an exit code, up to 255. */
function isTimeoutOrCallback(given: unknown): boolean {
  return typeof given === 'number' ? given > 255 : typeof given === 'function' || given === true
}

function toHooklineError(type: MessageType, thrown: unknown): HooklineError {
  // A Proxy can claim to be any error, and throw when it is read as one.
  if (thrown instanceof HooklineError && readMessage(thrown) !== undefined) return thrown
  const why = messageOf(thrown)
  return new ValidationError('message', `${type}() could not read its message: ${why}`, {
    cause: thrown,
  })
}

/** The id of what is no valid message. It never throws, whatever the getters of a stranger's object do. */
function readId(given: unknown): string | undefined {
  try {
    const { messageId } = given as { messageId?: unknown }
    return typeof messageId === 'string' ? messageId : undefined
  } catch {
    return undefined
  }
}
