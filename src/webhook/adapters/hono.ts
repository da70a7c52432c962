/** @module hookline/hono */

import type { Context, Env } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { WebhookEvent } from '../events.js'
import { bodyConsumed } from '../parse.js'
import { readRequest } from '../read-body.js'
import { receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { isSignedWeb } from '../web-signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/**
 * A Hono handler (4), for every runtime that Hono runs on, that gives yours verified events and refuses
 * everything else. `App` is the type that was given to `Hono`.
 *
 * It reads the body itself, and takes Hono's cached one where `c.req.json()` or the like was there first.
 * A handler that returns no response is answered 204; what it throws goes to `app.onError`. Answer within
 * the destination's 5 seconds: leave long work to a queue or to `c.executionCtx.waitUntil`.
 *
 * @example
 * ```ts
 * import { Hono } from 'hono'
 * import { webhook } from 'hookline/hono'
 *
 * type App = { Bindings: { WEBHOOK_SECRET: string } }
 * const app = new Hono<App>()
 * app.post('/webhook', webhook<App>({ secret: (c) => c.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * }))
 * ```
 */
export function webhook<E extends Env>(
  options: ReceiverOptions<[c: Context<E>]>,
  handler: (event: WebhookEvent, c: Context<E>) => Answer<Response>,
): (c: Context<E>) => Promise<Response> {
  const receive = receiver(options, isSignedWeb)

  return async (c) => {
    const body = (maxBytes: number) => bodyOf(c, maxBytes)
    const verdict = await receive(c.req.header('x-signature'), body, c)
    if ('refusal' in verdict) {
      const { status, body } = verdict.refusal
      return c.json(body, status as ContentfulStatusCode) // all of them have a body
    }
    return (await handler(verdict.event, c)) ?? c.body(null, 204)
  }
}

async function bodyOf<E extends Env>({ req }: Context<E>, maxBytes: number): Promise<Uint8Array> {
  if (Object.keys(req.bodyCache).length === 0) return readRequest(req.raw, maxBytes)
  try {
    return new Uint8Array(await req.arrayBuffer())
  } catch {
    throw bodyConsumed('what failed to be read', 'Read it with c.req, or not at all.')
  }
}
