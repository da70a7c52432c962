import type { FastifyInstance } from 'fastify'
import { checkToken, isLocal } from './access.js'

/** What the route works with. */
export interface MetricsRouteParts {
  metrics: { readonly contentType: string; text(): Promise<string> }
  /** Of the present settings. */
  adminToken: () => string | undefined
}

/** Adds `/metrics`. They have names and numbers only, so that a request from this machine needs no admin token. */
export function addMetricsRoute(app: FastifyInstance, parts: MetricsRouteParts): void {
  const { metrics, adminToken } = parts
  app.get('/metrics', async (request, reply) => {
    if (!isLocal(request.raw)) checkToken(request.raw, adminToken())
    return reply.header('content-type', metrics.contentType).send(await metrics.text())
  })
}
