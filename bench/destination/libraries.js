// Finds the destination and its libraries, so that the programs that it is compared with use the same libraries.
import { createRequire } from 'node:module'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The package that is measured: the repository's, or that of HOOKLINE_DESTINATION. */
export const destination = process.env.HOOKLINE_DESTINATION
  ? pathToFileURL(`${resolve(process.env.HOOKLINE_DESTINATION)}/`)
  : new URL('../../destination/', import.meta.url)

/** One of the destination's libraries, by its name. */
export const library = createRequire(new URL('package.json', destination))
