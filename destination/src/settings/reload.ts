import { isDeepStrictEqual } from 'node:util'
import type { Settings } from './settings.js'

/** The settings that can't change while the destination runs. */
const FIXED = ['listen', 'adminListen', 'store'] as const

/** @throws Error if new settings change what can't change while the destination runs. */
export function checkReload(present: Settings, next: Settings): void {
  const field = FIXED.find((name) => !isDeepStrictEqual(next[name], present[name]))
  if (field === undefined) return
  throw new Error(
    `${field} can't change while the destination runs. Restart the destination to use the new value.`,
  )
}
