import type { FastifyInstance } from 'fastify'
import { checkToken, isLocal } from './access.js'

/** What the route needs. */
export interface MetricsRouteParts {
  metrics: { readonly contentType: string; text(): Promise<string> }
  /** The token from the current settings. */
  adminToken: () => string | undefined
}

/** Adds `/metrics`. The metrics contain no personal data, so requests from this machine need no admin token. */
export function addMetricsRoute(app: FastifyInstance, parts: MetricsRouteParts): void {
  const { metrics, adminToken } = parts
  app.get('/metrics', async (request, reply) => {
    if (!isLocal(request.raw)) checkToken(request.raw, adminToken())
    return reply.header('content-type', metrics.contentType).send(await metrics.text())
  })
}
