import { SettingsError } from '../settings/settings-error.js'
import type { Unusable } from './managed.js'

/** More records than this are not listed: with a wrong key, none can be used. */
const MAX_LISTED = 20

/** The error of a start at which the settings in the store can't be used. */
export function unusableError(unusable: readonly Unusable[]): SettingsError {
  const listed = unusable.slice(0, MAX_LISTED).map(({ kind, name, message }) => ({
    path: `the ${kind} ${JSON.stringify(name)}`,
    message,
  }))
  const others = unusable.length - listed.length
  if (others > 0) listed.push({ path: 'others', message: `${others} more cannot be used either.` })
  return new SettingsError('settings_invalid', 'The store', listed)
}
