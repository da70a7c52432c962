import { Option } from 'commander'
import { LOG_LEVELS } from '../observe/log-level.js'
import { SETTINGS_FILES } from '../settings/file.js'
import { ROLES } from '../settings/role.js'
import type { AddCommand } from './command.js'
import { init } from './serve/init.js'
import { readLevel, type ServeOptions } from './serve/options.js'
import type { StartDestination } from './serve/running.js'

const EXAMPLES = `
The page is at the address that the command prints. Its token, which replays need too, is the adminToken of the settings.

SIGHUP reads the settings again. If they are wrong, the old ones stay in use. SIGTERM and SIGINT let requests under way
finish, and end the process within 10 s, with exit code 0, or 1 if the store has not taken their results. A second signal ends it
at once, with exit code 1, or by SIGKILL (137 in a shell) if a call of SQLite takes longer than 1 s.

Examples:
  $ hookline-destination serve --init          # writes example settings, and starts with them
  $ hookline-destination serve --config /etc/hookline/hookline.config.yaml
  $ hookline-destination serve --check         # checks the settings before a restart; says which endpoints are not allowed
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
      .option('--init', 'write example settings with a new key, secret and admin token')
      .option('--json', 'with --check: print JSON')
      .addOption(
        new Option('--log-level <level>', 'what to log (default: LOG_LEVEL, or info)')
          .choices(LOG_LEVELS)
          .argParser(readLevel),
      )
      .option('--pretty', 'write log lines for people (default: on a terminal)')
      .option('--no-pretty', 'write log lines in JSON')
      .addHelpText('after', EXAMPLES)
      .action(async (options: ServeOptions) => {
        if (options.init) init(options.config)
        if (options.check) {
          const { checkSettingsFile } = await import('./serve/check.js')
          checkSettingsFile(options)
        } else {
          const { run } = await import('./serve/run.js')
          await run(start, options)
        }
      })
  }
}
