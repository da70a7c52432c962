import { findSettings } from '../settings/file.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Settings } from '../settings/settings.js'

/** The settings in the folder of the command, and their file. */
export interface LocalSettings {
  file: string
  settings: Settings
}

/**
 * Reads the settings in the folder where the command runs, so that a first try needs no options.
 *
 * @param config - The file that was named with `--config`. It must exist.
 * @returns `undefined` if no file was named and the folder has none.
 * @throws SettingsError if the settings are wrong, or the named file does not exist.
 */
export async function readLocalSettings(
  config: string | undefined,
): Promise<LocalSettings | undefined> {
  try {
    const file = config ?? findSettings(process.cwd())
    // Loaded only if there is a file: the schema and the parser of YAML take longer to load than the whole command line.
    const { readSettings } = await import('../settings/read.js')
    return { file, settings: readSettings(file, process.env) }
  } catch (error) {
    const isNone = error instanceof SettingsError && error.code === 'settings_not_found'
    if (isNone && config === undefined) return undefined
    throw error
  }
}
