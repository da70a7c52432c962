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
  let tries = 0
  const load = async () => {
    try {
      loaded.value = await (tries === 0 ? importViews() : importAgain(importViews, tries))
      problem.value = ''
    } catch {
      tries++
      // The names of the files change with the version.
      problem.value = `${name} can’t be loaded. If the destination was updated, load this page again.`
    }
  }
  return { loaded, problem, load }
}

/**
 * Imports a file that could not be loaded before. Browsers remember that for its address, as HTML asks of them ("module map"), so
 * another try needs another address. The one of the built file is only in the code of the import.
 */
function importAgain<Module>(importViews: () => Promise<Module>, tries: number): Promise<Module> {
  const [, file] = /import\(["'`]([^"'`]+)["'`]\)/.exec(importViews.toString()) ?? []
  if (file === undefined) return importViews()
  const { href } = new URL(`${file}?again=${tries}`, import.meta.url)
  return import(href) as Promise<Module>
}
