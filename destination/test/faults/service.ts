import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openStore } from '../../src/store/open.js'
import { loadDriver, type Database } from '../../src/store/sqlite/driver.js'
import type { Store } from '../../src/store/store.js'
import { start, type Running } from '../cli/process.js'
import { SECRET } from './customer.js'
import { WRITE_KEY } from './load.js'

/** So many requests are under way at an endpoint at most. */
export const CONCURRENCY = 16

const STORE = 'data/store.db'

/** Settings with a destination for each name, and its endpoints. */
export function settingsFor(
  destinations: Record<string, { url: string } | readonly { url: string }[]>,
) {
  return {
    listen: '127.0.0.1:0',
    sources: [{ name: 'web', writeKey: WRITE_KEY }],
    destinations: Object.entries(destinations).map(([name, endpoints]) => ({
      name,
      sources: ['web'],
      sharedSecret: SECRET,
      webhooks: [endpoints].flat().map(({ url }) => ({ url, concurrency: CONCURRENCY })),
    })),
    store: `sqlite:./${STORE}`,
    allowNetworks: ['127.0.0.0/8'],
  }
}

export function writeSettings(folder: string, settings: unknown): void {
  writeFileSync(join(folder, 'hookline.config.json'), JSON.stringify(settings))
}

/** A service that listens. At the end of the scope it is killed, if it is still there. */
export interface Service extends Running, AsyncDisposable {
  url: string
}

/** Starts a service by the settings in a folder. */
export async function serve(folder: string): Promise<Service> {
  const service = start(['serve'], { folder })
  const [, url = ''] = await service.printed(/"url":"([^"]+)".*"msg":"listening"/)
  const end = async () => {
    service.kill('SIGKILL')
    await service.ended
  }
  return { ...service, url, [Symbol.asyncDispose]: end }
}

/** Opens the store that a service has left. */
export function storeIn(folder: string): Promise<Store> {
  return openStore(`sqlite:${join(folder, STORE)}`)
}

/** Opens the file of a store as another program does. */
export async function openFile(folder: string): Promise<Database> {
  return (await loadDriver())(join(folder, STORE))
}
