import { existsSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { SettingsError } from './settings-error.js'

/** The default names of the settings file. The first one that exists is used. */
export const SETTINGS_FILES = [
  'hookline.config.json',
  'hookline.config.yaml',
  'hookline.config.yml',
] as const

/**
 * Finds the settings file of a folder.
 *
 * @returns The path of the file.
 * @throws {@link SettingsError} `settings_not_found` if the folder has none of {@link SETTINGS_FILES}.
 */
export function findSettings(folder: string): string {
  const file = SETTINGS_FILES.map((name) => join(folder, name)).find((path) => existsSync(path))
  if (file !== undefined) return file
  const [last, ...others] = [...SETTINGS_FILES].reverse()
  const message = `there is no ${others.reverse().join(', ')} or ${last}.`
  throw new SettingsError('settings_not_found', folder, [{ path: '', message }])
}

/** The settings files of a folder that are not used, because {@link findSettings} finds another one first. */
export function unusedSettings(folder: string): string[] {
  return SETTINGS_FILES.filter((name) => existsSync(join(folder, name))).slice(1)
}

/** The name of a file for messages: relative if the file is below the working folder, else its full path. */
export function shownFile(file: string): string {
  const below = relative('', file)
  return below.startsWith('..') ? resolve(file) : below
}
