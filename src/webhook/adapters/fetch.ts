/** @module hookline/fetch */

import type { WebhookEvent } from '../events.js'
import { readRequest } from '../read-body.js'
import { fail, receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { kindOf } from '../rule.js'
import { isSignedWeb } from '../web-signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/**
 * Creates a function that takes a Web `Request`, passes verified events to the handler, and refuses every
 * other request. Use it as a Next.js route handler, or as the `fetch` of Bun, Deno and Workers. It needs
 * WebCrypto and no modules of Node.
 *
 * The handler and a `secret` function also get all arguments that the runtime passes after the request. If
 * the handler returns no response, the answer is 204. `return new Response(null, { status: 400 })` refuses a message
 * for good. Errors of the handler go to the runtime, without a status below 500. The destination waits 5 seconds
 * for the answer: put long work into a queue or the runtime's `waitUntil`.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
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
  const receive = receiver(options, handler, isSignedWeb)

  async function handle(request: Request, ...rest: Rest): Promise<Response> {
    const body = (maxBytes: number) => readRequest(request, maxBytes)
    const verdict = await receive(request.headers.get('x-signature'), body, request, ...rest)
    if ('refusal' in verdict) {
      return Response.json(verdict.refusal.body, { status: verdict.refusal.status })
    }
    const answer: unknown = await handler(verdict.event, request, ...rest)
    return kindOf(answer) === 'Response'
      ? (answer as Response)
      : new Response(null, { status: 204 })
  }

  return (request, ...rest) =>
    handle(request, ...rest).catch((error: unknown) =>
      fail(error, undefined, 'return new Response(null, { status: 400 })'),
    )
}
