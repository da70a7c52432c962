import { findSettings, readSettings } from '../settings/read.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Settings } from '../settings/settings.js'

/** The settings of the service that runs beside, and the file that they are in. */
export interface LocalSettings {
  file: string
  settings: Settings
}

/**
 * Reads the settings of the folder that the command runs in, if there are any, so that a first try needs no
 * options.
 *
 * @param config - the file, if it was named: then it must be there
 * @throws SettingsError if there are some that are wrong.
 */
export function readLocalSettings(config: string | undefined): LocalSettings | undefined {
  try {
    const file = config ?? findSettings(process.cwd())
    return { file, settings: readSettings(file, process.env) }
  } catch (error) {
    const isNone = error instanceof SettingsError && error.code === 'settings_not_found'
    if (isNone && config === undefined) return undefined
    throw error
  }
}
