import { errorMessage } from '../../observe/error-message.js'
import { exampleSettings } from '../../settings/example.js'
import { findSettings, readSettings, shownFile } from '../../settings/read.js'
import { checkRole, type Role } from '../../settings/role.js'
import { SettingsError } from '../../settings/settings-error.js'
import type { Settings } from '../../settings/settings.js'
import { CommandError, EXIT } from '../command.js'

/**
 * The file of the settings: the one that is named, or the one in this folder.
 *
 * @throws CommandError if there is none.
 */
export function locateSettings(config: string | undefined): string {
  if (config !== undefined) return config
  try {
    return findSettings(process.cwd())
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    const example = exampleSettings('your-write-key', 'your-shared-secret')
    const fix =
      'Name the settings with --config, or start from this one, which `serve --init` writes:'
    throw new CommandError(EXIT.usage, `${error.message}\n${fix}\n\n${example}`)
  }
}

/**
 * The settings in a file.
 *
 * @throws SettingsError if they are wrong; CommandError if the role needs another store.
 */
export function readSettingsFor(role: Role, file: string): Settings {
  const settings = readSettings(file, process.env)
  try {
    checkRole(role, settings.store)
  } catch (error) {
    throw new CommandError(EXIT.usage, `${shownFile(file)}: ${errorMessage(error)}`)
  }
  return settings
}
