import { Command, CommanderError } from 'commander'
import { printable } from '../observe/printable.js'
import { SettingsError } from '../settings/settings-error.js'
import { version } from '../version.js'
import { CommandError, EXIT, refuseUnclear, type AddCommand } from './command.js'
import { explainOpenFiles } from './open-files.js'

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
  const end = argv.indexOf('--')
  const isJson = argv.slice(0, end < 0 ? undefined : end).includes('--json')
  let refusal = ''
  const program = new Command('hookline-destination')
    .description('Collects analytics calls and forwards each as a signed POST.')
    .version(version)
    .exitOverride()
    .showHelpAfterError('(see --help)')
    .addHelpText('after', EXIT_CODES)
  // Each command that is added takes over this setting.
  if (isJson) program.configureOutput({ writeErr: (text) => (refusal += text) })
  for (const add of commands) add(program)
  refuseUnclear(program)
  const print = (code: string, message: string) => {
    if (isJson) console.log(JSON.stringify({ error: { code, message } }))
    // It may quote a file or an answer. Its own line breaks stay.
    else console.error(message.split('\n').map(printable).join('\n'))
  }
  try {
    await program.parseAsync(argv, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return EXIT.ok
      // Without `--json`, Commander has printed the message itself.
      if (isJson) print('usage', refusal.replace(/^error: /, '').trim())
      return EXIT.usage
    }
    const { code, message, exitCode } = explain(error)
    if (message !== '') print(code, message)
    return exitCode
  }
}

/** What to print for an error, and the exit code. An unexpected error is a bug, so its stack is printed too. */
function explain(error: unknown): { code: string; message: string; exitCode: number } {
  if (error instanceof CommandError) return error
  if (error instanceof SettingsError) {
    return { code: error.code, message: error.message, exitCode: EXIT.usage }
  }
  const files = explainOpenFiles(error)
  if (files !== undefined) return { code: 'failed', message: files, exitCode: EXIT.failed }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { code: 'internal_error', message, exitCode: EXIT.failed }
}
