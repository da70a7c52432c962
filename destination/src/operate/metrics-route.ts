import type { FastifyInstance } from 'fastify'
import { checkReader, type ReadAccess } from './access.js'

/** What the route needs. */
export interface MetricsRouteParts extends ReadAccess {
  metrics: { readonly contentType: string; text(): Promise<string> }
}

/** Adds `/metrics`. */
export function addMetricsRoute(app: FastifyInstance, parts: MetricsRouteParts): void {
  const { metrics } = parts
  app.get('/metrics', async (request, reply) => {
    checkReader(request.raw, parts)
    return reply.header('content-type', metrics.contentType).send(await metrics.text())
  })
}
