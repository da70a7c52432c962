/** @module hookline/fetch */

import type { WebhookEvent } from '../events.js'
import { readRequest } from '../read-body.js'
import { receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { isSignedWeb } from '../web-signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/**
 * A handler of Web requests that gives yours verified events and refuses everything else: a Next.js route
 * handler, or the `fetch` of Bun, Deno and Workers. It needs WebCrypto and none of Node's modules.
 *
 * What the runtime passes after the request goes on to the handler and to a `secret` function. A handler
 * that returns no response is answered 204; what it throws goes to the runtime. Answer within the
 * destination's 5 seconds: leave long work to a queue or to the runtime's `waitUntil`.
 *
 * @example
 * ```ts
 * import { webhook } from 'hookline/fetch'
 *
 * export const POST = webhook({ secret: () => process.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * })
 * ```
 */
export function webhook<Rest extends unknown[] = []>(
  options: ReceiverOptions<[request: Request, ...rest: Rest]>,
  handler: (event: WebhookEvent, request: Request, ...rest: Rest) => Answer<Response>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const receive = receiver(options, isSignedWeb)

  return async (request, ...rest) => {
    const body = (maxBytes: number) => readRequest(request, maxBytes)
    const verdict = await receive(request.headers.get('x-signature'), body, request, ...rest)
    if ('refusal' in verdict) {
      return Response.json(verdict.refusal.body, { status: verdict.refusal.status })
    }
    return (await handler(verdict.event, request, ...rest)) ?? new Response(null, { status: 204 })
  }
}
