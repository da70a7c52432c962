import type { Needs, PartName } from '../settings/check.js'
import { findSettings } from '../settings/file.js'
import { SettingsError } from '../settings/settings-error.js'
import type { Settings } from '../settings/settings.js'

/** Settings in the folder of the command, and their file. */
interface LocalSettings<Name extends keyof Settings = keyof Settings> {
  file: string
  settings: Pick<Settings, Name>
}

/**
 * Reads settings in the folder where the command runs, so that a first try needs no options. It reads only those that the command
 * needs: the others may refer to environment variables that only the service has.
 *
 * @param config - The file that was named with `--config`. It must exist.
 * @param needs - What it needs of these settings; by default, all.
 * @returns `undefined` if no file was named and the folder has none.
 * @throws SettingsError if these settings are wrong, or the named file does not exist.
 */
export async function readLocalSettings<Name extends PartName>(
  config: string | undefined,
  names: readonly Name[],
  needs?: Needs,
): Promise<LocalSettings<Name> | undefined> {
  try {
    const file = config ?? findSettings(process.cwd())
    // Loaded only if there is a file: the schema and the parser of YAML take longer to load than the whole command line.
    const { readParts } = await import('../settings/read.js')
    return { file, settings: readParts(file, process.env, names, needs) }
  } catch (error) {
    const isNone = error instanceof SettingsError && error.code === 'settings_not_found'
    if (isNone && config === undefined) return undefined
    throw error
  }
}
