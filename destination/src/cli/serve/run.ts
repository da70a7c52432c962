import type { LogLevel } from '../../observe/log-level.js'
import { openLog, type Log } from '../../observe/log.js'
import { describeSettings } from '../../settings/describe.js'
import type { Role } from '../../settings/role.js'
import type { Settings } from '../../settings/settings.js'
import { CommandError, EXIT, isColoured } from '../command.js'
import { readLevel, type ServeOptions } from './options.js'
import { reloadOnSignal } from './reload.js'
import type { RunningDestination, StartDestination } from './running.js'
import { locateSettings, readSettingsFor } from './settings-file.js'
import { explainStart } from './start-error.js'
import { closeInTime, untilStopped } from './stop.js'

/**
 * Runs a destination until a signal stops it.
 *
 * @throws CommandError or SettingsError if it can't start, or if it could not be closed in time.
 */
export async function run(start: StartDestination, options: ServeOptions): Promise<void> {
  const file = locateSettings(options.config)
  const settings = readSettingsFor(options.role, file)
  const { log, flush } = openLog({
    level: options.logLevel ?? levelOfEnvironment(),
    pretty: options.pretty ?? process.stdout.isTTY,
    colour: isColoured(process.stdout),
  })
  const stop = untilStopped()
  const stopping = new AbortController()
  void stop.then(() => {
    stopping.abort()
  })
  const starting = start(settings, log, options.role, stopping.signal)
  reloadOnSignal(starting, file, log) // before the start ends, because SIGHUP without a listener ends the process
  const running = await starting.catch((error: unknown) => {
    if (stopping.signal.aborted) return undefined
    throw explainStart(error, settings, file)
  })
  if (!running) {
    log.info({ signal: await stop }, 'stopped before the store could be reached')
    await flush()
    return
  }
  logStart(log, running, settings, options.role)
  await flush()

  log.info({ signal: await stop }, 'stopping: requests under way may finish')
  const exitCode = await closeInTime(running, log)
  await flush()
  if (exitCode !== EXIT.ok) throw new CommandError(exitCode, '') // the log has the reason
}

function levelOfEnvironment(): LogLevel {
  const level = process.env['LOG_LEVEL']
  if (!level) return 'info'
  try {
    return readLevel(level)
  } catch (error) {
    throw new CommandError(EXIT.usage, `LOG_LEVEL is wrong: ${(error as Error).message}`)
  }
}

function logStart(
  log: Log,
  { url, adminUrl }: RunningDestination,
  settings: Settings,
  role: Role,
): void {
  const { destinations, sources, store } = describeSettings(settings)
  for (const { name, webhooks, ...destination } of destinations) {
    const endpoints = webhooks.map((webhook) => webhook.url)
    log.info({ destination: name, ...destination, endpoints }, 'destination')
  }
  const admin = adminUrl === url ? undefined : adminUrl
  log.info({ url, admin, role, sources, store, pid: process.pid }, 'listening')
}
