import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../../src/store/open.js'
import type { DriverName } from '../../../src/store/sqlite/driver.js'
import { createSubject, type Subject } from '../contract.js'

/** Creates a folder that is deleted at the end of the scope. */
export async function folder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'hookline-store-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** Opens a store in a folder of its own. */
export async function sqliteSubject(driver: DriverName): Promise<Subject> {
  const place = await folder()
  return createSubject(
    (now) => openStore(`sqlite:${place.path}/store.db`, { now, driver }),
    () => place[Symbol.asyncDispose](),
  )
}
