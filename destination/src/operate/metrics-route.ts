import type { FastifyInstance } from 'fastify'
import type { Access } from './access.js'
import { guard } from './guard.js'

/** What the route needs. */
export interface MetricsRouteParts extends Access {
  metrics: { readonly contentType: string; text(): Promise<string> }
}

/** Adds `/metrics`. */
export function addMetricsRoute(app: FastifyInstance, parts: MetricsRouteParts): void {
  const { metrics } = parts
  void app.register((routes, _options, done) => {
    guard(routes, parts)
    routes.get('/metrics', async (_request, reply) =>
      reply.header('content-type', metrics.contentType).send(await metrics.text()),
    )
    done()
  })
}
