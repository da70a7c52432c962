import type { Answered } from './answer.js'
import { halfOf } from './batch.js'
import type { Batch } from './entry.js'
import type { Isolation } from './isolation.js'
import type { Line } from './line.js'

/** So many failures in a row make a batch suspect: its messages are then tried in pieces. */
const SUSPECT_STRIKES = 2

/** So many make a single message suspect: the one behind it then shows whether the endpoint takes others. */
const ISOLATE_STRIKES = 4

/** An endpoint that fails for everything gets a probe with every fourth back-off, once the first probes have failed. */
const MAX_UNPROBED = 3

/**
 * The farthest probe: more failing messages in a row count as an endpoint that fails for everything. Once a probe there has failed, or
 * at the end of the line, the next ones go anywhere before it, because the messages at the former places may be the only ones that fail.
 */
const MAX_PROBE_DISTANCE = 4_096

/** A success pays for so many failures of a kind that is known to be some messages' fault: they cost no back-off. */
const EXPECTED_FAILURES = 2

/** After so many single messages with the same refusal, the rest of their batch is not tried one by one. */
const SAME_REFUSALS = 8

/** The same for an endpoint that has accepted something before: its refusals may well be the messages' fault. */
const SAME_REFUSALS_ONCE_ACCEPTED = 32

/**
 * What a failure shows.
 *
 * - `failed`: nobody knows yet.
 * - `probe`: the message behind it is to show.
 * - `isolated`: the message is at fault.
 * - `expected`: so it is, or one of the batch, in a way that is known while the endpoint takes others.
 */
type Finding = 'failed' | 'probe' | 'isolated' | 'expected'

/** Tells a message at fault from an endpoint at fault, and searches for the message. */
export class Blame {
  readonly #line: Line
  readonly #isolation: Pick<Isolation, 'knows'>
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

  constructor(line: Line, isolation: Pick<Isolation, 'knows'>) {
    this.#line = line
    this.#isolation = isolation
  }

  /**
   * Takes the probe, if one is to be sent next: a message behind those that keep failing. It shows whether the endpoint
   * takes others. If it fails too, the order is as it was, and the next probe goes further.
   */
  takeProbe(): Batch | undefined {
    if (!this.#isProbing) return undefined
    this.#isProbing = false
    const isNear = this.#probeDistance <= MAX_PROBE_DISTANCE
    this.#probe =
      (isNear ? this.#line.takeBehind(this.#probeDistance) : undefined) ??
      this.#line.takeAnywhere(MAX_PROBE_DISTANCE)
    return this.#probe
  }

  cancelProbe(): void {
    this.#isProbing = false
  }

  /** The endpoint accepted or refused a batch. */
  answered(isAccepted: boolean): void {
    this.#isAlive = true
    this.#expectedFailures = 0
    this.#probes = 0
    if (!isAccepted) return
    this.#hasAccepted = true
    this.#sameRefusals.count = 0
  }

  /** A single message was refused. */
  refused({ status, body }: Answered): void {
    const answer = `${status} ${body}`
    if (answer !== this.#sameRefusals.answer) this.#sameRefusals = { answer, count: 0 }
    this.#sameRefusals.count++
  }

  /** Whether so many single messages had the same refusal that it must be the endpoint's fault, not theirs. */
  get isRefusingAll(): boolean {
    const most = this.#hasAccepted ? SAME_REFUSALS_ONCE_ACCEPTED : SAME_REFUSALS
    return this.#sameRefusals.count >= most
  }

  /** A batch failed, in a way that may be its fault, or not if `kind` is undefined. */
  failed(batch: Batch, kind: string | undefined): Finding {
    batch.strikes = kind === undefined ? 0 : batch.strikes + strikeOf(batch, kind)
    batch.failure = kind
    const finding = this.#judge(batch)
    if (finding !== 'expected') this.#isAlive = false
    if (finding === 'probe') {
      this.#probes++
      this.#failuresUnprobed = 0
      this.#isProbing = true
    }
    return finding
  }

  #judge(batch: Batch): Finding {
    const { failure, strikes, search } = batch
    if (failure === undefined) return 'failed'
    const isKnown = this.#isolation.knows(failure)
    const isExpected = isKnown && this.#isAlive && this.#expectedFailures < EXPECTED_FAILURES
    if (isExpected) this.#expectedFailures++
    if (batch.entries.length > 1) {
      if (isExpected || Math.floor(strikes) === SUSPECT_STRIKES) search.pieceMessages = 1
      else if (strikes > SUSPECT_STRIKES) search.pieceMessages = halfOf(batch)
      return isExpected ? 'expected' : 'failed'
    }
    // A message that was not seen to fail before may well be the first one of an outage.
    if (isExpected && strikes > 1) return 'expected'
    if (isKnown && this.#suspects > 0) return 'isolated'
    if (strikes < ISOLATE_STRIKES) return 'failed'
    if (this.#isAlive) return 'isolated'
    if (batch === this.#probe || this.#line.isEmpty) return 'failed'
    return this.#failuresUnprobed++ < Math.min(this.#probes, MAX_UNPROBED) ? 'failed' : 'probe'
  }

  /** A message leaves the line for the isolation. */
  isolated(): void {
    this.#suspects--
  }

  /** All that follows from the answer to a batch has been done. */
  concluded(batch: Batch): void {
    if (batch !== this.#probe) return
    this.#suspects = this.#isAlive ? Math.min(this.#probeDistance, MAX_PROBE_DISTANCE) : 0
    this.#probeDistance = this.#isAlive ? 1 : this.#probeDistance * 4
    this.#probe = undefined
  }
}

/** Failures of different kinds in a row say less than equal ones. */
function strikeOf({ failure }: Batch, kind: string): number {
  return failure === undefined || failure === kind ? 1 : 0.5
}
