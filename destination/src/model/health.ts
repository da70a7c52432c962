import type { BreakerState } from './breaker-state.js'

/**
 * How an endpoint or a destination is doing, from the worst to the best. `down`: a breaker is open. `failing`: at least half
 * of the recent requests failed, and so did the latest. `unsteady`: more than {@link UNSTEADY} of them failed.
 * `recovering`: the breaker is half-open, or requests failed, but the latest ones were delivered, more in a row than chance
 * explains. `idle`: nothing was sent in the last hour. `paused`: somebody has paused it. `disabled`: the settings say so.
 */
export const HEALTHS = [
  'down',
  'failing',
  'unsteady',
  'recovering',
  'paused',
  'healthy',
  'idle',
  'disabled',
] as const

export type Health = (typeof HEALTHS)[number]

/** The share of failed requests from which an endpoint is unsteady, and the one from which it fails. */
const UNSTEADY = 0.05
const FAILING = 0.5

/** In ms: the state is judged by the requests of the last 5 minutes, or by the last minute that had any. */
const RECENT_MS = 5 * 60_000

/** The requests of one minute. */
interface Minute {
  at: number
  delivered: number
  failed: number
}

/**
 * The requests that the state is judged by.
 *
 * @param minutes - The last hour, the oldest first.
 */
export function recentOf(
  minutes: readonly Minute[],
  now: number,
): { sent: number; failed: number } {
  const sum = { sent: 0, failed: 0 }
  for (const { at, delivered, failed } of minutes.toReversed()) {
    if (at <= now - RECENT_MS && sum.sent > 0) break
    sum.sent += delivered + failed
    sum.failed += failed
  }
  return sum
}

/** How the latest requests ended, in the process that answers. Each is `null` if it has sent nothing since its start. */
export interface Streak {
  failuresInARow: number | null
  deliveredInARow: number | null
}

/**
 * If the share of failures were still the recent one, so many deliveries in a row as the latest would be this improbable.
 * Without it, an endpoint that was repaired would be called failing for 5 minutes more.
 */
const BY_CHANCE = 0.05

/** The state of one endpoint. */
export function healthOf(
  breaker: BreakerState | undefined,
  { sent, failed }: { sent: number; failed: number },
  { failuresInARow, deliveredInARow }: Streak,
): Health {
  if (breaker === 'open') return 'down'
  const share = sent === 0 ? 0 : failed / sent
  if (share >= FAILING && failuresInARow !== 0) return 'failing'
  if (breaker === 'half-open') return 'recovering'
  if (share >= UNSTEADY) {
    return (1 - share) ** (deliveredInARow ?? 0) < BY_CHANCE ? 'recovering' : 'unsteady'
  }
  return sent === 0 ? 'idle' : 'healthy'
}

/** The worst of several states. */
export function worstOf(healths: readonly Health[]): Health {
  return HEALTHS.find((one) => healths.includes(one)) ?? 'idle'
}

/** So many calls in a row that a filter stops are no accident. */
const BLOCKED_CALLS = 100

/** Whether filters let nothing through, most likely because of a mistake in them. */
export function isBlocking({ passed, stopped }: { passed: number; stopped: number }): boolean {
  return passed === 0 && stopped >= BLOCKED_CALLS
}
