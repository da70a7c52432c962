/** @module hookline/koa */

import type { Context, Middleware } from 'koa'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { fail, receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * Creates a Koa middleware (Koa 2 and 3) that passes verified events to the handler and refuses every other
 * request. It never calls the next middleware, so mount it on a route of its own.
 *
 * The middleware reads the body itself. If a parser has read it before, the middleware uses
 * `ctx.request.rawBody` or the parsed `ctx.request.body`. If the handler sets no body and no status, the
 * answer is 204. Errors of the handler go to Koa. The destination waits 5 seconds for the answer: put long
 * work into a queue.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
 *
 * @example
 * ```ts
 * import Koa from 'koa'
 * import { webhook } from 'hookline/koa'
 *
 * const app = new Koa()
 * app.use(webhook({ secret: process.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * }))
 * ```
 */
export function webhook(
  options: ReceiverOptions<[ctx: Context]>,
  handler: (event: WebhookEvent, ctx: Context) => unknown,
): Middleware {
  const receive = receiver(options, handler, isSigned)

  async function handle(ctx: Context): Promise<void> {
    ctx.res.statusCode = 204 // Koa begins with 404; a status that the handler sets replaces either
    const body = (maxBytes: number) =>
      nodeBody(ctx.req, ctx.request, HOW_TO_KEEP_THE_BODY, maxBytes)
    const verdict = await receive(ctx.req.headers['x-signature'], body, ctx)
    if ('refusal' in verdict) {
      ctx.status = verdict.refusal.status
      ctx.body = verdict.refusal.body
      return
    }
    await handler(verdict.event, ctx)
  }

  return (ctx: Context) =>
    handle(ctx).catch((error: unknown) => {
      // A status of the response itself would be 200 again as soon as a middleware that takes the error sets a body.
      if (ctx.status < 400) ctx.status = 500
      fail(error, undefined, 'ctx.status = 400', ['ENOENT'])
    })
}

const HOW_TO_KEEP_THE_BODY =
  'Use this middleware before the one that reads the body, or use a parser that keeps the body: ' +
  'app.use(bodyParser()) of @koa/bodyparser.'
