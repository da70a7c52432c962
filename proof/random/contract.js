// The figures that the documents promise and that this proof relies on. Change one here when its document changes.

/** README, "Limits". */
export const MAX_BODY_BYTES = 500_000
export const MAX_BODY_MESSAGES = 2_500

/** README, "In order": one batch in flight, or so many single messages with `flushAt: 1`. */
export const SINGLES_IN_FLIGHT = 16

/** README, "Outages": the first wait is 250 to 500 ms, the next one twice that, up to 15 to 30 s. */
export const FIRST_WAIT_MS = 250
export const MAX_WAIT_MS = 30_000
/** An endpoint that fails for everything sees at most so many requests in any 5 s after the first failure. */
export const PROBES = { count: 5, inMs: 5_000 }
/** `Retry-After` is honoured up to this. */
export const MAX_RETRY_AFTER_MS = 300_000

/** README, "Exit": a script that ends gives up after so long without progress. */
export const EXIT_MS = 5_000

/** A body that gets so many equal answers is split at the latest ("a few tries"). */
export const TRIES_BEFORE_SPLIT = 5
/** A message that only fails is not stored more often than this in a round: it is isolated and retried slowly. */
export const MOST_ISOLATED_TRIES = 12

/** The longest wait after so many failures in a row, from 1. */
export const longestWaitMs = (failures) =>
  Math.min(MAX_WAIT_MS, 2 * FIRST_WAIT_MS * 2 ** (failures - 1))
