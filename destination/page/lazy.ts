// The parts of the page that are loaded when they are first shown. Most visits see neither.
import { signal, type ReadonlySignal } from '@preact/signals'

/** Views that come in a file of their own. */
export interface Part<Module> {
  /** The views; `undefined` until they are loaded. */
  loaded: ReadonlySignal<Module | undefined>
  /** Why they could not be loaded; empty if nothing went wrong. */
  problem: ReadonlySignal<string>
  load: () => Promise<void>
}

export const settingsPart = part('The settings', () => import('./settings-view.js'))

/** A destination's view has its tests, its pauses and what a tenant may change. */
export const destinationPart = part('This view', () => import('./destination-view.js'))

function part<Module>(name: string, importViews: () => Promise<Module>): Part<Module> {
  const loaded = signal<Module | undefined>(undefined)
  const problem = signal('')
  const load = async () => {
    try {
      loaded.value = await importViews()
      problem.value = ''
    } catch {
      // The names of the files change with the version.
      problem.value = `${name} can’t be loaded. If the destination was updated, load this page again.`
    }
  }
  return { loaded, problem, load }
}
