/** The largest message, in bytes of its JSON. Source: spec "Limits", 32 KB a single call. */
export const MAX_MESSAGE_BYTES = 32_768

/** The largest body, envelope and commas included. Source: spec "Limits", 500 KB a batch request. */
export const MAX_BODY_BYTES = 500_000

/** The most messages that the collectors of this wire format take in one body. */
export const MAX_BODY_MESSAGES = 2_500

/** The longest message id that they take. */
export const MAX_MESSAGE_ID_LENGTH = 100

/**
 * The deepest nesting of a message, its own object included. Collectors refuse more, because parsers of receivers give
 * up above it (PHP's at 512).
 */
export const MAX_DEPTH = 500

/** The longest delay that a timer takes: 2^31 - 1 ms, about 24.8 days. */
export const MAX_TIMER_MS = 2_147_483_647
