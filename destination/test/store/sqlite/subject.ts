import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DriverName } from '../../../src/store/sqlite/driver.js'
import type { Store } from '../../../src/store/store.js'
import { open as openStore } from '../compiled.js'
import type { Subject } from '../contract.js'

/** A folder that is gone at the end of the scope. */
export async function folder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'hookline-store-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** A store in a folder of its own, with a clock that stands still. */
export async function sqliteSubject(driver: DriverName): Promise<Subject> {
  const place = await folder()
  let now = 1_700_000_000_000
  const open = (): Promise<Store> =>
    openStore(`sqlite:${place.path}/store.db`, { now: () => now, driver })
  const subject: Subject = {
    store: await open(),
    now: () => now,
    advance: (ms) => {
      now += ms
    },
    reopen: async () => {
      await subject.store.close()
      subject.store = await open()
      return subject.store
    },
    dispose: async () => {
      await subject.store.close()
      await place[Symbol.asyncDispose]()
    },
  }
  return subject
}
