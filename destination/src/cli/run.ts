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
 * Runs the command line.
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
  // In `listen | head -3` the reader ends first, and the next write fails with EPIPE. Without a listener that throws.
  const leave = () => process.exit(EXIT.failed)
  process.stdout.on('error', leave)
  try {
    await program.parseAsync(argv, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    // Commander has printed the message itself.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    const { message, exitCode } = explain(error)
    if (message !== '') console.error(message)
    return exitCode
  } finally {
    process.stdout.off('error', leave)
  }
}

/** The message and the exit code for an error. An unexpected error is a bug, so its stack is printed too. */
function explain(error: unknown): { message: string; exitCode: number } {
  if (error instanceof CommandError) return error
  if (error instanceof SettingsError) return { message: error.message, exitCode: EXIT.usage }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { message, exitCode: EXIT.failed }
}
