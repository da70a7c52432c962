import {
  briefFailure,
  byStatus,
  consumption,
  describeFailure,
  rejection,
  verdictOn,
  type Answer,
  type Answered,
  type Failure,
} from './answer.js'
import type { Attempt, Transport } from './attempt.js'
import { cutBatch, encodeBody, halfOf } from './batch.js'
import { Blame } from './blame.js'
import type { BodySize } from './body-size.js'
import type { Batch, Entry } from './entry.js'
import { DroppedError, RetriesExhaustedError } from './errors.js'
import type { HooklineError } from './hookline-error.js'
import { Isolation, MAX_LONE_ATTEMPTS } from './isolation.js'
import { Line, type Untried } from './line.js'
import type { Log } from './log.js'
import { clearTimeout, detached, nowMs, startTimer, type Timer } from './runtime.js'

/** How fast things go. A test client goes on at once. */
export interface Pace {
  /** How long to wait after so many failures in a row. */
  readonly backoffMs: (failures: number, random: number) => number
  /**
   * After an answer, what piled up meanwhile gets this long to grow. Under load, a request then carries
   * hundreds of messages instead of tens: most of the cost of sending is the request's, not the message's.
   */
  readonly gatherMs: number
  /** Runs something in a later turn of the event loop. */
  readonly later: (act: () => void) => void
}

/** What sending needs from the stages around it. */
interface Surroundings {
  /** How many batches may be in flight. With one, they go out in the order of the calls. */
  readonly concurrency: number
  readonly maxRetries: number
  readonly maxQueueBytes: number
  readonly pace: Pace
  readonly size: BodySize
  readonly log: Log
  readonly transport: Pick<Transport, 'start'>
  /** Whether the queued messages are still this client's to send. */
  isOurs(): boolean
  readonly queue: Untried
  readonly books: {
    /** A server accepted a batch, but for those of its messages that the answer names. */
    delivered(batch: Batch, answer: Answered): void
    lost(outcome: 'rejected' | 'dropped', entries: readonly Entry[], error: HooklineError): void
  }
}

/**
 * Sends batches, and decides what follows from each answer.
 *
 *     in line ── attempt ──┬─ accepted, refused
 *        ↑                 ├─ too large, split: in smaller pieces, first in line
 *        └─── back-off ────┴─ failed: the same batch again
 *                          └─ failed while the endpoint takes others: isolated, beside the line
 *
 * While attempts fail there is one back-off for all batches, and one batch that probes when it ends. The
 * rest follows once an attempt gets through.
 */
export class Sender {
  readonly #around: Surroundings
  readonly #isolation: Isolation
  readonly #line: Line
  readonly #blame: Blame
  readonly #inFlight = new Map<Batch, Attempt>()
  /** Whether an isolated message is in flight, beside those in line. */
  #isTryingIsolated = false
  #isolatedTimer: Timer | undefined
  /** How many failures in a row were worth a back-off, or a probe. */
  #failures = 0
  /** Counts the failures that were worth a back-off: an answer to an older attempt changes nothing. */
  #epoch = 0
  #isScheduled = false
  #gatherUntilMs = 0
  #pause: { timer: Timer; untilMs: number } | undefined
  /** Until when the server asked to wait, on the clock of `nowMs()`. */
  #askedUntilMs = 0
  #lastFailure: string | undefined

  constructor(around: Surroundings) {
    this.#around = around
    this.#isolation = new Isolation(around.pace.backoffMs, around.maxQueueBytes)
    this.#line = new Line(around.queue)
    this.#blame = new Blame(this.#line, this.#isolation)
  }

  /** Until when the server asked to wait, on the clock of `nowMs()`; 0 if it never did. */
  get askedUntilMs(): number {
    return this.#askedUntilMs
  }

  /** A sentence that says why the latest attempt failed, without the words of the server; empty if it did not. */
  get lastFailure(): string {
    return this.#lastFailure === undefined ? '' : ` The last attempt failed: ${this.#lastFailure}.`
  }

