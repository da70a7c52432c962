/** @module hookline/koa */

import type Koa from 'koa'
import type { WebhookEvent } from '../events.js'
import { nodeBody } from '../node-body.js'
import { receiver, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { ReceiverOptions, WebhookEvent }

/**
 * A Koa middleware (2 and 3) that gives the handler verified events and refuses everything else. It ends the
 * chain: mount it on a route of its own.
 *
 * It reads the body itself, and takes `ctx.request.rawBody` or the parsed `ctx.request.body` where a
 * parser was there first. A handler that sets no body and no status is answered 204; what it throws goes
 * to Koa. Answer within the destination's 5 seconds: leave long work to a queue.
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
  options: ReceiverOptions<[ctx: Koa.Context]>,
  handler: (event: WebhookEvent, ctx: Koa.Context) => unknown,
): Koa.Middleware {
  const receive = receiver(options, isSigned)

  return async (ctx: Koa.Context) => {
    const body = (maxBytes: number) => nodeBody(ctx.req, ctx.request, MEND, maxBytes)
    const verdict = await receive(ctx.req.headers['x-signature'], body, ctx)
    if ('refusal' in verdict) {
      ctx.status = verdict.refusal.status
      ctx.body = verdict.refusal.body
      return
    }
    await handler(verdict.event, ctx)
    if (ctx.body === undefined && ctx.status === 404) ctx.status = 204 // 404 is Koa's "nobody answered"
  }
}

const MEND =
  'Use this middleware before what reads the body, or a parser that keeps it: ' +
  'app.use(bodyParser()) of @koa/bodyparser.'
