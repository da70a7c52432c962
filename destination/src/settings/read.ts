import { readFileSync } from 'node:fs'
import { basename, dirname, extname, resolve } from 'node:path'
import { checkSettings } from './check.js'
import type { Environment } from './environment.js'
import { shownFile } from './file.js'
import { refusedEndpoints } from './reach.js'
import { SettingsError } from './settings-error.js'
import type { Settings } from './settings.js'
import { parseText } from './syntax.js'

/**
 * Reads and checks a settings file. It is YAML if its name ends in `.yaml` or `.yml`, and JSON otherwise.
 *
 * @throws {@link SettingsError} with all problems that were found.
 */
export function readSettings(file: string, env: Environment): Settings {
  const shown = shownFile(file)
  const text = readText(file, shown)
  const raw = parseText(text, /\.ya?ml$/i.test(extname(file)), shown)
  const checked = checkSettings(raw, env, dirname(resolve(file)))
  if ('settings' in checked) return checked.settings
  throw new SettingsError('settings_invalid', shown, checked.problems)
}

/** @throws {@link SettingsError} if nothing can be sent to an endpoint, because its address is not allowed. */
export function requireReachable(settings: Settings, file: string): void {
  const problems = refusedEndpoints(settings)
  if (problems.length > 0) throw new SettingsError('settings_invalid', shownFile(file), problems)
}

function readText(file: string, shown: string): string {
  try {
    return readFileSync(file, 'utf8').replace(/^\uFEFF/, '')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') {
      const message = `there is no file ${basename(file)} in ${dirname(resolve(file))}.`
      throw new SettingsError('settings_not_found', shown, [{ path: '', message }])
    }
    const message =
      `the file can't be read: ${code ?? String(error)}. ` +
      'Check that it is a file and that this user may read it.'
    throw new SettingsError('settings_unreadable', shown, [{ path: '', message }])
  }
}
