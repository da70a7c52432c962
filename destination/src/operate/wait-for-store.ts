import { setTimeout as wait } from 'node:timers/promises'
import { createServer, type Server, type ServerLog } from '../http/server.js'
import { storeUnavailable } from '../http/refusal.js'
import { errorMessage } from '../observe/error-message.js'
import { addReadinessRoutes } from '../observe/readiness.js'
import type { Settings } from '../settings/settings.js'
import { StoreError } from '../store/store-error.js'

/** In ms: the wait before the next try. */
const RETRY_MS = 1_000

/** In ms: how often the log says that the process still waits. */
const REPORT_MS = 60_000

/** The log of a process that waits. */
export interface WaitLog extends ServerLog {
  info(details: object, message: string): void
}

/**
 * Does what needs the store at the start. While its server can't be reached, takes no writes, is full, too slow, or has its tables
 * locked, this waits and tries again, so that processes may start in any order. Until then `/healthz` answers 200, `/readyz` 503 with
 * the reason, and every other request 503.
 *
 * @param work - Rejects with a StoreError if the store fails, and leaves nothing then. It does not listen on the addresses.
 * @param signal - Ends the waiting.
 * @throws the reason of `signal` if that aborts the waiting. StoreError if waiting can't help. The error of the operating
 * system if it can't listen on the addresses of the settings.
 */
export async function waitForStore<T>(
  work: () => Promise<T>,
  settings: Pick<Settings, 'listen' | 'adminListen'>,
  log: WaitLog,
  signal?: AbortSignal,
): Promise<T> {
  const from = performance.now()
  const waitedMs = () => Math.round(performance.now() - from)
  let servers: Server[] = []
  let reportAt = 0
  try {
    for (;;) {
      try {
        const done = await work()
        if (servers.length > 0) log.info({ waitedMs: waitedMs() }, 'the store can be used')
        return done
      } catch (error) {
        if (!(error instanceof StoreError && (error.isUnreachable || error.mayPass))) throw error
        if (performance.now() >= reportAt) {
          reportAt = performance.now() + REPORT_MS
          const details = { error: errorMessage(error), waitedMs: waitedMs(), retryMs: RETRY_MS }
          const what = error.isUnreachable ? 'reached' : 'used now'
          log.warn(details, `waiting for the store, which cannot be ${what}`)
        }
        if (servers.length === 0) servers = await listen(settings, log, waitedMs)
        await wait(RETRY_MS, undefined, { signal })
      }
    }
  } finally {
    await closeAll(servers)
  }
}

async function listen(
  { listen, adminListen }: Pick<Settings, 'listen' | 'adminListen'>,
  log: ServerLog,
  waitedMs: () => number,
): Promise<Server[]> {
  const servers: Server[] = []
  try {
    for (const { host, port } of adminListen ? [adminListen, listen] : [listen]) {
      const server = createWaitingServer(log, waitedMs)
      servers.push(server)
      await server.listen(host, port)
    }
    return servers
  } catch (error) {
    await closeAll(servers)
    throw error
  }
}

function createWaitingServer(log: ServerLog, waitedMs: () => number): Server {
  const server = createServer(log, '')
  const message = () =>
    `The store could not be used for ${Math.round(waitedMs() / 1_000)} s since the start. The log has the error.`
  addReadinessRoutes(server.app, {
    reasons: () => Promise.resolve([{ code: 'store_unavailable', message: message() }]),
  })
  server.app.all('/*', { onRequest: () => refuse() }, refuse)
  return server
}

function refuse(): Promise<never> {
  return Promise.reject(storeUnavailable('The destination has not started: it waits for its store'))
}

async function closeAll(servers: readonly Server[]): Promise<void> {
  await Promise.all(servers.map((server) => server.close()))
}
