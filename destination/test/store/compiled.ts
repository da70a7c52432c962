import { join } from 'node:path'
import { inject } from 'vitest'
import type { openStore } from '../../src/store/open.js'

/** The folder of the compiled sources. Threads and processes that run JavaScript start quickly. */
export const compiledDir = inject('compiledDir')

/** {@link openStore} as it is published: the threads that it starts are compiled too. */
export const open = (
  (await import(join(compiledDir, 'store/open.js'))) as { openStore: typeof openStore }
).openStore
