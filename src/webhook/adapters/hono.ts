/** @module hookline/hono */

import type { Context, Env } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { WebhookEvent } from '../events.js'
import { bodyConsumed } from '../parse.js'
import { decompress, readRequest } from '../read-body.js'
import { fail, receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { kindOf } from '../rule.js'
import { isSignedWeb } from '../web-signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/**
 * Creates a Hono handler (Hono 4, on every runtime) that passes verified events to your handler and refuses
 * every other request. Its type parameter is that of your `Hono` application.
 *
 * It reads the body itself. If `c.req.json()` or a similar method has read the body before, it uses the
 * copy that Hono keeps. If your handler returns no response, the answer is empty: 204, or the status of
 * `c.status()`. `c.status(400)` refuses a message for good. Errors of your handler go to `app.onError`, without a
 * status below 500 unless it is an `HTTPException`. The destination waits 5 seconds for the answer: put long work
 * into a queue or `c.executionCtx.waitUntil`.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
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
  const receive = receiver(options, handler, isSignedWeb)

  async function handle(c: Context<E>): Promise<Response> {
    const body = (maxBytes: number) => bodyOf(c, maxBytes)
    const verdict = await receive(c.req.header('x-signature'), body, c)
    if ('refusal' in verdict) {
      const { status, body } = verdict.refusal
      return c.json(body, status as ContentfulStatusCode) // no refusal has a status without a body
    }
    const answer: unknown = await handler(verdict.event, c)
    if (kindOf(answer) === 'Response') return answer as Response
    const empty = c.body(null) // with the status that the handler has set, or else 200
    return empty.status === 200 ? c.body(null, 204) : empty
  }

  return (c) =>
    handle(c).catch((error: unknown) => {
      c.status(500) // for an app.onError that sets no status
      fail(error, undefined, 'c.status(400)')
    })
}

async function bodyOf<E extends Env>({ req }: Context<E>, maxBytes: number): Promise<Uint8Array> {
  // The cache of Hono may have something else than a body: c.req.parseBody() leaves it there without reading.
  if (!req.raw.bodyUsed) return readRequest(req.raw, maxBytes)
  let bytes
  try {
    bytes = new Uint8Array(await req.arrayBuffer())
  } catch {
    throw bodyConsumed('an error while reading it', `${ADVICE}.`)
  }
  const plain = await decompress(bytes, req.header('content-encoding'), maxBytes)
  // The first byte of gzip alone: the second one was no character when other code read the body as text.
  if (plain[0] !== 0x1f) return plain
  throw bodyConsumed('gzip that was read as text', `${ADVICE}, or decompress it before.`)
}

const ADVICE = 'Let the other code read it with c.req.arrayBuffer()'
