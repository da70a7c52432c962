import { openLog, type Log } from '../../observe/log.js'
import { describeSettings } from '../../settings/describe.js'
import { shownFile } from '../../settings/file.js'
import type { Role } from '../../settings/role.js'
import type { Settings } from '../../settings/settings.js'
import { CommandError, EXIT, isColoured } from '../command.js'
import { levelOf, type ServeOptions } from './options.js'
import { reloadOnSignal } from './reload.js'
import type { RunningDestination, StartDestination } from './running.js'
import { locateSettings, readSettingsFor } from './settings-file.js'
import { explainStart } from './start-error.js'
import { closeInTime, closeLog, untilStopped } from './stop.js'

/** How long the lines of the start may take before the page is named on a terminal, in ms. */
const START_LOG_MS = 1_000

/**
 * Runs a destination until a signal stops it.
 *
 * @throws CommandError or SettingsError if it can't start, or if it could not be closed in time.
 */
export async function run(start: StartDestination, options: ServeOptions): Promise<void> {
  const file = locateSettings(options.config)
  const settings = readSettingsFor(options.role, file)
  const pretty = options.pretty ?? process.stdout.isTTY
  const opened = openLog({
    level: levelOf(options),
    pretty,
    colour: isColoured(process.stdout),
  })
  const { log, flush, writeNow } = opened
  process.on('exit', writeNow) // the last lines of a start that fails, or of a crash
  const stop = untilStopped(opened)
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
    await closeLog(opened)
    return
  }
  logStart(log, running, settings, options.role)
  await flush(START_LOG_MS)
  if (pretty) console.error(describePage(running, settings, file))

  log.info({ signal: await stop }, 'stopping: requests under way may finish')
  const exitCode = await closeInTime(running, log)
  await closeLog(opened)
  if (exitCode !== EXIT.ok) throw new CommandError(exitCode, '') // the log has the reason
}

function logStart(log: Log, running: RunningDestination, settings: Settings, role: Role): void {
  const { destinations, sources, store } = describeSettings(settings)
  for (const { name, webhooks, filters, ...destination } of destinations) {
    const endpoints = webhooks.map((webhook) => webhook.url)
    log.info(
      { destination: name, ...destination, filters: filters?.length, endpoints },
      'destination',
    )
  }
  const { url, adminUrl } = running
  const admin = adminUrl === url ? undefined : adminUrl
  log.info(
    { url, admin, page: pageOf(running), role, sources, store, pid: process.pid },
    'listening',
  )
}

function pageOf({ url, adminUrl = url }: RunningDestination): string {
  return `${adminUrl}/`
}

/** Says to the person at the terminal where the page is, and where its token is. */
function describePage(running: RunningDestination, { adminToken }: Settings, file: string): string {
  const shown = shownFile(file)
  const token =
    adminToken === undefined
      ? `Without an "adminToken" in ${shown}, it cannot replay, and needs a loopback "adminListen".`
      : `It asks for the "adminToken" of ${shown}.`
  return `The page is at ${pageOf(running)}. ${token}\n`
}
