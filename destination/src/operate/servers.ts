import { createServer, type Server, type ServerLog } from '../http/server.js'
import { MAX_STREAMS } from '../observe/feed.js'
import { addReadinessRoutes, type Readiness } from '../observe/readiness.js'
import type { Settings } from '../settings/settings.js'
import { isClosed, isKeptLocal } from './access.js'
import { addAdmin, type AdminParts } from './admin.js'

/** The servers of a destination: the collector's, and the operator's if the settings have `adminListen`. */
export interface Servers {
  /** @throws the error of the operating system if it can't listen on an address. */
  listen(): Promise<{ url: string; adminUrl: string }>
  /** Stops accepting connections, and resolves when all current requests have ended. */
  close(): Promise<void>
}

const ADMIN_HINT =
  'This is the address for the operator (adminListen). Send calls to the address of the collector (listen).'

/**
 * The operator's browsers and scrapers are few. The streams are counted apart from them, since those of tenants could take all
 * connections otherwise. All of these come out of the half of the files that is not the collector's.
 */
const LIMITS = { maxConnections: MAX_STREAMS + 64 }

const CLOSED =
  'the page, /metrics and the admin API are closed: set adminToken, or set adminListen to a loopback address'

/** Adds the routes for load balancers to all servers, and the operator's routes to the server that the settings choose. */
export function createServers(
  settings: Settings,
  collector: Server,
  readiness: Readiness,
  parts: Omit<AdminParts, 'isKeptLocal' | 'adminUrl' | 'readiness'> & { log: ServerLog },
): Servers {
  const { listen, adminListen } = settings
  const admin = adminListen ? createServer(parts.log, ADMIN_HINT, LIMITS) : collector
  const servers = new Set([admin, collector])
  for (const { app } of servers) addReadinessRoutes(app, readiness)
  let adminUrl = ''
  addAdmin(admin.app, {
    ...parts,
    readiness,
    isKeptLocal: isKeptLocal(settings),
    adminUrl: () => adminUrl,
  })
  return {
    listen: async () => {
      if (adminListen) adminUrl = await admin.listen(adminListen.host, adminListen.port)
      const url = await collector.listen(listen.host, listen.port)
      if (!adminListen) adminUrl = url
      if (isClosed(settings)) parts.log.warn({}, CLOSED)
      return { url, adminUrl }
    },
    close: async () => {
      await Promise.all(Array.from(servers, (server) => server.close()))
    },
  }
}
