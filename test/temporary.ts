import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What `os.tmpdir()` reads, on the one system or the other. */
const VARIABLES = ['TMPDIR', 'TEMP', 'TMP']

/**
 * Gives all tests a temporary folder of their own, and deletes it at the end with what they have left there: processes that are killed
 * leave their files. `HOOKLINE_LASTING` has the system's folder, for what the next run can use again.
 */
export default function useOwnFolder(): (() => void) | undefined {
  if (process.env['HOOKLINE_LASTING'] !== undefined) return undefined
  process.env['HOOKLINE_LASTING'] = tmpdir()
  const folder = mkdtempSync(join(tmpdir(), 'hookline-tests-'))
  // PostgreSQL runs as another user if the tests run as root, and has a folder of its own in this one.
  chmodSync(folder, 0o711)
  for (const name of VARIABLES) process.env[name] = folder
  return () => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}
