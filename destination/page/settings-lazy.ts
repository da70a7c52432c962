// The settings are loaded when they are first shown, because most visits to the page are about deliveries.
import { signal } from '@preact/signals'
import type * as Settings from './settings-view.js'

/** The views of the settings; `undefined` until they are loaded. */
export const settingsViews = signal<typeof Settings | undefined>(undefined)

/** Why they could not be loaded; empty if nothing went wrong. */
export const settingsProblem = signal('')

export async function loadSettings(): Promise<void> {
  try {
    settingsViews.value = await import('./settings-view.js')
    settingsProblem.value = ''
  } catch {
    // The names of the files change with the version.
    settingsProblem.value =
      'The settings can’t be loaded. If the destination was updated, load this page again.'
  }
}
