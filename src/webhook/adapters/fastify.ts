/** @module hookline/fastify */

import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * A Fastify plugin (5) with one POST route that gives the handler verified events and refuses everything
 * else. The path is the `prefix` that it is registered with.
 *
 * Inside the plugin no body is parsed: the route reads it itself, and takes `request.rawBody` where a hook
 * was there first; the parsers of other routes stay as they are. What the handler returns is sent, and a
 * handler that returns and sends nothing is answered 204; what it throws goes to Fastify's error handler.
 * Answer within the destination's 5 seconds: leave long work to a queue.
 *
 * @example
 * ```ts
 * import Fastify from 'fastify'
 * import { webhook } from 'hookline/fastify'
 *
 * const app = Fastify()
 * const hook = webhook({ secret: process.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * })
 * await app.register(hook, { prefix: '/webhook' })
 * ```
 */
export function webhook(
  options: ReceiverOptions<[request: FastifyRequest, reply: FastifyReply]>,
  handler: (event: WebhookEvent, request: FastifyRequest, reply: FastifyReply) => unknown,
): FastifyPluginCallback {
  const receive = receiver(options, isSigned)

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // Our parser passes the payload on, which is there if the request has a body.
    const { raw, body: payload, rawBody } = request as FastifyRequest & { rawBody?: unknown }
    const body = (maxBytes: number) =>
      nodeBody(raw, { rawBody }, MEND, maxBytes, payload as Readable | undefined)
    const verdict = await receive(request.headers['x-signature'], body, request, reply)
    if ('refusal' in verdict) {
      return reply.code(verdict.refusal.status).send(verdict.refusal.body)
    }
    const answer = await handler(verdict.event, request, reply)
    if (reply.sent || answer !== undefined) return answer ?? reply
    return reply.code(reply.statusCode === 200 ? 204 : reply.statusCode).send()
  }

  return (instance, _options, done) => {
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', (_request, payload, parsed) => {
      parsed(null, payload)
    })
    instance.post('/', handle)
    done()
  }
}

const MEND =
  'A hook read it: have the hook keep the bytes in request.rawBody, or return a new stream from preParsing.'
