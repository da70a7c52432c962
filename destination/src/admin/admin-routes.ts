import type { FastifyInstance } from 'fastify'
import { checkToken, isLocal } from './access.js'

/** What the admin routes work with. */
export interface AdminParts {
  /** By the settings of the moment. */
  adminToken: () => string | undefined
  metrics: { readonly contentType: string; text(): Promise<string> }
}

/** Adds the routes for whoever runs the destination. */
export function addAdminRoutes(app: FastifyInstance, { adminToken, metrics }: AdminParts): void {
  app.get('/metrics', async (request, reply) => {
    // Names and numbers: who is on this machine may read them.
    if (!isLocal(request.raw)) checkToken(request.raw, adminToken())
    return reply.header('content-type', metrics.contentType).send(await metrics.text())
  })
}
