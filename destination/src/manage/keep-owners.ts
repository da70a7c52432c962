import { setTimeout as wait } from 'node:timers/promises'
import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'
import type { Manager } from './manager.js'

/** In ms: the wait before the owners are written again, if they could not be written. */
const RETRY_MS = 1_000

/**
 * Makes what writes down whose the names of the destinations are after each reload of the settings file. The settings are in use
 * then, whether the store is there or not, so this never fails: it tries again until it has succeeded.
 *
 * @param signal - Ends the tries.
 */
export function ownersKeeper(
  manager: Pick<Manager, 'keepOwners'>,
  log: Log,
  signal: AbortSignal,
): () => Promise<void> {
  let isTrying = false
  const tryAgain = async () => {
    while (isTrying) {
      await wait(RETRY_MS, undefined, { signal, ref: false })
      await manager.keepOwners().then(
        () => (isTrying = false),
        () => undefined,
      )
    }
  }
  return async () => {
    try {
      await manager.keepOwners()
      isTrying = false
    } catch (error) {
      if (isTrying) return
      isTrying = true
      log.warn(
        { error: errorMessage(error), retryMs: RETRY_MS },
        'the store could not take down whose the names of the destinations are: this is tried again until it can',
      )
      // The wait rejects when the process ends.
      tryAgain().catch(() => undefined)
    }
  }
}
