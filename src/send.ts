import type { Answer, Answered, Attempt, Transport } from './attempt.js'
import { countFitting, createBatch, cutBatch, encodeBody, ENVELOPE_BYTES } from './batch.js'
import type { BodySize } from './body-size.js'
import type { Batch, Entry } from './entry.js'
import { DroppedError, RejectedError, RetriesExhaustedError } from './errors.js'
import type { HooklineError } from './hookline-error.js'
import { Isolation, MAX_LONE_ATTEMPTS } from './isolation.js'
import type { Log } from './log.js'
import { adviceFor, judge, retryAfterMs } from './retry.js'
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
  readonly queue: {
    /** How many messages may be sent. */
    readonly closedLength: number
    take(maxMessages: number, maxBytes: number, before: number): Entry[]
    findFrom(sequence: number): Entry | undefined
    remove(entry: Entry): void
  }
  readonly books: {
    /** A server accepted a batch, but for those of its messages that the answer names. */
    delivered(batch: Batch, answer: Answered): void
    lost(outcome: 'rejected' | 'dropped', entries: readonly Entry[], error: HooklineError): void
  }
}

/** Why a batch has to be tried again. */
interface Failure {
  readonly error: Error
  /** Equal for failures that may have the same cause in the batch; undefined if it is not the batch's fault. */
  readonly kind: string | undefined
  /** How long the server asked to wait. */
  readonly waitMs: number
}

/** So many failures in a row make a batch suspect: its messages are then tried in pieces. */
const SUSPECT_STRIKES = 2

/** A message counts by the status of so many answers that broke off, if the last one was to it alone. */
const MAX_CUTS = 3

/** So many make a single message suspect: the one behind it then shows whether the endpoint takes others. */
const ISOLATE_STRIKES = 4

/** An endpoint that fails for everything gets a probe with every fourth back-off, once the first probes have failed. */
const MAX_UNPROBED = 3

/**
 * The farthest probe: more failing messages in a row count as an endpoint that fails for everything. Probes that failed
 * stay in line, so that they end up at the same message, and few messages leave the queue in an outage.
 */
const MAX_PROBE_DISTANCE = 4_096

/** A success pays for so many failures of a kind that is known to be some messages' fault: they cost no back-off. */
const EXPECTED_FAILURES = 2

/** After so many single messages with the same refusal, the rest of their batch is not tried one by one. */
const SAME_REFUSALS = 8

