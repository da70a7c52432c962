import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../http/refusal.js'
import { endWithClient } from '../http/server.js'
import type { Feed, Viewpoint } from '../observe/feed.js'

/** Adds the route that streams calls and attempts as Server-Sent Events. */
export function addStreamRoute(
  routes: FastifyInstance,
  feed: Feed,
  viewpointOf: (request: FastifyRequest) => Viewpoint,
): void {
  routes.get('/stream', { exposeHeadRoute: false }, (request, reply) => {
    const viewpoint = viewpointOf(request)
    if (!feed.hasRoom(viewpoint.group)) {
      const message =
        'The stream has its maximum number of listeners. Close another page, or try again later.'
      throw new Refusal(503, 'too_many_listeners', message, { 'Retry-After': '5' })
    }
    reply.hijack()
    reply.raw.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no', // without this header, nginx buffers events and delays them
    })
    endWithClient(reply.raw, feed.add(reply.raw, viewpoint))
  })
  routes.addHook('preClose', (closed) => {
    feed.close()
    closed()
  })
}
