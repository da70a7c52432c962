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
/** docs/serverless.md: a `Retry-After` makes a script that ends wait longer, up to this since its last progress. */
export const MOST_EXIT_MS = 30_000

/** README, "A message that makes the endpoint fail": its body is tried in smaller pieces after so many failures. */
export const TRIES_BEFORE_SPLIT = 2
/** So many tries of a message alone, before others overtake it, and so many beside them. */
const TRIES_ALONE = 4
const TRIES_ISOLATED = 10
export const MOST_TRIES =
  TRIES_BEFORE_SPLIT + Math.ceil(Math.log2(MAX_BODY_MESSAGES)) + TRIES_ALONE + TRIES_ISOLATED
/** A message that was tried so often may be overtaken by those behind it. */
export const TRIES_BEFORE_OVERTAKEN = 3

/** README, "Refusals": after so many equal refusals of single messages, the rest of their batch is not tried. */
export const SAME_REFUSALS = 8
/** The same when the endpoint has accepted others before. */
export const SAME_REFUSALS_ONCE_ACCEPTED = 32

/** The longest wait after so many failures in a row, from 1. */
export const longestWaitMs = (failures) =>
  Math.min(MAX_WAIT_MS, 2 * FIRST_WAIT_MS * 2 ** (failures - 1))
