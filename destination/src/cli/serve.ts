import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { InvalidArgumentError, Option } from 'commander'
import { stringify } from 'yaml'
import { LOG_LEVELS, openLog, type Log, type LogLevel } from '../observe/log.js'
import { messageOf } from '../observe/log-lines.js'
import { describeSettings } from '../settings/describe.js'
import { exampleSettings } from '../settings/example.js'
import { formatListen } from '../settings/network.js'
import { findSettings, readSettings, SETTINGS_FILES, shownFile } from '../settings/read.js'
import { checkRole, ROLES, type Role } from '../settings/role.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Settings } from '../settings/settings.js'
import { CommandError, EXIT, isColoured, type AddCommand } from './command.js'

/** Starts what is served. */
export type StartDestination = (
  settings: Settings,
  log: Log,
  role: Role,
) => Promise<RunningDestination>

/** What is served, as far as a command line has to do with it. */
export interface RunningDestination {
  /** Where the collector listens. */
  readonly url: string
  /** Where the routes for whoever runs it are. */
  readonly adminUrl?: string
  /** Goes on with other settings; rejects if it can't, and then goes on with those that it had. */
  reload(settings: Settings): Promise<void>
  /** Ends what is under way, and lets go of everything. */
  close(): Promise<void>
}

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
SIGHUP reads the settings again, and keeps the old ones if the new are wrong. SIGTERM and SIGINT end what is under
way, and then the process, with 0, within 10 s; a second one ends it at once, with 1.

Examples:
  $ hookline-destination serve --init          # writes settings that work here, and runs by them
  $ hookline-destination serve --config /etc/hookline/hookline.config.yaml
  $ hookline-destination serve --check         # in a deployment, before the restart
  $ hookline-destination serve --role worker   # delivers what the collectors of the same PostgreSQL took`

/** @param start - the composition root */
export function addServe(start: StartDestination): AddCommand {
  return (program) => {
    program
      .command('serve')
      .description('collect calls, and forward them')
      .option(
        '-c, --config <file>',
        `settings (default: ${SETTINGS_FILES[0]} or .yaml in this folder)`,
      )
      .addOption(
        new Option('--role <role>', 'what this process does; with PostgreSQL, any number of each')
          .choices(ROLES)
          .default('all'),
      )
      .option('--check', 'check the settings, show them without their secrets, and end')
      .option('--init', 'write settings to start from, with a new key and secret')
      .option('--json', 'with --check: print JSON')
      .option(
        '--log-level <level>',
        `${LOG_LEVELS.join(', ')} (default: LOG_LEVEL, or info)`,
        readLevel,
      )
      .option('--pretty', 'log lines for people (default: on a terminal)')
      .option('--no-pretty', 'log JSON')
      .addHelpText('after', EXAMPLES)
      .action((options: ServeOptions) => {
        if (options.init) init(options.config ?? SETTINGS_FILES[0])
        if (!options.check) return serve(start, options)
        check(options)
        return undefined
      })
  }
}

function readLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((known) => known === text.toLowerCase())
  if (level) return level
  throw new InvalidArgumentError(`Expected one of ${LOG_LEVELS.join(', ')}.`)
}

