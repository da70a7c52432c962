import { withoutQuery } from '../model/shown-url.js'
import { WINDOW_MS } from '../deliver/schedule.js'
import type { Trace } from '../model/delivery.js'

/** A trace as it is shown: keys are kept in the queries of URLs at times. */
export function shown(trace: Trace) {
  const isWaiting = trace.dueAt !== null
  const { firstAttemptAt } = trace
  return {
    ...trace,
    deadlineAt: isWaiting && firstAttemptAt !== null ? firstAttemptAt + WINDOW_MS : null,
    attempts: trace.attempts.map((one) => ({ ...one, url: withoutQuery(one.url) })),
  }
}
