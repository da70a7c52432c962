import { expect } from 'vitest'
import { openStore, type OpenOptions } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import type { Server } from './server.js'

/** Opens several stores on one database, like processes on several machines. */
export async function openStores(
  server: Server,
  count: number,
  options: OpenOptions = {},
): Promise<AsyncDisposable & { all: Store[]; url: string }> {
  const url = await server.database()
  const all = await Promise.all(Array.from({ length: count }, () => openStore(url, options)))
  return {
    all,
    url,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(all.map((store) => store.close()))
    },
  }
}

export function storeError(code: string, message: RegExp): unknown {
  return expect.objectContaining({
    name: 'StoreError',
    code,
    message: expect.stringMatching(message) as unknown,
  })
}
