/** @module hookline/fastify */

import type { FastifyPluginCallback, FastifyReply, FastifyRequest } from 'fastify'
import type { Readable } from 'node:stream'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { fail, receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * Creates a Fastify plugin (Fastify 5) with one POST route. The route passes verified events to the handler
 * and refuses every other request. Its path is the `prefix` that you register the plugin with.
 *
 * The route reads the body itself. If a hook has read it before, the route uses `request.rawBody`. The
 * plugin removes the body parsers for its own route only. The route sends the value that the handler
 * returns. If the handler returns nothing and has not called `reply.send`, the route answers 204. Errors of
 * the handler go to Fastify's error handler. The destination waits 5 seconds for the answer: put long work
 * into a queue.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
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
  const receive = receiver(options, handler, isSigned)

  async function handle(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    // The parser below passes the stream on as the body. A request without a body has none.
    const { raw, body: payload, rawBody } = request as FastifyRequest & { rawBody?: unknown }
    const body = (maxBytes: number) =>
      nodeBody(raw, { rawBody }, HOW_TO_KEEP_THE_BODY, maxBytes, payload as Readable | undefined)
    const verdict = await receive(request.headers['x-signature'], body, request, reply)
    if ('refusal' in verdict) {
      return reply.code(verdict.refusal.status).send(verdict.refusal.body)
    }
    const isSent = watchSend(reply)
    const answer = await handler(verdict.event, request, reply)
    if (reply.sent || isSent()) return reply
    return answer ?? reply.code(reply.statusCode === 200 ? 204 : reply.statusCode).send()
  }

  return (instance, _options, done) => {
    instance.removeAllContentTypeParsers()
    instance.addContentTypeParser('*', (_request, payload, parsed) => {
      parsed(null, payload)
    })
    instance.post('/', (request, reply) =>
      handle(request, reply).catch((error: unknown) =>
        fail(error, reply.raw, 'reply.code(400).send()'),
      ),
    )
    done()
  }
}

/** Notices that the handler has called `reply.send`. While a stream or a hook goes on, `reply.sent` is false. */
function watchSend(reply: FastifyReply): () => boolean {
  const send = reply.send.bind(reply)
  let isSent = false
  reply.send = (...args) => {
    isSent = true
    return send(...args)
  }
  return () => isSent
}

const HOW_TO_KEEP_THE_BODY =
  'A hook read it. Let the hook keep the bytes in request.rawBody, or return a new stream from preParsing.'
