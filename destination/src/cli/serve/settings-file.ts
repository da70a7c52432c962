import { errorMessage } from '../../observe/error-message.js'
import { exampleSettings } from '../../settings/example.js'
import { findSettings, shownFile, unusedSettings } from '../../settings/file.js'
import { readSettings, requirePossibleStore, requireReachable } from '../../settings/read.js'
import { checkRole, type Role } from '../../settings/role.js'
import { SettingsError } from '../../settings/settings-error.js'
import type { Settings } from '../../settings/settings.js'
import { CommandError, EXIT } from '../command.js'

/**
 * Finds the settings file: the one that was named with `--config`, or the one in this folder. Says so if that has others.
 *
 * @throws CommandError if no file was named and the folder has none.
 */
export function locateSettings(config: string | undefined): string {
  if (config !== undefined) return config
  try {
    const file = findSettings(process.cwd())
    const unused = unusedSettings(process.cwd()).join(' and ')
    if (unused !== '')
      console.error(
        `${shownFile(file)} is used, and ${unused} is not. Keep only one, or name it with --config.`,
      )
    return file
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const example = exampleSettings('your-write-key', 'your-shared-secret', 'your-admin-token')
    const fix =
      'Name the file with --config, or start from this example, which `serve --init` writes:'
    throw new CommandError(EXIT.usage, `${error.message}\n${fix}\n\n${example}`)
  }
}

/**
 * Reads the settings in a file, and checks that the role can work with their store, and that messages can be sent to the
 * endpoints, and that there can be such a store.
 *
 * @throws SettingsError if the settings are wrong; CommandError if the role needs another store.
 */
export function readSettingsFor(role: Role, file: string): Settings {
  const settings = readSettings(file, process.env)
  requireReachable(settings, file)
  requirePossibleStore(settings, file)
  try {
    checkRole(role, settings.store)
  } catch (error) {
    throw new CommandError(EXIT.usage, `${shownFile(file)}: ${errorMessage(error)}`)
  }
  return settings
}
