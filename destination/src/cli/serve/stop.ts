import { errorMessage } from '../../observe/error-message.js'
import type { Log } from '../../observe/log.js'
import { EXIT } from '../command.js'
import type { RunningDestination } from './running.js'

/** The longest time that a stop takes, in ms. Supervisors such as Docker kill a process after 10 s. */
const STOP_MS = 9_500

/** Waits for the first signal to stop. A second signal ends the process at once. */
export function untilStopped(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let signals = 0
    const onSignal = (signal: NodeJS.Signals) => {
      if (++signals > 1) process.exit(EXIT.failed)
      resolve(signal)
    }
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
  })
}

/**
 * Closes the destination, but waits no longer than a supervisor does.
 *
 * @returns the exit code.
 */
export async function closeInTime(running: RunningDestination, log: Log): Promise<number> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<number>((resolve) => {
    timer = setTimeout(() => {
      log.error(
        { afterMs: STOP_MS },
        'stopped before all requests had ended: their messages are sent again after the next start',
      )
      resolve(EXIT.failed)
    }, STOP_MS)
  })
  const closed = running.close().then(
    () => {
      log.info({}, 'stopped')
      return EXIT.ok
    },
    (error: unknown) => {
      log.error({ error: errorMessage(error) }, 'the destination could not be closed')
      return EXIT.failed
    },
  )
  const exitCode = await Promise.race([closed, late])
  clearTimeout(timer)
  return exitCode
}
