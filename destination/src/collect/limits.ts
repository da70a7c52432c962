/** The largest body of a batch, before it is decompressed and after. Source: spec of the client, "Limits", 500 KB. */
export const MAX_BATCH_BYTES = 500_000

/** The largest call, in bytes of its JSON. Source: spec of the client, "Limits", 32 KB. */
export const MAX_CALL_BYTES = 32_768

/** The most calls in one batch: what the collectors of this wire format take. */
export const MAX_BATCH_CALLS = 2_500

/** The longest message id, in characters: what the collectors of this wire format take. */
export const MAX_MESSAGE_ID_LENGTH = 100

/**
 * The deepest nesting of a call. Above about 5,000 levels `JSON.stringify` runs out of stack, and the parsers
 * of receivers give up before (PHP's at 512).
 */
export const MAX_DEPTH = 500

/** Whether there are more levels of objects and arrays in a value than given. */
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

/** The bytes of a value as JSON in its shortest form; it must not be nested too deeply. */
export function jsonBytes(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}
