import { recogniseAcrossBuilds } from './across-builds.js'

/**
 * The base of every error that hookline makes: catch this one to catch them all.
 *
 * The `message` is for people and may change between versions; the `code` is for programs and stays.
 */
export abstract class HooklineError extends Error {
  /** What went wrong, as a stable word that a program can compare with. */
  abstract readonly code: string
}

recogniseAcrossBuilds({ HooklineError })