/** The same for an endpoint that has accepted something before: its refusals may well be the messages' fault. */
const SAME_REFUSALS_ONCE_ACCEPTED = 32

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
  readonly #inFlight = new Map<Batch, Attempt>()
  #isolated: { batch: Batch; attempt: Attempt } | undefined
  #isolatedTimer: Timer | undefined
  /** Batches and pieces that were tried, the oldest first. */
  #line: Batch[] = []
  #failures = 0
  /** Counts the failures that were worth a back-off: an answer to an older attempt changes nothing. */
  #epoch = 0
  /** Whether the endpoint takes messages: the last answer in line was no failure, but for expected ones. */
  #isAlive = false
  #expectedFailures = 0
  /** How many of the messages that the last successful probe overtook may be isolated at their next failure. */
  #suspects = 0
  /** Whether the next attempt is a probe that overtakes the first messages, and how many of them. */
  #isProbing = false
  #probeDistance = 1
  /** Probes since the endpoint took a message, and failures of the first message since the last one. */
  #probes = 0
  #failuresUnprobed = 0
  /** The probe under way. */
  #probe: Batch | undefined
  #hasAccepted = false
  #sameRefusals = { answer: '', count: 0 }
  #isScheduled = false
  #gatherUntilMs = 0
  #pause: { timer: Timer; untilMs: number } | undefined
  /** Until when the server asked to wait, on the clock of `nowMs()`. */
  #askedUntilMs = 0
  #lastFailure: string | undefined

  constructor(around: Surroundings) {
    this.#around = around
    this.#isolation = new Isolation(around.pace.backoffMs, around.maxQueueBytes)
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
    if (this.#isScheduled || this.#isBusy()) return
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
    const left = [...this.#line, ...this.#isolation.takeAll()]
    const inFlight = [...this.#inFlight]
    if (this.#isolated) inFlight.push([this.#isolated.batch, this.#isolated.attempt])
    this.#isolated = undefined
    this.#inFlight.clear()
    this.#line = []
    const answered: [Batch, Answered][] = []
    for (const [batch, attempt] of inFlight) {
      const answer = attempt.cancel(reason)
      const isTaken =
        'status' in answer && judge(answer.status, batch.entries.length) === 'delivered'
      // As long as no body has come, it may still name messages that were refused.
      if (isTaken && answer.body !== '') answered.push([batch, answer])
      else left.push(batch)
    }
    return { left: left.flatMap((batch) => batch.entries), answered }
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
    return this.#line.length > 0 || this.#around.queue.closedLength > 0
  }

  #send(): void {
    while (!this.#isBusy() && this.#around.isOurs() && this.#hasBatch()) {
      const gatherMs = this.#gatherUntilMs - nowMs()
      if (gatherMs > 0) {
        this.#pauseFor(gatherMs)
        return
      }
      const batch = this.#isProbing ? this.#takeProbe() : this.#takeNext()
      void this.#deliver(batch)
    }
    this.#sendIsolated()
  }

  /** The oldest messages, as many as the endpoint can take: from the line, or older ones from the queue. */
  #takeNext(): Batch {
    const { size, queue } = this.#around
    const [first] = this.#line
    const before = first?.entries[0]?.sequence ?? Infinity
    const queued = queue.take(size.messages, size.bytes - ENVELOPE_BYTES, before)
    if (!first || queued.length > 0) return createBatch(queued)

    this.#line.shift()
    const { pieceMessages, refusal } = first.search
    const maxMessages = Math.min(pieceMessages, size.messages)
    const messages = countFitting(first.entries, maxMessages, refusal ? Infinity : size.bytes)
    if (messages === first.entries.length) return first
    const [piece, rest] = cutBatch(first, messages)
    this.#line.unshift(rest)
    return piece
  }

  /**
   * A message behind those that keep failing: it shows whether the endpoint takes others. If it fails too, the order
   * is as it was, and the next probe goes further.
   */
  #takeProbe(): Batch {
    this.#isProbing = false
    const { queue } = this.#around
    const inLine = this.#line.flatMap(({ entries }) => entries)
    const place = (inLine[0]?.sequence ?? 0) + this.#probeDistance
    const queued = queue.findFrom(place)
    const all = (queued ? [...inLine, queued] : inLine).sort((a, b) => a.sequence - b.sequence)
    const entry = (all.find(({ sequence }) => sequence >= place) ?? all.at(-1)) as Entry // there is a batch
    if (entry === queued) queue.remove(entry)
    return (this.#probe = entry === queued ? createBatch([entry]) : this.#takeOut(entry))
  }

  /** Takes one message out of the line. */
  #takeOut(entry: Entry): Batch {
    const at = this.#line.findIndex(({ entries }) => entries.includes(entry))
    const batch = this.#line[at] as Batch
    const [start, rest] = cutBatch(batch, batch.entries.indexOf(entry))
    const [alone, end] = cutBatch(rest, 1)
    const others = [start, end].filter(({ entries }) => entries.length > 0)
    this.#line.splice(at, 1, ...others)
    return others.length > 0 ? alone : batch
  }

  #endProbe(): void {
    this.#suspects = this.#isAlive ? this.#probeDistance : 0
    this.#probeDistance = this.#isAlive ? 1 : Math.min(this.#probeDistance * 4, MAX_PROBE_DISTANCE)
    this.#probe = undefined
  }

  async #deliver(batch: Batch): Promise<void> {
    const epoch = this.#epoch
    const startedMs = nowMs()
    const attempt = this.#attempt(batch)
    this.#inFlight.set(batch, attempt)
    const answer = await attempt.answer
    if (!this.#inFlight.delete(batch)) return // abandoned meanwhile

    const isProbe = batch === this.#probe
    this.#guard(batch, () => {
      this.#conclude(batch, answer, epoch, nowMs() - startedMs)
    })
    if (isProbe) this.#endProbe()
    if (this.#around.concurrency === 1) {
      this.#gatherUntilMs = nowMs() + this.#around.pace.gatherMs
    }
    this.#send()
  }

  #attempt(batch: Batch): Attempt {
    batch.attempts++
    const body = encodeBody(batch, new Date().toISOString())
    return this.#around.transport.start(body, batch.attempts - 1)
  }

  /** The last guard: a defect of ours may cost a batch, reported, but never stops what follows. */
  #guard(batch: Batch, act: () => void): void {
    try {
      act()
    } catch (cause) {
      const message = 'The client failed while it read an answer: please report this defect.'
      const error = new DroppedError('internal_error', message, { cause })
      this.#around.books.lost('dropped', batch.entries, error)
    }
  }

  #conclude(batch: Batch, given: Answer, epoch: number, durationMs: number): void {
    this.#logAttempt(batch, given, durationMs)
    const { size } = this.#around
    const answer = byStatus(batch, given)
    if ('error' in answer) {
      if (answer.failure === 'timeout' || answer.failure === 'late answer') size.timedOut(batch)
      this.#failed(batch, describeFailure(answer), epoch)
      return
    }
    const verdict = judge(answer.status, batch.entries.length)
    if (verdict === 'retry') {
      this.#failed(batch, describeFailure(answer), epoch)
      return
    }
    if (epoch === this.#epoch) this.#failures = 0
    this.#isAlive = true
    this.#expectedFailures = 0
    this.#probes = 0
    if (verdict === 'delivered') {
      this.#hasAccepted = true
      this.#sameRefusals.count = 0
      this.#isolation.endpointTakes()
      size.accepted(batch, durationMs)
      batch.search.pieceMessages *= 2
      this.#around.books.delivered(batch, answer)
    } else if (verdict === 'rejected') {
      this.#refused(batch, answer)
    } else {
      const refusal = answer.status === 413 ? 413 : 400
      if (refusal === 413) size.tooLarge(batch)
      if (batch.search.refusal !== refusal) batch.search = { pieceMessages: Infinity, refusal }
      this.#line.unshift(...cutBatch(batch, this.#isRefusingAll ? 1 : half(batch)))
    }
  }

  #refused(batch: Batch, answer: Answered): void {
    const entries = [...batch.entries]
    if (answer.status === 413) this.#around.size.forgetTooLarge()
    if (answer.status === 400 && entries.length === 1) {
      this.#countRefusal(answer)
      if (this.#isRefusingAll) entries.push(...this.#giveUpRestOf(batch))
      entries.sort((one, other) => one.sequence - other.sequence) // this one may be the last of them
    }
    this.#around.books.lost('rejected', entries, rejection(answer))
  }

  #countRefusal({ status, body }: Answered): void {
    const answer = `${status} ${body}`
    if (answer !== this.#sameRefusals.answer) this.#sameRefusals = { answer, count: 0 }
    this.#sameRefusals.count++
  }

  /** Whether so many single messages had the same refusal that it must be the endpoint's fault, not theirs. */
  get #isRefusingAll(): boolean {
    const most = this.#hasAccepted ? SAME_REFUSALS_ONCE_ACCEPTED : SAME_REFUSALS
    return this.#sameRefusals.count >= most
  }

  /**
   * Gives the rest of the batch that this message was cut from, if it is to be given up. Before that, its last
   * message is tried alone: it shows whether the endpoint takes any.
   */
  #giveUpRestOf(batch: Batch): Entry[] {
    const { search } = batch
    const rest = this.#line.filter((piece) => piece.search === search)
    const last = rest.at(-1)
    if (!last || search.refusal !== 400) return []
    const others = this.#line.filter((piece) => piece.search !== search)
    if (search.sample === batch) {
      this.#line = others
      return rest.flatMap(({ entries }) => entries)
    }
    const [start, sample] = cutBatch(last, last.entries.length - 1)
    search.sample = sample
    const kept = start.entries.length > 0 ? [start] : []
    this.#line = [sample, ...rest.slice(0, -1), ...kept, ...others]
    return []
  }

  #failed(batch: Batch, failure: Failure, epoch: number): void {
    const { kind } = failure
    batch.strikes = kind === undefined ? 0 : batch.strikes + strikeOf(batch, kind)
    batch.failure = kind
    const effect = this.#judgeFailure(batch)
    if (effect !== 'expected') this.#isAlive = false
    if (effect === 'failed') this.#backOff(failure, epoch)
    else if (effect === 'probe') {
      this.#startProbe()
      this.#waitAsked(failure)
    } else if (effect === 'isolated') this.#pauseFor(this.#around.pace.backoffMs(1, Math.random()))
    if (batch.retries >= this.#around.maxRetries) {
      this.#isProbing = false
      batch.search.pieceMessages = Infinity // the other messages get their chance in one body
      this.#giveUp(batch, failure.error)
      return
    }
    batch.retries++
    if ((effect === 'isolated' || effect === 'expected') && batch.entries.length === 1) {
      this.#suspects--
      this.#isolate(batch, 0, failure.waitMs)
      return
    }
    this.#line = [...this.#line, batch].sort(byAge)
  }

  /**
   * Tells a failing message from a failing endpoint, and arranges the search for the message.
   *
   * @returns `'failed'`: nobody knows yet, so there is a back-off. `'probe'`: the message behind it is to show.
   * `'isolated'`: the message is at fault. `'expected'`: so it is, or one of the batch, in a way that is known
   * while the endpoint takes others.
   */
  #judgeFailure(batch: Batch): 'failed' | 'probe' | 'isolated' | 'expected' {
    const { failure, strikes, search } = batch
    if (failure === undefined) return 'failed'
    const isKnown = this.#isolation.knows(failure)
    const isExpected = isKnown && this.#isAlive && this.#expectedFailures < EXPECTED_FAILURES
    if (isExpected) this.#expectedFailures++
    if (batch.entries.length > 1) {
      if (isExpected || Math.floor(strikes) === SUSPECT_STRIKES) search.pieceMessages = 1
      else if (strikes > SUSPECT_STRIKES) search.pieceMessages = half(batch)
      return isExpected ? 'expected' : 'failed'
    }
    // A message that was not seen to fail before may well be the first one of an outage.
    if (isExpected && strikes > 1) return 'expected'
    if (isKnown && this.#suspects > 0) return 'isolated'
    if (strikes < ISOLATE_STRIKES) return 'failed'
    if (this.#isAlive) return 'isolated'
    if (batch === this.#probe || !this.#hasBatch()) return 'failed'
    return this.#failuresUnprobed++ < Math.min(this.#probes, MAX_UNPROBED) ? 'failed' : 'probe'
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
    if (this.#isolated || this.#isolation.size === 0 || !this.#around.isOurs()) return
    const isFailing = this.#failures > 0 && (this.#inFlight.size > 0 || this.#hasBatch())
    if (isFailing || this.#pause) return // both end with another call of this
    const waitMs = this.#isolation.dueMs - nowMs()
    if (waitMs <= 0) {
      void this.#deliverIsolated()
      return
    }
    this.#isolatedTimer = startTimer(this.#onTurn, waitMs)
  }

  async #deliverIsolated(): Promise<void> {
    const next = this.#isolation.take()
    if (!next) return
    const { batch, attempts } = next
    const startedMs = nowMs()
    const attempt = this.#attempt(batch)
    const isolated = { batch, attempt }
    this.#isolated = isolated
    const answer = await attempt.answer
    if (this.#isolated !== isolated) return // abandoned meanwhile

    this.#isolated = undefined
    this.#guard(batch, () => {
      this.#concludeIsolated(batch, attempts, answer, nowMs() - startedMs)
    })
    this.#send()
  }

  #concludeIsolated(batch: Batch, attempts: number, given: Answer, durationMs: number): void {
    this.#logAttempt(batch, given, durationMs)
    const { books, maxRetries } = this.#around
    const answer = byStatus(batch, given)
    const verdict = 'error' in answer ? 'retry' : judge(answer.status, 1)
    if (!('error' in answer) && verdict === 'delivered') {
      this.#isolation.recovered()
      books.delivered(batch, answer)
    } else if (!('error' in answer) && verdict !== 'retry') {
      books.lost('rejected', batch.entries, rejection(answer))
    } else {
      const failure = describeFailure(answer)
      const { error, kind } = failure
      this.#isolation.failed()
      if (answeredBusy(answer)) this.#waitAsked(failure)
      // An endpoint that is away, or asks to wait, says nothing against the message.
      const counted = kind === undefined ? attempts : attempts + 1
      if (counted >= MAX_LONE_ATTEMPTS || batch.retries >= maxRetries) this.#giveUp(batch, error)
      else {
        batch.retries++
        this.#isolate(batch, counted, failure.waitMs)
      }
    }
  }

  /**
   * Sends the probe at once, and lets the wait after it be longer: an endpoint that recovered between the two
   * would make the message look guilty, and the probe overtake it.
   */
  #startProbe(): void {
    this.#failures++
    this.#probes++
    this.#failuresUnprobed = 0
    this.#isProbing = true
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
    this.#pause = { timer: startTimer(this.#onPauseEnd, delayMs), untilMs: nowMs() + delayMs }
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

/** The answer that counts: if the answers to a single message break off again and again, only their status does. */
function byStatus(batch: Batch, answer: Answer): Answer {
  if ('status' in answer || !answer.cut) return answer
  const isAlone = batch.entries.length === 1
  const mayBeNamed = answer.cut.body.includes('"rejected"')
  if (mayBeNamed) batch.cuts = isAlone ? -Infinity : 0
  else batch.cuts++
  return isAlone && batch.cuts >= MAX_CUTS ? answer.cut : answer
}

function briefFailure(answer: Answer): string | undefined {
  if ('error' in answer) return answer.error.message
  const { status } = answer
  return status < 300 ? undefined : `the ${answererOf(status)} answered ${status}`
}

const MAX_DETAIL_LENGTH = 500

function describeAnswer({ status, body }: Answered): string {
  const start = body.slice(0, MAX_DETAIL_LENGTH).trim()
  return `The ${answererOf(status)} answered ${status}${start && `: ${start}`}`
}

/** A 407 comes from a proxy. Source: RFC 9110 section 15.5.8. */
const answererOf = (status: number) => (status === 407 ? 'proxy' : 'endpoint')

function rejection(answer: Answered): RejectedError {
  const { status, body } = answer
  const advice = adviceFor(status, answer.header('location'))
  const message = `${describeAnswer(answer)}. ${advice}`
  const summary = `The endpoint answered ${status}. ${adviceFor(status, null)}`
  return new RejectedError(message, status, body.slice(0, MAX_DETAIL_LENGTH), summary)
}

function describeFailure(answer: Answer): Failure {
  if ('error' in answer) return { error: answer.error, kind: answer.failure, waitMs: 0 }
  const { status } = answer
  const waitMs = retryAfterMs(answer.header('retry-after'), Date.now())
  const kind = answeredBusy(answer) ? undefined : String(status)
  return { error: new Error(describeAnswer(answer)), kind, waitMs }
}

/** Whether the endpoint asks for fewer requests, whatever they hold. */
function answeredBusy(answer: Answer): boolean {
  return 'status' in answer && (answer.status === 408 || answer.status === 429)
}

/** Failures of different kinds in a row say less than equal ones. */
function strikeOf({ failure }: Batch, kind: string): number {
  return failure === undefined || failure === kind ? 1 : 0.5
}

function half(batch: Batch): number {
  return Math.ceil(batch.entries.length / 2)
}

function byAge(a: Batch, b: Batch): number {
  return (a.entries[0]?.sequence ?? 0) - (b.entries[0]?.sequence ?? 0)
}
