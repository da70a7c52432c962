/** @module hookline/lambda */

import type { WebhookEvent } from '../events.js'
import { decompress } from '../read-body.js'
import { fail, receiver, type Answer, type ReceiverOptions } from '../receive.js'
import { isSigned } from '../signature.js'

export type { Answer, ReceiverOptions, WebhookEvent }

/** The fields that are read from the event of API Gateway (v1 and v2), a function URL or a load balancer. */
export interface LambdaRequest {
  /** One value for each header. */
  headers?: Record<string, string | undefined> | null | undefined
  /** All values of each header. In `headers`, API Gateway v1 gives only the last value. */
  multiValueHeaders?: Record<string, string[] | undefined> | null | undefined
  /** The body. It is an object if a middleware has parsed it. */
  body?: unknown
  /** Whether the body is in Base64. */
  isBase64Encoded?: boolean | undefined
}

/** An answer that API Gateway, function URLs and load balancers accept. */
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
 * Creates a Lambda handler for API Gateway (REST and HTTP APIs) and function URLs. It passes verified events
 * to your handler and refuses every other request.
 *
 * If your handler returns no object with a `statusCode`, the answer is 204. `return { statusCode: 400, body: '' }` refuses a message
 * for good. If your handler throws, the invocation fails, the gateway answers 5xx, and the destination sends the
 * request again. The error has no status below 500 then, unless it has `expose: true`. The destination waits 5
 * seconds for the answer, which includes a cold start: put long work into a queue.
 *
 * @throws TypeError that names the option, or the handler, if it is missing or not what it should be.
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
  const receive = receiver(options, handler, isSigned)

  async function handle(request: Req, context: Context): Promise<LambdaResponse> {
    const body = (maxBytes: number) => bodyOf(request, maxBytes)
    const verdict = await receive(headerOf(request, 'x-signature'), body, request, context)
    if ('refusal' in verdict) {
      const headers = { 'content-type': 'application/json' }
      const { status, body } = verdict.refusal
      return { statusCode: status, headers, body: JSON.stringify(body) }
    }
    const answer = await handler(verdict.event, request, context)
    // A status in a string is one for the gateways, too.
    return answer && answer.statusCode > 0 ? answer : { statusCode: 204, body: '' }
  }

  return (request, context) =>
    handle(request, context).catch((error: unknown) =>
      fail(error, undefined, "return { statusCode: 400, body: '' }"),
    )
}

async function bodyOf(request: LambdaRequest, maxBytes: number): Promise<unknown> {
  const { body, isBase64Encoded } = request
  if (typeof body !== 'string' || isBase64Encoded !== true) return body ?? ''
  const encoding = [headerOf(request, 'content-encoding')].flat().join(', ')
  return decompress(Buffer.from(body, 'base64'), encoding, maxBytes)
}

/**
 * A header's value, or a list if it has several. Gateways do not agree on the case of names. `headers` repeats what
 * `multiValueHeaders` has, perhaps in another case.
 */
function headerOf({ headers, multiValueHeaders }: LambdaRequest, name: string) {
  for (const all of [multiValueHeaders, headers]) {
    const entries = Object.entries<string | string[] | undefined>(all ?? {})
    const named = entries.filter(([key]) => key.toLowerCase() === name)
    const values = named.flatMap(([, value]) => value ?? [])
    if (values.length > 0) return values.length > 1 ? values : values[0]
  }
  return undefined
}
