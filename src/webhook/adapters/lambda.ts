/** @module hookline/lambda */

import type { WebhookEvent } from '../events.js'
import { decompress } from '../read-body.js'
import { receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/** What is read of the event that API Gateway (v1 and v2), a function URL or a load balancer passes. */
export interface LambdaRequest {
  /** One value a header. */
  headers?: Record<string, string | undefined> | null | undefined
  /** All values of a header; API Gateway v1 has the last one only in `headers`. */
  multiValueHeaders?: Record<string, string[] | undefined> | null | undefined
  /** The body; an object where a middleware has parsed it. */
  body?: unknown
  /** Whether the body is in Base64. */
  isBase64Encoded?: boolean | undefined
}

/** What they all take as an answer. */
export interface LambdaResponse {
  /** HTTP status. */
  statusCode: number
  /** HTTP headers. */
  headers?: Record<string, string>
  /** The body. */
  body: string
  /** Whether the body is in Base64. */
  isBase64Encoded?: boolean
}

/**
 * A Lambda handler for API Gateway (REST and HTTP APIs) and function URLs that gives yours verified events
 * and refuses everything else.
 *
 * A handler that returns no response is answered 204; what it throws fails the invocation, which the
 * gateway answers 5xx and the destination sends again. Answer within the destination's 5 seconds, a cold
 * start included: leave long work to a queue.
 *
 * @example
 * ```ts
 * import { webhook } from 'hookline/lambda'
 *
 * export const handler = webhook({ secret: process.env.WEBHOOK_SECRET }, async (event) => {
 *   if (event.type === 'track') await save(event.event, event.properties)
 * })
 * ```
 */
export function webhook<Req extends LambdaRequest = LambdaRequest, Context = unknown>(
  options: ReceiverOptions<[request: Req, context: Context]>,
  handler: (event: WebhookEvent, request: Req, context: Context) => Answer<LambdaResponse>,
): (request: Req, context: Context) => Promise<LambdaResponse> {
  const receive = receiver(options, isSigned)

  return async (request, context) => {
    const body = (maxBytes: number) => bodyOf(request, maxBytes)
    const verdict = await receive(headerOf(request, 'x-signature'), body, request, context)
    if ('refusal' in verdict) {
      const headers = { 'content-type': 'application/json' }
      const { status, body } = verdict.refusal
      return { statusCode: status, headers, body: JSON.stringify(body) }
    }
    return (await handler(verdict.event, request, context)) ?? { statusCode: 204, body: '' }
  }
}

async function bodyOf(request: LambdaRequest, maxBytes: number): Promise<unknown> {
  const { body, isBase64Encoded } = request
  if (typeof body !== 'string' || isBase64Encoded !== true) return body ?? ''
  const encoding = [headerOf(request, 'content-encoding')].flat().join(', ')
  return decompress(Buffer.from(body, 'base64'), encoding, maxBytes)
}

/** A header, under whatever case it came: one value, or the list of them. */
function headerOf({ headers, multiValueHeaders }: LambdaRequest, name: string) {
  const all = Object.entries({ ...headers, ...multiValueHeaders })
  const values = all.filter(([key]) => key.toLowerCase() === name).map(([, value]) => value)
  const flat = values.flat()
  return flat.length > 1 ? flat : flat[0]
}
