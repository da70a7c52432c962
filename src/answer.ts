import type { Batch } from './entry.js'
import { DroppedError, RejectedError } from './errors.js'
import { isListBegun } from './rejections.js'
import { adviceFor, judge, retryAfterMs, type Verdict } from './retry.js'

/** A server's answer. */
export interface Answered {
  readonly status: number
  /** As far as it came. */
  readonly body: string
  readonly header: (name: string) => string | null
  /** Whether the option `fetch` has read the body, so that the client cannot. */
  readonly isConsumed?: boolean
}

/** A request without an answer. */
export interface Unanswered {
  readonly error: Error
  /**
   * How it failed once the endpoint had it, `'timeout'`, `'late answer'`, `'cut answer'` or a code such as `'ECONNRESET'`: the
   * message may be the cause. Undefined if the endpoint was not reached, or nobody knows.
   */
  readonly failure: string | undefined
  /** What came of an answer that broke off. */
  readonly cut?: Answered
}

/** What came of a request. */
export type Answer = Answered | Unanswered

/** Why a batch has to be tried again. */
export interface Failure {
  readonly error: Error
  /** Equal for failures that may have the same cause in the batch; undefined if it is not the batch's fault. */
  readonly kind: string | undefined
  /** How long the server asked to wait. */
  readonly waitMs: number
}

/** A message counts by the status of so many answers that broke off, if the last one was to it alone. */
const MAX_CUTS = 3

const MAX_DETAIL_LENGTH = 500

/** The answer that counts: if the answers to a single message break off again and again, only their status does. */
export function byStatus(batch: Batch, answer: Answer): Answer {
  if ('status' in answer || !answer.cut) return answer
  const isAlone = batch.entries.length === 1
  const mayBeNamed = isListBegun(answer.cut.body)
  if (mayBeNamed) batch.cuts = isAlone ? -Infinity : 0
  else batch.cuts++
  return isAlone && batch.cuts >= MAX_CUTS ? answer.cut : answer
}

/** What an answer means for the batch that got it. */
export function verdictOn(answer: Answer, { entries }: Batch): Verdict {
  return 'error' in answer ? 'retry' : judge(answer.status, entries.length)
}

/** Why there was no success, without the words of the server; undefined if there was one. */
export function briefFailure(answer: Answer): string | undefined {
  if ('error' in answer) return answer.error.message
  return answer.status < 300 ? undefined : `the ${statusOf(answer)}`
}

export function describeFailure(answer: Answer): Failure {
  if ('error' in answer) return { error: answer.error, kind: answer.failure, waitMs: 0 }
  const { status } = answer
  const waitMs = retryAfterMs(answer.header('retry-after'), Date.now())
  // These ask for fewer requests, whatever they hold.
  const kind = status === 408 || status === 429 ? undefined : String(status)
  return { error: new Error(describeAnswer(answer)), kind, waitMs }
}

export function rejection(answer: Answered): RejectedError {
  const { status, body } = answer
  const advice = adviceFor(status, answer.header('location'))
  const message = `${describeAnswer(answer)}. ${advice}`
  const summary = `The endpoint answered ${status}. ${adviceFor(status, null)}`
  return new RejectedError(message, status, body.slice(0, MAX_DETAIL_LENGTH), summary)
}

/** The loss of messages whose answer has a 2xx status, and may name some of them as refused, but cannot be read. */
export function consumption({ status }: Answered): DroppedError {
  const what = `The endpoint answered ${status}, and nobody knows which messages it refused.`
  const why = 'fetch must resolve to a response whose body was not read: read response.clone().'
  return new DroppedError('body_consumed', `${what} ${why}`)
}

function describeAnswer(answer: Answered): string {
  const start = answer.body.slice(0, MAX_DETAIL_LENGTH).trim()
  return `The ${statusOf(answer)}${start && `: ${start}`}`
}

/** A 407 comes from a proxy. Source: RFC 9110 section 15.5.8. */
function statusOf({ status }: Answered): string {
  return `${status === 407 ? 'proxy' : 'endpoint'} answered ${status}`
}
