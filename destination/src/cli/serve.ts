import { InvalidArgumentError, Option } from 'commander'
import { LOG_LEVELS, openLog, type Log, type LogLevel } from '../observe/log.js'
import { describeSettings } from '../settings/describe.js'
import { SETTINGS_FILES } from '../settings/read.js'
import { ROLES, type Role } from '../settings/role.js'
import type { Settings } from '../settings/settings.js'
import { CommandError, EXIT, isColoured, type AddCommand } from './command.js'
import { checkSettingsFile } from './serve/check.js'
import { init } from './serve/init.js'
import { reloadOnSignal } from './serve/reload.js'
import type { RunningDestination } from './serve/running.js'
import { locateSettings, readSettingsFor } from './serve/settings-file.js'
import { explainStart } from './serve/start-error.js'
import { closeInTime, untilStopped } from './serve/stop.js'

/** Starts a destination. */
export type StartDestination = (
  settings: Settings,
  log: Log,
  role: Role,
) => Promise<RunningDestination>

interface ServeOptions {
  config?: string
  check?: true
  init?: true
  json?: true
  logLevel?: LogLevel
  pretty?: boolean
  role: Role
}

const EXAMPLES = `
SIGHUP reads the settings again. If they are wrong, the old ones stay in use. SIGTERM and SIGINT let requests under way
finish, and end the process within 10 s, with exit code 0. A second signal ends it at once, with exit code 1.

Examples:
  $ hookline-destination serve --init          # writes example settings, and starts with them
  $ hookline-destination serve --config /etc/hookline/hookline.config.yaml
  $ hookline-destination serve --check         # checks the settings before a restart
  $ hookline-destination serve --role worker   # delivers the calls that collectors stored in the same PostgreSQL`

/** @param start - Starts a destination. The program passes the composition root. */
export function addServe(start: StartDestination): AddCommand {
  return (program) => {
    program
      .command('serve')
      .description('collect calls and forward them')
      .option(
        '-c, --config <file>',
        `settings file (default: ${SETTINGS_FILES[0]} or .yaml in this folder)`,
      )
      .addOption(
        new Option(
          '--role <role>',
          'what this process does; PostgreSQL allows any number of processes in each role',
        )
          .choices(ROLES)
          .default('all'),
      )
      .option('--check', 'check the settings, print them without their secrets, and exit')
      .option('--init', 'write example settings with a new key and secret')
      .option('--json', 'with --check: print JSON')
      .option(
        '--log-level <level>',
        `${LOG_LEVELS.join(', ')} (default: LOG_LEVEL, or info)`,
        readLevel,
      )
      .option('--pretty', 'write log lines for people (default: on a terminal)')
      .option('--no-pretty', 'write log lines in JSON')
      .addHelpText('after', EXAMPLES)
      .action((options: ServeOptions) => {
        if (options.init) init(options.config ?? SETTINGS_FILES[0])
        const file = locateSettings(options.config)
        if (!options.check) return serve(start, file, options)
        checkSettingsFile(file, options.role, options.json ?? false)
        return undefined
      })
  }
}

function readLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === text.toLowerCase())
  if (level) return level
  throw new InvalidArgumentError(`Expected one of ${LOG_LEVELS.join(', ')}.`)
}

async function serve(start: StartDestination, file: string, options: ServeOptions): Promise<void> {
  const settings = readSettingsFor(options.role, file)
  const { log, flush } = openLog({
    level: options.logLevel ?? levelOfEnvironment(),
    pretty: options.pretty ?? process.stdout.isTTY,
    colour: isColoured(process.stdout),
  })
  const stop = untilStopped()
  const starting = start(settings, log, options.role)
  reloadOnSignal(starting, file, log) // before the start ends, because SIGHUP without a listener ends the process
  const running = await starting.catch((error: unknown) => {
    throw explainStart(error, settings, file)
  })
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
