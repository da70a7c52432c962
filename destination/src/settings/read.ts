import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, extname, join, relative, resolve } from 'node:path'
import { checkSettings } from './check.js'
import type { Environment } from './environment.js'
import { SettingsError } from './settings-error.js'
import type { Settings } from './settings.js'
import { parseJson, parseYaml } from './syntax.js'

/** What the file of the settings is called, in the order in which they are looked for. */
export const SETTINGS_FILES = [
  'hookline.config.json',
  'hookline.config.yaml',
  'hookline.config.yml',
] as const

/**
 * Gives the path of the file that has the settings of a folder.
 *
 * @throws {@link SettingsError} if there is none.
 */
export function findSettings(folder: string): string {
  const file = SETTINGS_FILES.map((name) => join(folder, name)).find((path) => existsSync(path))
  if (file !== undefined) return file
  const [last, ...others] = [...SETTINGS_FILES].reverse()
  const message = `there is no ${others.reverse().join(', ')} or ${last}.`
  throw new SettingsError('settings_not_found', folder, [{ path: '', message }])
}

/**
 * Reads the settings of a file, JSON or YAML by its ending, and checks them whole.
 *
 * @throws {@link SettingsError} with every problem.
 */
export function readSettings(file: string, env: Environment): Settings {
  const shown = shownFile(file)
  const text = readText(file, shown)
  const parsed = /\.ya?ml$/i.test(extname(file)) ? parseYaml(text) : parseJson(text)
  if ('faults' in parsed) {
    const problems = parsed.faults.map(({ line, column, message }) => ({
      path: `line ${line}, column ${column}`,
      message,
    }))
    throw new SettingsError('settings_syntax', shown, problems)
  }
  const checked = checkSettings(parsed.value, env, dirname(resolve(file)))
  if ('settings' in checked) return checked.settings
  throw new SettingsError('settings_invalid', shown, checked.problems)
}

/** A file as people name it: from this folder if it is below, and in full if it is not. */
export function shownFile(file: string): string {
  const below = relative('', file)
  return below.startsWith('..') ? resolve(file) : below
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
    const message = `the file can't be read: ${code ?? String(error)}. Check that it is a file and that this user may read it.`
    throw new SettingsError('settings_unreadable', shown, [{ path: '', message }])
  }
}
