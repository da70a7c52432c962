import type { EndpointOutcome } from '../deliver/decide.js'
import type { EndedMessage } from '../deliver/settler.js'
import type { Delivery, Next } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import { EXPIRED } from '../store/states.js'
import { StoreError } from '../store/store-error.js'
import { errorMessage } from './error-message.js'
import type { Observer } from './events.js'
import type { Log } from './log.js'

/**
 * Writes events to the log. Each attempt gets one line with its ids and the decision about the message. A dead letter gets another
 * line, once the store has it. A line never contains a body, a header, or the query of a URL, because some customers keep keys in
 * queries.
 */
export function logLines(log: Log): Observer {
  const logFailure = (message: string) => (error: unknown) => {
    log.error({ error: errorMessage(error) }, message)
  }
  return {
    ...storeLines(log),
    attempted: (delivery, outcomes, next) => {
      logAttempts(log, delivery, outcomes, next)
    },
    messagesEnded: (messages) => {
      logDeadLetters(log, messages)
    },
    filtered: ({ messageId, source }, { destination, reason }) => {
      if (reason === undefined) return
      log.debug({ messageId, source, destination: destination.name, reason }, 'filtered')
    },
    claimFailed: logFailure('deliveries could not be read from the store; trying again'),
    settleFailed: logFailure(
      'outcomes could not be written to the store; sending is paused until the store takes them',
    ),
    settleRecovered: () => {
      log.info({}, 'outcomes are written to the store again; sending continues')
    },
    settlementsRefused: (count) => {
      log.warn(
        { count },
        'late outcomes were discarded: another attempt has claimed the message, its user was deleted, or the store cannot hold a value',
      )
    },
    workersFailed: logFailure(
      'the other workers could not be reached; endpoints that are down are not probed until they can',
    ),
    sweepFailed: logFailure('old deliveries could not be deleted; trying again'),
    expired: (destination, count) => {
      log.error({ destination, count, reason: EXPIRED }, 'dead letters')
    },
    serverChanged: ({ name, error }) => {
      if (error) {
        const details = { server: name, error: errorMessage(error) }
        log.error(
          details,
          'a server of the store fails; its messages wait, and calls of its sources get the answer 503',
        )
      } else log.warn({ server: name }, 'the server of the store works again')
    },
    followFailed: logFailure(
      'pauses and alerts could not be read from the store; those that were read last hold',
    ),
    alerted: ({ name, destination, properties }) => {
      const isGood = name === 'Endpoint Recovered' || name === 'Dead Letters Below Limit'
      log[isGood ? 'info' : 'error']({ alert: name, destination, ...properties }, 'alert')
    },
    alertFailed: logFailure('alerts could not be given; trying again'),
  }
}

function logAttempts(
  log: Log,
  { messageId, source, destination, attempt }: Delivery,
  outcomes: readonly EndpointOutcome[],
  next: Next,
): void {
  const nextInMs = 'delayMs' in next ? Math.round(next.delayMs) : undefined
  for (const { url, outcome } of outcomes) {
    const { code, status, error } = outcome
    const details = {
      messageId,
      source,
      destination,
      endpoint: withoutQuery(url),
      attempt,
      code,
      status,
      ms: Math.round(outcome.ms),
      next: next.state,
      nextInMs,
      error,
    }
    if (code === 'delivered') log.info(details, 'attempt')
    else log.warn(details, 'attempt')
  }
}

function logDeadLetters(log: Log, messages: readonly EndedMessage[]): void {
  for (const { delivery, next } of messages) {
    if (next.state !== 'dead') continue
    const { messageId, source, destination, attempt } = delivery
    log.error({ messageId, source, destination, attempt, reason: next.reason }, 'dead letter')
  }
}

/** How many reasons of one refusal are logged. The server may put numbers into its texts, which are others each time. */
const MOST_REASONS = 10

/** Logs when the store begins to refuse calls, when it does for another reason, and when it takes calls again, but not each request. */
function storeLines(log: Log): Observer {
  const reasons = new Set<string>()
  const refuses = (failure: unknown) => {
    const error = errorMessage(failure)
    if (reasons.has(error) || reasons.size === MOST_REASONS) return
    reasons.add(error)
    log.error({ error }, 'the store takes no calls; clients get the answer 503')
  }
  const takes = () => {
    if (reasons.size === 0) return
    reasons.clear()
    log.warn({}, 'the store takes calls again')
  }
  return {
    callsNotAccepted: (error) => {
      // One of several servers fails: there is a line about it, and the calls of other sources are accepted in between.
      if (error instanceof StoreError && error.server === undefined) refuses(error)
    },
    callsAccepted: takes,
    storeRemoved: refuses,
    storeFound: takes,
  }
}
