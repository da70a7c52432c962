import { createServer, type Server, type ServerLog } from '../http/server.js'
import { addReadinessRoutes, type Readiness } from '../observe/readiness.js'
import type { Settings } from '../settings/settings.js'
import { isLoopback } from './access.js'
import { addAdmin, type AdminParts } from './admin.js'

/** The addresses at which a destination listens: the collector's, and the operator's if the settings have one. */
export interface Servers {
  /** @throws the system's error if an address can't be listened on. */
  listen(): Promise<{ url: string; adminUrl: string }>
  /** Takes no more connections, and finishes the requests that are under way. */
  close(): Promise<void>
}

const ADMIN_HINT = 'This is the address of whoever runs the destination: calls go to the other one.'

/** Adds the routes for load balancers to all addresses, and the operator's routes to the one that the settings say. */
export function createServers(
  { listen, adminListen }: Settings,
  collector: Server,
  readiness: Readiness,
  parts: Omit<AdminParts, 'isKeptLocal'> & { log: ServerLog },
): Servers {
  const admin = adminListen ? createServer(parts.log, ADMIN_HINT) : collector
  const servers = new Set([admin, collector])
  for (const { app } of servers) addReadinessRoutes(app, readiness)
  const isKeptLocal = adminListen !== undefined && isLoopback(adminListen.host)
  addAdmin(admin.app, { ...parts, isKeptLocal })
  return {
    listen: async () => {
      const adminUrl = adminListen && (await admin.listen(adminListen.host, adminListen.port))
      const url = await collector.listen(listen.host, listen.port)
      return { url, adminUrl: adminUrl ?? url }
    },
    close: async () => {
      await Promise.all(Array.from(servers, (server) => server.close()))
    },
  }
}
