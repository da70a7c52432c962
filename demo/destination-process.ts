import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { StoredDelivery } from './compare.js'

const COMMAND = new URL('../destination/bin/hookline-destination.js', import.meta.url)

/** The function with which the destination opens its store, from the build, like the destination itself. */
const { openStore } = (await import(
  new URL('../destination/dist/store/open.js', import.meta.url).href
)) as typeof import('../destination/src/store/open.js')

export interface DestinationProcess {
  readonly url: string
  /** Starts it again. */
  readonly start: () => Promise<void>
  /** Ends it with a signal. Resolves to its exit code, or to null if the signal killed it. */
  readonly end: (signal: 'SIGTERM' | 'SIGKILL') => Promise<number | null>
  /** Reads these messages from its store. The destination must have ended, because only one process can use a store. */
  readonly read: (messageIds: Iterable<string>) => Promise<StoredDelivery[]>
}

/**
 * Starts the destination in its own process, as `npx hookline-destination serve` does. If the process ends early, the
 * demo ends with an error that contains the last lines of its log.
 *
 * @param folder - where its settings, store and log are written
 * @param settings - all settings except `listen` and `store`
 */
export async function startDestination(
  folder: string,
  settings: object,
): Promise<DestinationProcess> {
  const port = await findFreePort()
  const config = join(folder, 'hookline.config.json')
  const logFile = join(folder, 'destination.log')
  const store = `sqlite:${join(folder, 'hookline.db')}`
  const listen = `127.0.0.1:${port}`
  writeFileSync(config, JSON.stringify({ listen, store, ...settings }, null, 2))

  let child: ChildProcess
  const endedEarly = (code: number | null) => {
    const said = readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-10).join('\n')
    throw new Error(`The destination ended early, with the exit code ${code}:\n${said}`)
  }
  const start = async () => {
    const log = openSync(logFile, 'a')
    child = spawn(process.execPath, [fileURLToPath(COMMAND), 'serve', '--config', config], {
      stdio: ['ignore', log, log],
    })
    child.on('exit', endedEarly)
    while (!(await isReady(`http://${listen}`))) await setTimeout(20)
  }
  // The destination must not outlive the demo, however that ends.
  process.on('exit', () => child.kill('SIGKILL'))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
  await start()
  return {
    url: `http://${listen}`,
    start,
    end: async (signal) => {
      child.off('exit', endedEarly)
      child.kill(signal)
      const [code] = (await once(child, 'exit')) as [number | null]
      return code
    },
    read: async (messageIds) => {
      const opened = await openStore(store)
      const traces = await Promise.all(Array.from(messageIds, (id) => opened.trace(id)))
      await opened.close()
      return traces.flat()
    },
  }
}

/** Whether it listens. Any answer proves that, also an error. */
function isReady(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  )
}

/** Finds a port once, so that the destination keeps it when it is started again, as in production. */
async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
