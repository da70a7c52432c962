import { Command, CommanderError } from 'commander'
import { SettingsError } from '../settings/settings-error.js'
import { version } from '../version.js'
import { CommandError, EXIT, type AddCommand } from './command.js'

const EXIT_CODES = `
Exit codes:
  0  done
  1  failed
  2  the command line or the settings are wrong
  3  no answer: the same again, later, may work`

/**
 * Runs the command line.
 *
 * @param argv - what comes after the program's name
 * @returns the exit code.
 */
export async function run(
  argv: readonly string[],
  commands: readonly AddCommand[],
): Promise<number> {
  const program = new Command('hookline-destination')
    .description('Collects analytics calls and forwards each as a signed POST.')
    .version(version)
    .exitOverride()
    .showHelpAfterError('(--help says more)')
    .addHelpText('after', EXIT_CODES)
  for (const add of commands) add(program)
  // Whoever reads the output has seen enough: `listen | head -3`.
  const leave = () => process.exit(EXIT.failed)
  process.stdout.on('error', leave)
  try {
    await program.parseAsync(argv, { from: 'user' })
    return EXIT.ok
  } catch (error) {
    // It has printed its message already.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
    const { message, exitCode } = explain(error)
    if (message !== '') console.error(message)
    return exitCode
  } finally {
    process.stdout.off('error', leave)
  }
}

/** What to say of an error. What nobody expected keeps its stack: it is a bug. */
function explain(error: unknown): { message: string; exitCode: number } {
  if (error instanceof CommandError) return error
  if (error instanceof SettingsError) return { message: error.message, exitCode: EXIT.usage }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { message, exitCode: EXIT.failed }
}
