import type { FastifyInstance } from 'fastify'
import { Refusal } from '../http/refusal.js'
import type { Feed } from '../observe/feed.js'

/** Adds the route that streams calls and attempts as Server-Sent Events. */
export function addStreamRoute(routes: FastifyInstance, feed: Feed): void {
  routes.get('/stream', { exposeHeadRoute: false }, (_request, reply) => {
    if (!feed.hasRoom) {
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
    feed.add(reply.raw)
  })
  routes.addHook('preClose', (closed) => {
    feed.close()
    closed()
  })
}
