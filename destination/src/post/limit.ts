/** Runs an operation as soon as there is a place for it. */
export type Limit = <T>(operation: () => Promise<T>) => Promise<T>

/**
 * Limits how many operations run at once. The others wait in their order.
 *
 * @param max - The number of places.
 * @param holdMs - The longest time for which an operation keeps its place, in ms. It goes on without a place afterwards.
 */
export function createLimit(max: number, holdMs = Infinity): Limit {
  const waiting: (() => void)[] = []
  let free = max
  const release = (): void => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }
  return async (operation) => {
    if (free > 0) free -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    let releaseOnce = (): void => {
      releaseOnce = () => undefined
      release()
    }
    const hold =
      holdMs === Infinity
        ? undefined
        : setTimeout(() => {
            releaseOnce()
          }, holdMs).unref()
    try {
      return await operation()
    } finally {
      clearTimeout(hold)
      releaseOnce()
    }
  }
}
