import type { Answer, Answered, Attempt } from './attempt.js'
import type { Batch, Entry } from './entry.js'
import { RejectedError, RetriesExhaustedError } from './errors.js'
import type { HooklineError } from './hookline-error.js'
import { log } from './log.js'
import { judge, retryAfterMs } from './retry.js'
import { detached, later, unref } from './runtime.js'

/** What sending needs from the stages around it. */
interface Surroundings {
  /** How many batches may be in flight. With one, they go out in the order of the calls. */
  readonly concurrency: number
  readonly maxRetries: number
  /** How long to wait after so many failures in a row. */
  backoffMs(failures: number, random: number): number
  /** Whether what waits is still this client's to send. */
  isOurs(): boolean
  hasBatch(): boolean
  /** The next batch, if there is one. */
  takeBatch(): Batch
  splitBatch(batch: Batch): [Batch, Batch]
  attempt(batch: Batch): Attempt
  /** A batch was accepted, but for those of its messages that the answer names. */
  onAccepted(batch: Batch, answer: Answered): void
  /** The server refused the messages, or there were too many attempts. */
  onLost(outcome: 'rejected' | 'dropped', entries: readonly Entry[], error: HooklineError): void
}

/**
 * After an answer, what piled up meanwhile gets this long to grow. Under load, a request then carries
 * hundreds of messages instead of tens: most of the cost of sending is the request's, not the message's.
 */
const GATHER_MS = 2

/**
 * Sends batches, and decides what follows from each answer.
 *
 *     ready ── attempt ──┬─ accepted, rejected
 *       ↑                ├─ split: two halves, next in line
 *       └─── back-off ───┴─ failed: the same batch again
 *
 * While attempts fail there is one back-off for all batches, and one batch that probes when it ends; the
 * rest follows once an attempt gets through.
 */
export class Sender {
  readonly #around: Surroundings
  readonly #inFlight = new Map<Batch, Attempt>()
  /** Batches to be tried again, the oldest first. */
  #again: Batch[] = []
  #failures = 0
  /** Counts the failures that were worth a back-off: an answer to an older attempt changes nothing. */
  #epoch = 0
  #isScheduled = false
  #gatherUntilMs = 0
  #pause: { timer: ReturnType<typeof setTimeout>; untilMs: number; isOurs: boolean } | undefined

  constructor(around: Surroundings) {
    this.#around = around
  }

  /** Starts sending what is ready, in a later turn of the event loop. */
  wake(): void {
    if (this.#isScheduled || this.#isBusy()) return
    this.#isScheduled = true
    later(this.#onTurn)
  }

  /** Time is short: ends a back-off, and starts over from short ones. One that the server asked for stays. */
  hurry(): void {
    this.#failures = Math.min(this.#failures, 1)
    if (this.#pause?.isOurs) this.#endPause()
    this.wake()
  }

  /** Gives up all batches, those in flight too, and hands out their messages. */
  abandon(reason: Error): Entry[] {
    const batches = [...this.#inFlight.keys(), ...this.#again].toSorted(byAge)
    const attempts = [...this.#inFlight.values()]
    this.#inFlight.clear()
    this.#again = []
    for (const attempt of attempts) attempt.cancel(reason)
    return batches.flatMap((batch) => batch.entries)
  }

  readonly #onTurn = detached(() => {
    this.#isScheduled = false
    this.#send()
  })

  #isBusy(): boolean {
    const allowed = this.#failures > 0 ? 1 : this.#around.concurrency
    return this.#pause !== undefined || this.#inFlight.size >= allowed
  }

  #hasBatch(): boolean {
    return this.#again.length > 0 || this.#around.hasBatch()
  }

  #send(): void {
    while (!this.#isBusy() && this.#around.isOurs() && this.#hasBatch()) {
      const gatherMs = this.#gatherUntilMs - performance.now()
      if (gatherMs > 0) {
        this.#pauseFor(gatherMs, true)
        return
      }
      const batch = this.#again.shift() ?? this.#around.takeBatch()
      void this.#deliver(batch)
    }
  }

