import { WINDOW_MS } from '../deliver/schedule.js'
import type { ShownTrace } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'

/** A trace for the admin API. The queries of URLs are left out, because some customers keep keys in them. */
export function shownTrace(trace: Trace): ShownTrace {
  const isWaiting = trace.dueAt !== null
  const { firstAttemptAt } = trace
  return {
    ...trace,
    deadlineAt: isWaiting && firstAttemptAt !== null ? firstAttemptAt + WINDOW_MS : null,
    attempts: trace.attempts.map((attempt) => ({ ...attempt, url: withoutQuery(attempt.url) })),
  }
}
