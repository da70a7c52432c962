// The build of hookline that is measured: the repository's dist/, or that of HOOKLINE_DIST.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

export const dist = process.env.HOOKLINE_DIST
  ? pathToFileURL(`${resolve(process.env.HOOKLINE_DIST)}/`)
  : new URL('../dist/', import.meta.url)
