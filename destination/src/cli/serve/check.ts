import { stringify } from 'yaml'
import { describeSettings } from '../../settings/describe.js'
import { shownFile } from '../../settings/read.js'
import type { Role } from '../../settings/role.js'
import { SettingsError } from '../../settings/settings-error.js'
import { CommandError, EXIT } from '../command.js'
import { readSettingsFor } from './settings-file.js'

/**
 * Checks the settings in a file, and prints them without their secrets.
 *
 * @throws SettingsError if they are wrong; CommandError instead if `asJson` is set, after the problems are printed.
 */
export function checkSettingsFile(file: string, role: Role, asJson: boolean): void {
  try {
    const settings = describeSettings(readSettingsFor(role, file))
    if (asJson) console.log(JSON.stringify({ ok: true, file, settings }))
    else console.log(`${shownFile(file)} is valid:\n\n${stringify(settings).trimEnd()}`)
  } catch (error) {
    if (!asJson || !(error instanceof SettingsError)) throw error
    const { code, problems } = error
    console.log(JSON.stringify({ ok: false, file, code, problems }))
    throw new CommandError(EXIT.usage, '')
  }
}
