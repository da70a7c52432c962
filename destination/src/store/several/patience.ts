/**
 * In ms: how long the answers of some servers are kept waiting for those of the others. It is far more than any answer takes, unless
 * a server does not answer. So what one of them does not do costs the others at most this time, until it is known to be away.
 */
export const PATIENCE_MS = 250

/** Resolves once all promises have ended, in whatever way, but no later than the patience allows. */
export async function endOf(
  promises: readonly Promise<unknown>[],
  patienceMs: number,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, patienceMs)
  })
  await Promise.race([Promise.allSettled(promises), late])
  clearTimeout(timer)
}
