import { recogniseAcrossBuilds } from './across-builds.js'

/**
 * The base class of every error of hookline. `instanceof` works for errors of either build, ES modules or CommonJS.
 *
 * Compare `code` in programs: it stays the same between versions. The `message` is for people, and may change.
 */
export abstract class HooklineError extends Error {
  /** The kind of error, as a stable word. */
  abstract readonly code: string
}

recogniseAcrossBuilds({ HooklineError })
