import type { Outcome } from '../model/outcome.js'
import type { Delivery, Next, Settlement } from '../model/delivery.js'
import { retryLane } from '../store/states.js'
import { nextDelay } from './schedule.js'

/** The outcome of an attempt at one endpoint. */
export interface EndpointOutcome {
  url: string
  outcome: Outcome
}

/** The shortest wait in ms if nothing was sent because all endpoints were down or busy. */
const MIN_UNSENT_DELAY_MS = 1_000

/**
 * Decides what happens to a delivery after an attempt. One success completes it. An endpoint that refused it for good
 * gets no further attempts. While other endpoints remain, the delivery is retried until the end of the retry window.
 *
 * Source: spec "Outbound request" rule 1, "Errors"; contract "Attempts".
 *
 * @param delivery - The delivery in the state in which it was claimed.
 * @param elapsedMs - The time since the claim, in ms.
 * @param urls - The destination's endpoints.
 * @param outcomes - One for each endpoint that the attempt was meant for.
 * @param random - Returns a number from 0 up to 1, like `Math.random`.
 * @param isOutdated - Whether the settings of the destination have changed since the claim. A refusal is not final then,
 * because a new secret, other headers or another URL may be accepted.
 */
export function decide(
  delivery: Delivery,
  elapsedMs: number,
  urls: readonly string[],
  outcomes: EndpointOutcome[],
  random: () => number,
  isOutdated = false,
): Settlement & { next: Next } {
  const judged = isOutdated ? outcomes.map(notFinal) : outcomes
  const refused = judged.filter(({ outcome }) => outcome.verdict === 'refused')
  const refusedBy =
    refused.length > 0
      ? [...delivery.refusedBy, ...refused.map(({ url }) => url)]
      : delivery.refusedBy
  const next = nextState(delivery, elapsedMs, urls, judged, refusedBy, random)
  const isUnsent = !isAnySent(outcomes)
  const sent = isUnsent ? [] : outcomes
  const log = sent.map(({ url, outcome: { code, status, ms, error, response, headers } }) => ({
    url,
    code,
    status: status ?? null,
    ms,
    error: error ?? null,
    response,
    headers,
  }))
  return { id: delivery.id, attempt: delivery.attempt, next, refusedBy, isUnsent, log, delivery }
}

function notFinal({ url, outcome }: EndpointOutcome): EndpointOutcome {
  const { verdict } = outcome
  return { url, outcome: { ...outcome, verdict: verdict === 'refused' ? 'retry' : verdict } }
}

function nextState(
  delivery: Delivery,
  elapsedMs: number,
  urls: readonly string[],
  outcomes: EndpointOutcome[],
  refusedBy: readonly string[],
  random: () => number,
): Next {
  if (outcomes.some(({ outcome }) => outcome.verdict === 'delivered')) return { state: 'done' }
  if (urls.every((url) => refusedBy.includes(url))) {
    const why = outcomes.length > 0 ? `: ${lastError(outcomes)}` : ' in an earlier attempt'
    return { state: 'dead', reason: `every endpoint refused it${why}` }
  }

  const failed = outcomes.filter(({ outcome }) => outcome.verdict === 'retry')
  // The shortest requested wait decides. The breakers of the other endpoints prevent requests that are too early.
  // There is none if all endpoints had refused the message, and the settings have another one since it was claimed.
  const waits = failed.map(({ outcome }) => outcome.retryAfterMs ?? 0)
  const retryAfterMs = waits.length > 0 ? Math.min(...waits) : 0
  const state = retryLane(delivery)
  if (!isAnySent(outcomes)) {
    return { state, delayMs: Math.max(MIN_UNSENT_DELAY_MS, retryAfterMs) }
  }
  const attempt = delivery.attempt - delivery.attemptsBefore
  const sinceFirstMs = delivery.sinceFirstMs + elapsedMs
  const delayMs = nextDelay({ attempt, sinceFirstMs, retryAfterMs }, random)
  if (delayMs === undefined) {
    return { state: 'dead', reason: `not delivered within 4 hours: ${lastError(outcomes)}` }
  }
  return { state, delayMs }
}

/** Whether any request was sent. An endpoint that is down or busy gets none. */
export function isAnySent(outcomes: readonly EndpointOutcome[]): boolean {
  return outcomes.some(
    ({ outcome: { code } }) => code !== 'endpoint_down' && code !== 'endpoint_busy',
  )
}

function lastError(outcomes: EndpointOutcome[]): string {
  return (
    outcomes.findLast(({ outcome }) => outcome.error !== undefined)?.outcome.error ?? 'no answer'
  )
}
