import { errorMessage } from '../observe/error-message.js'
import type { Log } from '../observe/log.js'
import type { Manager } from './manager.js'

/** Encrypts everything with the first key, and says so, because only then may the other keys be removed. */
export async function resealAll(manager: Pick<Manager, 'reseal'>, log: Log): Promise<void> {
  try {
    const records = await manager.reseal()
    if (records > 0)
      log.info({ records }, 'the settings in the store are encrypted with the first settingsKey')
  } catch (error) {
    const details = { error: errorMessage(error) }
    log.warn(
      details,
      'the settings in the store could not be encrypted with the first settingsKey: the next start or SIGHUP tries again',
    )
  }
}
