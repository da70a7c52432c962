import { Command, CommanderError } from 'commander'
import { SettingsError } from '../settings/settings-error.js'
import { version } from '../version.js'
import { CommandError, EXIT, type AddCommand } from './command.js'

const EXIT_CODES = `
Exit codes:
  0  done
  1  failed
  2  the command line or the settings are wrong
  3  no answer: try the same command again later`

/**
 * Runs the command line. An error goes to the standard error. With `--json` it goes to the standard output as
 * `{"error":{"code","message"}}`, so that a script always reads JSON.
 *
 * @param argv - The arguments after the name of the program.
 * @returns the exit code, see {@link EXIT}.
 */
export async function run(
  argv: readonly string[],
  commands: readonly AddCommand[],
): Promise<number> {
  const program = new Command('hookline-destination')
    .description('Collects analytics calls and forwards each as a signed POST.')
    .version(version)
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .addHelpText('after', EXIT_CODES)
  for (const add of commands) add(program)
  const running: { command?: Command } = {}
  program.hook('preAction', (_program, command) => {
    running.command = command
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    // Commander has printed the message itself.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    const { code, message, exitCode } = explain(error)
    if (message === '') return exitCode
    if (running.command?.opts()['json']) console.log(JSON.stringify({ error: { code, message } }))
    else console.error(message)
    return exitCode
  }
}

/** What to print for an error, and the exit code. An unexpected error is a bug, so its stack is printed too. */
function explain(error: unknown): { code: string; message: string; exitCode: number } {
  if (error instanceof CommandError) return error
  if (error instanceof SettingsError) {
    return { code: error.code, message: error.message, exitCode: EXIT.usage }
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { code: 'internal_error', message, exitCode: EXIT.failed }
}
