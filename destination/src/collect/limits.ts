/** The most bytes in the body of a batch, compressed or not. Source: spec of the client, "Limits", 500 KB. */
export const MAX_BATCH_BYTES = 500_000

/** The largest call, in bytes of its JSON. Source: spec of the client, "Limits", 32 KB. */
export const MAX_CALL_BYTES = 32_768

/** The most calls in one batch. Other collectors of this wire format have the same limit. */
export const MAX_BATCH_CALLS = 2_500

/** The longest message id, in characters. Other collectors of this wire format have the same limit. */
export const MAX_MESSAGE_ID_LENGTH = 100

/**
 * The deepest nesting of a call, in levels. Above about 5,000 levels `JSON.stringify` runs out of stack, and the parsers
 * of receivers fail earlier: PHP's at 512.
 */
export const MAX_DEPTH = 500

/** Whether a value has more levels of objects and arrays than `levels`. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) return value.some((item) => isDeeperThan(levels - 1, item))
  for (const key in value) {
    const item = (value as Record<string, unknown>)[key]
    if (typeof item === 'object' && isDeeperThan(levels - 1, item)) return true
  }
  return false
}

/**
 * The size of a value in bytes, as JSON without white space.
 *
 * @throws RangeError if the value is nested too deeply. Call {@link isDeeperThan} first.
 */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