  /** Starts sending what is ready, in a later turn of the event loop. */
  wake(): void {
    if (this.#isScheduled || this.#isBusy) return
    this.#isScheduled = true
    this.#around.pace.later(this.#onTurn)
  }

  /** Time is short: ends a back-off, and starts over from short ones. One that the server asked for stays. */
  hurry(): void {
    this.#failures = Math.min(this.#failures, 1)
    this.#isolation.hurry()
    const askedMs = this.#askedUntilMs - nowMs()
    if (this.#pause && askedMs > 0) this.#startPause(askedMs)
    else if (this.#pause) this.#endPause()
    this.wake()
  }

  /** Gives up all batches, and hands out their messages. Those that the endpoint has already answered with a success are `answered`. */
  abandon(reason: Error): { left: Entry[]; answered: [Batch, Answered][] } {
    const left = [...this.#line.takeTried(), ...this.#isolation.takeAll()]
    const inFlight = [...this.#inFlight]
    this.#inFlight.clear()
    this.#isTryingIsolated = false
    const answered: [Batch, Answered][] = []
    for (const [batch, attempt] of inFlight) {
      const answer = attempt.cancel(reason)
      // As long as no body has come, it may still name messages that were refused.
      const hasBody = 'status' in answer && answer.body !== ''
      if (hasBody && verdictOn(answer, batch) === 'delivered') answered.push([batch, answer])
      else left.push(batch)
    }
    return { left: left.flatMap((batch) => batch.entries), answered }
  }

  readonly #onTurn = detached(() => {
    this.#isScheduled = false
    this.#send()
  })

  get #isBusy(): boolean {
    const allowed = this.#failures > 0 ? 1 : this.#around.concurrency
    return this.#pause !== undefined || this.#inLine >= allowed
  }

  /** How many batches are in flight that came from the line. */
  get #inLine(): number {
    return this.#inFlight.size - Number(this.#isTryingIsolated)
  }

  #send(): void {
    while (!this.#isBusy && this.#around.isOurs() && !this.#line.isEmpty) {
      const gatherMs = this.#gatherUntilMs - nowMs()
      if (gatherMs > 0) {
        this.#pauseFor(gatherMs)
        return
      }
      const batch = this.#blame.takeProbe() ?? this.#line.takeFirst(this.#around.size)
      const epoch = this.#epoch
      void this.#attempt(batch, (answer, durationMs) => {
        this.#conclude(batch, answer, epoch, durationMs)
        this.#blame.concluded(batch)
        if (this.#around.concurrency > 1) return
        this.#gatherUntilMs = nowMs() + this.#around.pace.gatherMs
      })
    }
    this.#sendIsolated()
  }

  async #attempt(
    batch: Batch,
    conclude: (answer: Answer, durationMs: number) => void,
  ): Promise<void> {
    const { transport, books } = this.#around
    const startedMs = nowMs()
    const body = encodeBody(batch, new Date().toISOString())
    const attempt = transport.start(body, batch.attempts++)
    this.#inFlight.set(batch, attempt)
    const answer = await attempt.answer
    if (!this.#inFlight.delete(batch)) return // abandoned meanwhile

    try {
      const durationMs = nowMs() - startedMs
      this.#logAttempt(batch, answer, durationMs)
      conclude(byStatus(batch, answer), durationMs)
    } catch (cause) {
      // The last guard: a defect of ours may cost a batch, reported, but never stops what follows.
      const message = 'The client failed while it read an answer: please report this defect.'
      books.lost('dropped', batch.entries, new DroppedError('internal_error', message, { cause }))
    }
    this.#send()
  }

  #conclude(batch: Batch, answer: Answer, epoch: number, durationMs: number): void {
    const { size } = this.#around
    const verdict = verdictOn(answer, batch)
    if ('error' in answer || verdict === 'retry') {
      const failure = describeFailure(answer)
      if (failure.kind === 'timeout' || failure.kind === 'late answer') size.timedOut(batch)
      this.#failed(batch, failure, epoch)
      return
    }
    if (epoch === this.#epoch) this.#failures = 0
    this.#blame.answered(verdict === 'delivered')
    if (verdict === 'delivered') {
      this.#isolation.endpointTakes()
      size.accepted(batch, durationMs)
      batch.search.pieceMessages *= 2
      this.#taken(batch, answer)
    } else if (verdict === 'rejected') {
      this.#refused(batch, answer)
    } else {
      const refusal = answer.status === 413 ? 413 : 400
      if (refusal === 413) size.tooLarge(batch)
      if (batch.search.refusal !== refusal) batch.search = { pieceMessages: Infinity, refusal }
      this.#line.putFirst(...cutBatch(batch, this.#blame.isRefusingAll ? 1 : halfOf(batch)))
    }
  }

  #taken(batch: Batch, answer: Answered): void {
    const { books } = this.#around
    // It may have arrived, but sending it again would show no more: fetch would read that answer, too.
    if (answer.isConsumed) books.lost('dropped', batch.entries, consumption(answer))
    else books.delivered(batch, answer)
  }

  #refused(batch: Batch, answer: Answered): void {
    const entries = [...batch.entries]
    if (answer.status === 413) this.#around.size.forgetTooLarge()
    if (answer.status === 400 && entries.length === 1) {
      this.#blame.refused(answer)
      if (this.#blame.isRefusingAll) entries.push(...this.#line.takeRestOf(batch))
      entries.sort((one, other) => one.sequence - other.sequence) // this one may be the last of them
    }
    this.#around.books.lost('rejected', entries, rejection(answer))
  }

  #failed(batch: Batch, failure: Failure, epoch: number): void {
    const finding = this.#blame.failed(batch, failure.kind)
    if (finding === 'failed') this.#backOff(failure, epoch)
    else if (finding === 'isolated') this.#pauseFor(this.#around.pace.backoffMs(1, Math.random()))
    else if (finding === 'probe') {
      // The probe goes out at once, and the wait after it is longer: an endpoint that recovered between the two
      // would make the message look guilty, and the probe overtake it.
      this.#failures++
      this.#waitAsked(failure)
    }
    if (batch.retries >= this.#around.maxRetries) {
      this.#blame.cancelProbe()
      batch.search.pieceMessages = Infinity // the other messages get their chance in one body
      this.#giveUp(batch, failure.error)
      return
    }
    batch.retries++
    const isAtFault = finding === 'isolated' || finding === 'expected'
    if (isAtFault && batch.entries.length === 1) {
      this.#blame.isolated()
      this.#isolate(batch, 0, failure.waitMs)
    } else this.#line.putBack(batch)
  }

  #isolate(batch: Batch, attempts: number, askedMs: number): void {
    const error = new Error('too many messages fail while the endpoint takes others')
    for (const left of this.#isolation.add(batch, attempts, askedMs)) this.#giveUp(left, error)
  }

  #giveUp(batch: Batch, error: Error): void {
    const message = `Given up after ${batch.attempts} attempts: ${error.message}`
    const exhausted = new RetriesExhaustedError(message, batch.attempts, error)
    this.#around.books.lost('dropped', batch.entries, exhausted)
  }

  /** Tries an isolated message, if one is due and the endpoint is not failing for everything. */
  #sendIsolated(): void {
    clearTimeout(this.#isolatedTimer)
    const isWaiting = this.#isolation.dueMs < Infinity && !this.#isTryingIsolated
    if (!isWaiting || !this.#around.isOurs()) return
    const isFailing = this.#failures > 0 && (this.#inLine > 0 || !this.#line.isEmpty)
    if (isFailing || this.#pause) return // both end with another call of this
    const waitMs = this.#isolation.dueMs - nowMs()
    if (waitMs > 0) {
      this.#isolatedTimer = startTimer(this.#onTurn, waitMs)
      return
    }
    const { batch, attempts } = this.#isolation.take()
    this.#isTryingIsolated = true
    void this.#attempt(batch, (answer) => {
      this.#isTryingIsolated = false
      this.#concludeIsolated(batch, attempts, answer)
    })
  }

  #concludeIsolated(batch: Batch, attempts: number, answer: Answer): void {
    const { books, maxRetries } = this.#around
    const verdict = verdictOn(answer, batch)
    if ('error' in answer || verdict === 'retry') {
      const failure = describeFailure(answer)
      this.#isolation.failed()
      // An endpoint that is away, or asks to wait, says nothing against the message.
      const isInnocent = failure.kind === undefined
      if (isInnocent) this.#waitAsked(failure)
      const counted = isInnocent ? attempts : attempts + 1
      if (counted >= MAX_LONE_ATTEMPTS || batch.retries >= maxRetries) {
        this.#giveUp(batch, failure.error)
        return
      }
      batch.retries++
      this.#isolate(batch, counted, failure.waitMs)
    } else if (verdict === 'delivered') {
      this.#isolation.recovered()
      this.#taken(batch, answer)
    } else books.lost('rejected', batch.entries, rejection(answer))
  }

  #backOff(failure: Failure, epoch: number): void {
    let ownMs = 0
    if (epoch === this.#epoch) {
      this.#epoch++
      this.#failures++
      ownMs = this.#around.pace.backoffMs(this.#failures, Math.random())
    }
    this.#waitAsked(failure)
    const delayMs = Math.max(ownMs, failure.waitMs)
    this.#around.log('next attempt in %d ms', Math.round(delayMs))
    this.#pauseFor(delayMs)
  }

  /** Makes no pause shorter than the server asked for. */
  #waitAsked({ waitMs }: Failure): void {
    if (waitMs <= 0) return
    this.#askedUntilMs = Math.max(this.#askedUntilMs, nowMs() + waitMs)
    this.#pauseFor(waitMs)
  }

  #pauseFor(delayMs: number): void {
    if (delayMs <= 0 || (this.#pause && this.#pause.untilMs >= nowMs() + delayMs)) return
    this.#startPause(delayMs)
  }

  #startPause(delayMs: number): void {
    clearTimeout(this.#pause?.timer)
    this.#pause = { timer: startTimer(this.#endPause, delayMs), untilMs: nowMs() + delayMs }
  }

  readonly #endPause = detached(() => {
    clearTimeout(this.#pause?.timer)
    this.#pause = undefined
    this.#gatherUntilMs = 0
    this.#send()
  })

  #logAttempt(batch: Batch, answer: Answer, durationMs: number): void {
    this.#lastFailure = briefFailure(answer)
    this.#around.log(
      'attempt %d: %d messages, %d bytes: %s after %d ms',
      batch.attempts,
      batch.entries.length,
      batch.bodyBytes,
      'error' in answer ? answer.error.message : answer.status,
      Math.round(durationMs),
    )
  }
}
