import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What `os.tmpdir()` reads, on the one system or the other. */
const VARIABLES = ['TMPDIR', 'TEMP', 'TMP']

/** A file system in memory. Thousands of small files are written and deleted there in a fraction of the time of a disk. */
const IN_MEMORY = '/dev/shm'

/** In bytes: the tests need about a tenth of it at a time. */
const ROOM = 4 * 2 ** 30

/**
 * Gives all tests a temporary folder of their own, and deletes it at the end with what they have left there: processes that are killed
 * leave their files. `HOOKLINE_LASTING` has the system's folder, for what the next run can use again.
 */
export default function useOwnFolder(): (() => void) | undefined {
  if (process.env['HOOKLINE_LASTING'] !== undefined) return undefined
  process.env['HOOKLINE_LASTING'] = tmpdir()
  const folder = folderInMemory() ?? mkdtempSync(join(tmpdir(), 'hookline-tests-'))
  // PostgreSQL runs as another user if the tests run as root, and has a folder of its own in this one.
  chmodSync(folder, 0o711)
  for (const name of VARIABLES) process.env[name] = folder
  return () => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** `undefined` if the system has none, as in a container that gives it 64 MB, or programs can't be started in it. */
function folderInMemory(): string | undefined {
  let folder: string | undefined
  try {
    const { bavail, bsize } = statfsSync(IN_MEMORY)
    if (bavail * bsize < ROOM) return undefined
    folder = mkdtempSync(join(IN_MEMORY, 'hookline-tests-'))
    const script = join(folder, 'try')
    writeFileSync(script, '#!/bin/sh\n', { mode: 0o700 })
    execFileSync(script)
    return folder
  } catch {
    if (folder !== undefined) rmSync(folder, { recursive: true })
    return undefined
  }
}
