import type { DispatchReport } from '../deliver/dispatcher.js'
import type { Log } from './log.js'
import { withoutQuery } from '../model/shown-url.js'
import type { SettlerReport } from '../deliver/settler.js'

/** What is told of the other workers. */
export interface CrewReport {
  /** They could not be heard, or told. Told once for failures in a row. */
  crewFailed: (error: unknown) => void
}

/**
 * Tells the log, and the counts, of what happens to deliveries: one line for each POST, with ids and what was decided;
 * never a body, a header or the query of a URL, where keys are kept at times.
 */
export function reportTo(
  log: Log,
  counts: Pick<DispatchReport, 'attempted'>,
): DispatchReport & SettlerReport & CrewReport {
  return {
    attempted: (delivery, outcomes, next) => {
      counts.attempted(delivery, outcomes, next)
      const { messageId, source, destination, attempt } = delivery
      const nextInMs = next.state === 'backlog' ? Math.round(next.delayMs) : undefined
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
      if (next.state !== 'dead') return
      const { reason } = next
      log.error({ messageId, source, destination, attempt, reason }, 'dead letter')
    },
    claimFailed: (error) => {
      log.error({ error: messageOf(error) }, 'the store could not be read; trying again')
    },
    crewFailed: (error) => {
      log.error(
        { error: messageOf(error) },
        'the other workers could not be heard: endpoints that are down are not probed until they are',
      )
    },
    failed: (error) => {
      log.error(
        { error: messageOf(error) },
        'the store could not take outcomes: nothing more is sent until it does',
      )
    },
    recovered: () => {
      log.info({}, 'the store takes outcomes again')
    },
    refused: (count) => {
      log.warn(
        { count },
        'outcomes came too late: another attempt has the message, or its user was deleted',
      )
    },
  }
}

/** What went wrong, with its cause. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`
}