/** Writes settings to start from, and says what to do with them. */
function init(file: string): void {
  if (!file.endsWith('.json')) {
    throw new CommandError(
      EXIT.usage,
      `--init writes JSON: give --config a name that ends in .json.`,
    )
  }
  const secret = () => randomBytes(16).toString('hex')
  try {
    // Not to be read by others: there are secrets in it. Never over what is there.
    writeFileSync(file, exampleSettings(secret(), secret()), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const why = isThere ? 'it is there already. Leave out --init to run by it.' : String(error)
    throw new CommandError(EXIT.usage, `Could not write ${file}: ${why}`)
  }
  console.error(`Wrote ${file}, with a new write key and shared secret. ${NEXT}`)
}

const NEXT = `What it collects is forwarded to
http://127.0.0.1:4000/, signed. In two other terminals, in this folder, run

  npx hookline-destination listen
  npx hookline-destination send track --event 'Order Completed' --user u1
`

/** The file of the settings. */
function locate({ config }: ServeOptions): string {
  if (config !== undefined) return config
  try {
    return findSettings(process.cwd())
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const example = exampleSettings('your-write-key', 'your-shared-secret')
    const mend =
      'Name the settings with --config, or start from this one, which `serve --init` writes:'
    throw new CommandError(EXIT.usage, `${error.message}\n${mend}\n\n${example}`)
  }
}

function check(options: ServeOptions): void {
  const file = locate(options)
  try {
    const settings = describeSettings(readFor(options.role, file))
    if (options.json) console.log(JSON.stringify({ ok: true, file, settings }))
    else console.log(`${shownFile(file)} is right:\n\n${stringify(settings).trimEnd()}`)
  } catch (error) {
    if (!options.json || !(error instanceof SettingsError)) throw error
    const { code, problems } = error
    console.log(JSON.stringify({ ok: false, file, code, problems }))
    throw new CommandError(EXIT.usage, '')
  }
}

/** The settings, if the role can do with them. */
function readFor(role: Role, file: string): Settings {
  const settings = readSettings(file, process.env)
  try {
    checkRole(role, settings.store)
  } catch (error) {
    throw new CommandError(EXIT.usage, `${shownFile(file)}: ${messageOf(error)}`)
  }
  return settings
}

/** Longer than this, in ms, a stop does not take: supervisors kill what takes 10 s. */
const STOP_MS = 9_500

async function serve(start: StartDestination, options: ServeOptions): Promise<void> {
  const file = locate(options)
  const settings = readFor(options.role, file)
  const { log, flush } = openLog({
    level: options.logLevel ?? levelOfEnvironment(),
    pretty: options.pretty ?? process.stdout.isTTY,
    colour: isColoured(process.stdout),
  })
  const stop = untilStopped()
  const starting = start(settings, log, options.role)
  reloadOnSignal(starting, file, log) // from now on: unheeded, a signal would end the process
  const running = await starting.catch((error: unknown) => {
    throw explainStart(error, settings, file)
  })
  logStart(log, running, settings, options.role)
  await flush()

  log.info({ signal: await stop }, 'stopping: ending what is under way')
  const exitCode = await closeInTime(running, log)
  await flush()
  if (exitCode !== EXIT.ok) throw new CommandError(exitCode, '') // the log has it
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

/** Waits for the first signal to stop; the second one ends the process. */
function untilStopped(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let signals = 0
    const onSignal = (signal: NodeJS.Signals) => {
      if (++signals > 1) process.exit(EXIT.failed)
      resolve(signal)
    }
    process.on('SIGTERM', onSignal).on('SIGINT', onSignal)
  })
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

/** Reads the settings again at each SIGHUP, one at a time. */
function reloadOnSignal(starting: Promise<RunningDestination>, file: string, log: Log): void {
  let last = Promise.resolve()
  process.on('SIGHUP', () => {
    last = last.then(() => reload(starting, file, log))
  })
}

async function reload(
  starting: Promise<RunningDestination>,
  file: string,
  log: Log,
): Promise<void> {
  try {
    const settings = readSettings(file, process.env)
    const running = await starting
    await running.reload(settings)
    log.info({ file, destinations: settings.destinations.map(({ name }) => name) }, 'reloaded')
  } catch (error) {
    const details =
      error instanceof SettingsError ? { problems: error.problems } : { error: messageOf(error) }
    log.error({ file, ...details }, 'not reloaded: the old settings stay')
  }
}

async function closeInTime(running: RunningDestination, log: Log): Promise<number> {
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
      log.error({ error: messageOf(error) }, 'could not stop in order')
      return EXIT.failed
    },
  )
  const exitCode = await Promise.race([closed, late])
  clearTimeout(timer)
  return exitCode
}

/** Says why it did not start. What has no code is nobody's expectation, and is left as it is. */
function explainStart(error: unknown, settings: Settings, file: string): unknown {
  const { code, message, syscall = '', port } = error as NodeJS.ErrnoException & { port?: number }
  if (typeof code !== 'string') return error
  const isAddress = ['listen', 'getaddrinfo'].includes(syscall)
  const { listen, adminListen } = settings
  const isAdmin = adminListen !== undefined && adminListen.port === port && port !== listen.port
  const field = isAdmin ? 'adminListen' : 'listen'
  const mend = `Set "${field}" in ${shownFile(file)} to another.`
  const whys: Readonly<Record<string, string>> = {
    EADDRINUSE: `another process listens there. Stop it, or set "${field}" in ${shownFile(file)} to another port.`,
    EADDRNOTAVAIL: `this machine has no such address. ${mend}`,
    ENOTFOUND: `there is no such host. ${mend}`,
    EACCES: `this user may not. ${mend}`,
  }
  const why = isAddress ? whys[code] : undefined
  const text =
    why === undefined
      ? `Could not start: ${message}`
      : `Could not listen on ${formatListen(isAdmin ? adminListen : listen)}: ${why}`
  return new CommandError(EXIT.failed, text)
}
