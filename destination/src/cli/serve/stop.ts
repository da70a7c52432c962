import { errorMessage } from '../../observe/error-message.js'
import type { Log, OpenLog } from '../../observe/log.js'
import { EXIT, type ExitCode } from '../command.js'
import { leaveSignals } from './early-signals.js'
import type { RunningDestination } from './running.js'

/** The longest time that closing takes, in ms. Supervisors such as Docker kill a process after 10 s. */
const STOP_MS = 9_000

/** How long to wait for the reader of the log: after the stop, and after a second signal. In ms. */
const LOG_MS = 900
const LOG_AT_ONCE_MS = 50

/** Waits for the first signal to stop. A second signal ends the process at once. */
export function untilStopped(log: OpenLog): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let signals = 0
    const onSignal = (signal: NodeJS.Signals) => {
      if (++signals > 1) void endNow(log)
      resolve(signal)
    }
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
    leaveSignals(['SIGTERM', 'SIGINT'])
  })
}

async function endNow(log: OpenLog): Promise<never> {
  await closeLog(log, LOG_AT_ONCE_MS)
  process.exit(EXIT.failed)
}

/** Writes the last lines of the log. Neither a reader that has stopped nor a full disk may keep the process. */
export async function closeLog({ flush, abandon }: OpenLog, withinMs = LOG_MS): Promise<void> {
  if (!(await flush(withinMs))) await abandon()
}

/**
 * Closes the destination, but waits no longer than a supervisor does.
 *
 * @returns the exit code.
 */
export async function closeInTime(running: RunningDestination, log: Log): Promise<ExitCode> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<ExitCode>((resolve) => {
    timer = setTimeout(() => {
      log.error(
        { afterMs: STOP_MS },
        'stopped before all requests had ended and the store had their results: these messages are sent again after the next start',
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
