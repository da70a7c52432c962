import { setTimeout as wait } from 'node:timers/promises'
import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'

/** In ms: the wait before the store is told again, if it could not be told. */
const RETRY_MS = 1_000

/**
 * Makes a function that tells the store which tenant the name of each destination belongs to. Call it after each reload of the
 * settings file. The settings are already in use then, also if the store is away. So the function never rejects: it tries once, and then
 * goes on in the background until the store could be told.
 *
 * @param keepOwners - Tells the store once.
 * @param signal - Ends what goes on in the background.
 */
export function ownersKeeper(
  keepOwners: () => Promise<void>,
  log: Log,
  signal: AbortSignal,
): () => Promise<void> {
  let isTrying = false
  const tryAgain = async () => {
    while (isTrying) {
      await wait(RETRY_MS, undefined, { signal, ref: false })
      await keepOwners().then(
        () => (isTrying = false),
        () => undefined,
      )
    }
  }
  return async () => {
    try {
      await keepOwners()
      isTrying = false
    } catch (error) {
      // At its end, the process has closed the store. The next one tells it at its start.
      if (isTrying || signal.aborted) return
      isTrying = true
      log.warn(
        { error: errorMessage(error), retryMs: RETRY_MS },
        'the store could not be told whose the names of the destinations are: this is tried again until it works',
      )
      // The wait rejects when the process ends.
      tryAgain().catch(() => undefined)
    }
  }
}
