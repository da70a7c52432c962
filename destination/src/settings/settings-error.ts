import type { Problem } from './problem.js'

/**
 * Why the settings can't be used. `settings_not_found`: the file does not exist. `settings_unreadable`: the file can't
 * be read. `settings_syntax`: the file is not valid JSON or YAML. `settings_invalid`: values in the file are wrong.
 */
export type SettingsErrorCode =
  'settings_not_found' | 'settings_unreadable' | 'settings_syntax' | 'settings_invalid'

/** The settings can't be used. The message lists every problem; several problems have one line each. */
export class SettingsError extends Error {
  /** Identifies the error where `instanceof` does not work, such as between two copies of this package. */
  override readonly name = 'SettingsError'

  constructor(
    /** Why the settings can't be used. */
    readonly code: SettingsErrorCode,
    /** The name of the file for the message. */
    readonly file: string,
    /** All problems that were found. */
    readonly problems: readonly Problem[],
  ) {
    super(say(file, problems))
  }
}

function say(file: string, problems: readonly Problem[]): string {
  const lines = problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`))
  if (lines.length === 1) return `${file}: ${lines.join()}`
  return [`${file} has ${lines.length} problems:`, ...lines.map((line) => `  ${line}`)].join('\n')
}
