/** In ms: a streak is judged this long after it was saved, so that other workers that know of a success can end it first. */
export const GRACE_MS = 2_000

/** In ms: a shorter streak is not saved. Most failures are over before. */
const SAVE_MS = 60_000

/** An endpoint that has failed less often does not count as failing, however long ago the first failure was. */
const MIN_FAILURES = 3

/** What this process has seen of an endpoint. All times are ms since the epoch. */
export interface Seen {
  /** The failures since the last success, as far as this process knows. */
  failures: number
  /** When the first of them was. */
  firstFailureAt: number
  lastFailureAt: number
  /** `-Infinity` if this process has seen none. */
  lastSuccessAt: number
}

/** A time without a success at an endpoint, as the store has it for all processes. */
export interface Streak {
  /** When it began: the first failure. */
  since: number
  /** The longest time for which it was told that the endpoint fails, in ms; 0 if nothing was told. */
  told: number
}

/** What to do about an endpoint. */
export type Action =
  | { kind: 'wait' }
  /** Saves the streak, so that it survives a restart and all processes know it. */
  | { kind: 'save'; streak: Streak }
  /** Tells that the endpoint has failed for `afterMs`, and saves the streak. */
  | { kind: 'tell'; streak: Streak; afterMs: number }
  /** Deletes the streak: the endpoint has succeeded. */
  | { kind: 'end' }

/** What {@link judge} decides by. */
export interface Facts {
  seen: Seen
  /** The streak in the store, and when this process learnt of it. */
  saved: { streak: Streak; knownAt: number } | undefined
  /** The times after which it is told that an endpoint fails, in ms, in ascending order. */
  after: readonly number[]
  /** When the last pause of the destination ended. What was before does not count. */
  resumedAt: number
  now: number
}

export const UNSEEN: Readonly<Seen> = {
  failures: 0,
  firstFailureAt: Infinity,
  lastFailureAt: -Infinity,
  lastSuccessAt: -Infinity,
}

/** Adds a failure. */
export function withFailure(seen: Seen, at: number): Seen {
  const { failures, firstFailureAt, lastSuccessAt } = seen
  const isFirst = failures === 0
  return {
    failures: failures + 1,
    firstFailureAt: isFirst ? at : firstFailureAt,
    lastFailureAt: at,
    lastSuccessAt,
  }
}

/** Adds a success, which ends the failures. */
export function withSuccess(at: number): Seen {
  return { ...UNSEEN, lastSuccessAt: at }
}

/**
 * Decides what to do about an endpoint. An endpoint has failed for as long as there are failures without a success in
 * between: from the first failure to the latest one, not to now. So an endpoint that gets no requests does not fail for longer.
 */
export function judge(facts: Facts): Action {
  const { seen, saved, after, now } = facts
  if (saved && seen.lastSuccessAt >= saved.streak.since) return { kind: 'end' }
  if (seen.failures === 0) return { kind: 'wait' }
  const since = sinceOf(facts)
  const failingMs = seen.lastFailureAt - since
  if (!saved) {
    const isLong = failingMs >= Math.min(SAVE_MS, (after[0] ?? SAVE_MS) / 2)
    const isEnough = isLong && seen.failures >= MIN_FAILURES
    return isEnough ? { kind: 'save', streak: { since, told: 0 } } : { kind: 'wait' }
  }
  if (now - saved.knownAt < GRACE_MS) return { kind: 'wait' }
  // What was told before the pause was told of another time.
  const told = since > saved.streak.since ? 0 : saved.streak.told
  const afterMs = after.findLast((step) => step > told && step <= failingMs)
  if (afterMs === undefined) return { kind: 'wait' }
  return { kind: 'tell', streak: { since, told: afterMs }, afterMs }
}

/** For how long an endpoint has failed, in ms; 0 if its streak is not saved. */
export function failingMsOf(facts: Facts): number {
  return facts.saved && facts.seen.failures > 0 ? facts.seen.lastFailureAt - sinceOf(facts) : 0
}

function sinceOf({ seen, saved, resumedAt }: Facts): number {
  // All processes count from the same time, so that they give the same alerts.
  return Math.max(saved ? saved.streak.since : seen.firstFailureAt, resumedAt)
}
