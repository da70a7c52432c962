import { WINDOW_MS } from '../deliver/schedule.js'
import type { ShownTrace } from '../model/answers.js'
import type { Trace } from '../model/delivery.js'
import { withoutQuery } from '../model/shown-url.js'
import type { Destination } from '../settings/settings.js'

/**
 * A trace for the admin API. The queries of URLs are left out, because some customers keep keys in them.
 *
 * @param destinations - Those of the current settings.
 * @param isPaused - Whether a destination is paused.
 */
export function shownTrace(
  trace: Trace,
  destinations: readonly Pick<Destination, 'name' | 'enabled'>[],
  isPaused: (destination: string) => boolean,
): ShownTrace {
  const isWaiting = trace.dueAt !== null
  const { firstAttemptAt } = trace
  return {
    ...trace,
    hold: isWaiting ? holdOf(trace.destination, destinations, isPaused) : null,
    deadlineAt: isWaiting && firstAttemptAt !== null ? firstAttemptAt + WINDOW_MS : null,
    attempts: trace.attempts.map((attempt) => ({ ...attempt, url: withoutQuery(attempt.url) })),
  }
}

function holdOf(
  name: string,
  destinations: readonly Pick<Destination, 'name' | 'enabled'>[],
  isPaused: (destination: string) => boolean,
): ShownTrace['hold'] {
  const destination = destinations.find((each) => each.name === name)
  if (!destination) return 'removed'
  if (!destination.enabled) return 'disabled'
  return isPaused(name) ? 'paused' : null
}
