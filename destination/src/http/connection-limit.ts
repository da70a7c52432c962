import { readFileSync } from 'node:fs'

/**
 * The most connections that a server may have: half of the files that the process may open. The other half is for
 * deliveries and the store, which must go on when clients hold all connections.
 *
 * @param limits - The text of `/proc/self/limits`. Node raises the soft limit to the hard limit when it starts.
 * @returns `undefined` if there is no limit, or if the system does not show it.
 */
export function connectionLimit(limits = readLimits()): number | undefined {
  const openFiles = Number(/^Max open files +(\d+) /m.exec(limits)?.[1])
  return Number.isNaN(openFiles) ? undefined : Math.max(1, Math.floor(openFiles / 2))
}

/** Only Linux has this file. */
function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return ''
  }
}
