import type { Problem } from './problem.js'

/**
 * Why there are no settings. `settings_not_found`: no file is there; `settings_unreadable`: it could not be
 * read; `settings_syntax`: it is no JSON, or no YAML; `settings_invalid`: values in it are wrong.
 */
export type SettingsErrorCode =
  'settings_not_found' | 'settings_unreadable' | 'settings_syntax' | 'settings_invalid'

/** There are no settings to run by. The message names every problem, each on a line of its own. */
export class SettingsError extends Error {
  /** Tells it apart where classes can't be compared. */
  override readonly name = 'SettingsError'

  /**
   * @param file - the file, as the reader of the message would name it
   */
  constructor(
    /** What to act on. */
    readonly code: SettingsErrorCode,
    file: string,
    /** All that is wrong. */
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
