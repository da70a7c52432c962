import { expect } from 'vitest'
import { openStore, type OpenOptions } from '../../../src/store/open.js'
import type { Store } from '../../../src/store/store.js'
import { unhurried, type Server } from './server.js'

/** For each server, the name of a database that has the tables. Making them takes most of the time of the first store. */
const templates = new WeakMap<Server, Promise<string>>()

async function makeTemplate(server: Server): Promise<string> {
  const url = await server.database()
  await (await openStore(url)).close()
  return new URL(url).pathname.slice(1)
}

/** Opens several stores on one database, like processes on several machines. It has the tables already. */
export async function openStores(
  server: Server,
  count: number,
  options: OpenOptions = {},
): Promise<AsyncDisposable & { all: Store[]; url: string }> {
  const template = templates.get(server) ?? makeTemplate(server)
  templates.set(server, template)
  const url = await server.database(await template)
  const all = await Promise.all(
    Array.from({ length: count }, () => openStore(unhurried(url), options)),
  )
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
