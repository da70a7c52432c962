import { randomBytes } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { exampleSettings } from '../../settings/example.js'
import { SETTINGS_FILES } from '../../settings/file.js'
import { CommandError, EXIT } from '../command.js'

/**
 * Writes example settings with new secrets, and prints the next steps.
 *
 * @param given - The file; by default the first of {@link SETTINGS_FILES}.
 * @throws CommandError if the file exists or cannot be written, or the folder has other settings.
 */
export function init(given: string | undefined): void {
  const file = given ?? SETTINGS_FILES.find((name) => existsSync(name)) ?? SETTINGS_FILES[0]
  if (given !== undefined && !given.endsWith('.json')) {
    throw new CommandError(
      EXIT.usage,
      `--init writes JSON. Give --config a name that ends in .json.`,
    )
  }
  const secret = () => randomBytes(16).toString('hex')
  try {
    // Mode 0600, because other users must not read the secrets. Flag wx, because an existing file must stay as it is.
    writeFileSync(file, exampleSettings(secret(), secret(), secret()), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const why = isThere
      ? 'the file exists already. Leave out --init to start with it.'
      : `${(error as Error).message}. With --config, name a file in a folder to which you may write.`
    throw new CommandError(EXIT.usage, `Could not write ${file}: ${why}`)
  }
  const config = given === undefined ? '' : ` --config ${asArgument(given)}`
  console.error(
    `Wrote ${file}, with a new write key, shared secret and admin token.${nextSteps(config)}`,
  )
}

/** @param config - The option that names the settings file, with a space before it; empty if the commands find it. */
const nextSteps = (config: string) => `
Calls are signed and forwarded to http://127.0.0.1:4000/. Run these commands in two other terminals, in this folder:

  npx hookline-destination listen${config}
  npx hookline-destination send track --event 'Order Completed' --user u1${config}
`

/** A path as a shell takes it. */
function asArgument(path: string): string {
  return /^[\w./\\:@+-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
}
