import { errorMessage } from '../../observe/error-message.js'
import type { Log } from '../../observe/log.js'
import { readSettingsAside } from '../../settings/read-aside.js'
import { SettingsError } from '../../settings/settings-error.js'
import { leaveSignals } from './early-signals.js'
import type { RunningDestination } from './running.js'

/** Reads the settings again at each SIGHUP. A reload begins only after the one before has ended. */
export function reloadOnSignal(
  starting: Promise<RunningDestination>,
  file: string,
  log: Log,
): void {
  let last = Promise.resolve()
  process.on('SIGHUP', () => {
    last = last.then(() => reload(starting, file, log))
  })
  leaveSignals(['SIGHUP'])
}

async function reload(
  starting: Promise<RunningDestination>,
  file: string,
  log: Log,
): Promise<void> {
  try {
    const settings = await readSettingsAside(file)
    const running = await starting
    await running.reload(settings)
    log.info({ file, destinations: settings.destinations.map(({ name }) => name) }, 'reloaded')
  } catch (error) {
    const details =
      error instanceof SettingsError ? { problems: error.problems } : { error: errorMessage(error) }
    log.error({ file, ...details }, 'not reloaded: the old settings stay in use')
  }
}