  async #deliver(batch: Batch): Promise<void> {
    const epoch = this.#epoch
    const startedMs = performance.now()
    batch.attempts++
    const attempt = this.#around.attempt(batch)
    this.#inFlight.set(batch, attempt)
    const answer = await attempt.answer
    if (!this.#inFlight.delete(batch)) return // abandoned meanwhile

    log(
      'attempt %d: %d messages, %d bytes: %s after %d ms',
      batch.attempts,
      batch.entries.length,
      batch.bodyBytes,
      'error' in answer ? answer.error.message : answer.status,
      Math.round(performance.now() - startedMs),
    )
    this.#settle(batch, answer, epoch)
    if (this.#around.concurrency === 1) this.#gatherUntilMs = performance.now() + GATHER_MS
    this.#send()
  }

  #settle(batch: Batch, answer: Answer, epoch: number): void {
    if ('error' in answer) {
      this.#retry(batch, epoch, answer.error, 0)
      return
    }
    const verdict = judge(answer.status, batch.entries.length)
    if (verdict === 'retry') {
      const error = new Error(describeAnswer(answer))
      this.#retry(batch, epoch, error, retryAfterMs(answer.header('retry-after'), Date.now()))
      return
    }
    if (epoch === this.#epoch) this.#failures = 0
    if (verdict === 'delivered') this.#around.onAccepted(batch, answer)
    else if (verdict === 'split') this.#again.unshift(...this.#around.splitBatch(batch))
    else {
      const error = new RejectedError(
        `${describeAnswer(answer)}. ${adviceFor(answer)}`,
        answer.status,
        answer.body.slice(0, MAX_DETAIL_LENGTH),
      )
      this.#around.onLost('rejected', batch.entries, error)
    }
  }

  #retry(batch: Batch, epoch: number, error: Error, leastMs: number): void {
    let ownMs = 0
    if (epoch === this.#epoch) {
      this.#epoch++
      this.#failures++
      ownMs = this.#around.backoffMs(this.#failures, Math.random())
    }
    const delayMs = Math.max(ownMs, leastMs)
    log('next attempt in %d ms', Math.round(delayMs))
    this.#pauseFor(delayMs, ownMs >= leastMs)
    if (batch.retries === this.#around.maxRetries) {
      const message = `Given up after ${batch.attempts} attempts: ${error.message}`
      this.#around.onLost(
        'dropped',
        batch.entries,
        new RetriesExhaustedError(message, batch.attempts, error),
      )
      return
    }
    batch.retries++
    this.#again = [...this.#again, batch].sort(byAge)
  }

  #pauseFor(delayMs: number, isOurs: boolean): void {
    const untilMs = performance.now() + delayMs
    if (this.#pause && this.#pause.untilMs >= untilMs) return
    clearTimeout(this.#pause?.timer)
    const timer = setTimeout(this.#onPauseEnd, delayMs)
    unref(timer)
    // A pause that takes the place of one that the server asked for is as binding.
    this.#pause = { timer, untilMs, isOurs: isOurs && (this.#pause?.isOurs ?? true) }
  }

  readonly #onPauseEnd = detached(() => {
    this.#endPause()
  })

  #endPause(): void {
    clearTimeout(this.#pause?.timer)
    this.#pause = undefined
    this.#gatherUntilMs = 0
    this.#send()
  }
}

const MAX_DETAIL_LENGTH = 500

function describeAnswer(answer: Answered): string {
  const start = answer.body.slice(0, MAX_DETAIL_LENGTH).trim()
  return `The endpoint answered ${answer.status}${start && `: ${start}`}`
}

/** What the reader of a refusal can do about it. */
function adviceFor(answer: Answered): string {
  const { status } = answer
  if (status === 401 || status === 403) return 'Check the write key.'
  if (status === 404 || status === 405) return 'Check the path of the endpoint.'
  if (status === 413) return 'This server takes no message of that size.'
  if (status < 400) {
    const location = answer.header('location')
    return `Redirects are not followed: make ${location ?? 'the final URL'} the endpoint.`
  }
  return 'Sending it again would not help.'
}

function byAge(a: Batch, b: Batch): number {
  return (a.entries[0]?.sequence ?? 0) - (b.entries[0]?.sequence ?? 0)
}
