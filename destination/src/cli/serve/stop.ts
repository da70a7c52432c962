import { errorMessage } from '../../observe/error-message.js'
import type { Log } from '../../observe/log.js'
import { EXIT } from '../command.js'
import type { RunningDestination } from './running.js'

/** A stop takes at most this long, in ms: supervisors kill a process that takes 10 s. */
const STOP_MS = 9_500

/** Waits for the first signal to stop; the second one ends the process. */
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

/** Closes the destination, but does not wait longer than a supervisor does. Gives the exit code. */
export async function closeInTime(running: RunningDestination, log: Log): Promise<number> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<number>((resolve) => {
    timer = setTimeout(() => {
      log.error(
        { afterMs: STOP_MS },
        'stopped before all had ended: what was under way is sent again',
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
      log.error({ error: errorMessage(error) }, 'could not stop in order')
      return EXIT.failed
    },
  )
  const exitCode = await Promise.race([closed, late])
  clearTimeout(timer)
  return exitCode
}
