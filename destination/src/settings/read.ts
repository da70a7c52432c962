import { readFileSync, statSync } from 'node:fs'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { isPostgres, sqlitePath } from '../store/kind.js'
import { checkParts, checkSettings, type Needs, type PartName } from './check.js'
import type { Environment } from './environment.js'
import { shownFile } from './file.js'
import type { Problem } from './problem.js'
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
  return settingsOf(checkSettings(parseFile(file), env, dirname(resolve(file))), file)
}

/**
 * Reads only the given settings of a file, as {@link readSettings} does.
 *
 * @throws {@link SettingsError} with all problems that were found in them.
 */
export function readParts<Name extends PartName>(
  file: string,
  env: Environment,
  names: readonly Name[],
  needs?: Needs,
): Pick<Settings, Name> {
  const folder = dirname(resolve(file))
  return settingsOf(checkParts(parseFile(file), names, env, folder, needs), file)
}

function parseFile(file: string): unknown {
  const shown = shownFile(file)
  return parseText(readBytes(file, shown), /\.ya?ml$/i.test(extname(file)), shown)
}

function settingsOf<T>(checked: { settings: T } | { problems: Problem[] }, file: string): T {
  if ('settings' in checked) return checked.settings
  throw new SettingsError('settings_invalid', shownFile(file), checked.problems)
}

/** @throws {@link SettingsError} if nothing can be sent to an endpoint, because its address is not allowed. */
export function requireReachable(settings: Settings, file: string): void {
  const problems = refusedEndpoints(settings)
  if (problems.length > 0) throw new SettingsError('settings_invalid', shownFile(file), problems)
}

/** @throws {@link SettingsError} if there can be no store at the path of its URL. Nothing is created. */
export function requirePossibleStore({ store }: Settings, file: string): void {
  const message = isPostgres(store) ? undefined : problemOfFile(sqlitePath(store as string))
  if (message === undefined) return
  throw new SettingsError('settings_invalid', shownFile(file), [{ path: 'store', message }])
}

function problemOfFile(path: string): string | undefined {
  try {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return undefined
    return `${path} is a folder. Name a file in it, such as sqlite:${join(path, 'hookline.db')}.`
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTDIR') return undefined
    return `a part of the path ${dirname(path)} is not a folder. Name a file in a folder.`
  }
}

function readBytes(file: string, shown: string): Buffer {
  try {
    return readFileSync(file)
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
