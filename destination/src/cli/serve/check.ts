import { stringify } from 'yaml'
import { describeSettings } from '../../settings/describe.js'
import { shownFile } from '../../settings/file.js'
import { SettingsError } from '../../settings/settings-error.js'
import { CommandError, EXIT } from '../command.js'
import { levelOf, type ServeOptions } from './options.js'
import { locateSettings, readSettingsFor } from './settings-file.js'

/**
 * Checks the settings file, and prints them without their secrets.
 *
 * @throws CommandError if there is no file, or if the level of the log is wrong; SettingsError if the settings are wrong, or, with `json`, CommandError after the
 * problems are printed.
 */
export function checkSettingsFile(options: ServeOptions): void {
  const { config, role, json } = options
  const file = locateSettings(config)
  levelOf(options)
  try {
    const settings = describeSettings(readSettingsFor(role, file))
    if (json) console.log(JSON.stringify({ ok: true, file, settings }))
    else console.log(`${shownFile(file)} is valid:\n\n${stringify(settings).trimEnd()}`)
  } catch (error) {
    if (!json || !(error instanceof SettingsError)) throw error
    const { code, message, problems } = error
    console.log(JSON.stringify({ ok: false, file, code, problems, error: { code, message } }))
    throw new CommandError(EXIT.usage, '')
  }
}
