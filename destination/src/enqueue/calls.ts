import type { Call } from '../model/call.js'
import type { Enqueue, Enqueued, Verdict } from './enqueue.js'
import { hasFilters, type Route } from './route.js'
import { webhookBody } from './webhook-body.js'

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  traceparent?: string | undefined
  tracestate?: string | undefined
}

/**
 * Accepts all calls of a request or none. When it resolves, each call is durable for each of its destinations. Calls that the source has sent before are not forwarded again.
 *
 * @param headers - The headers of the request, with those of its trace as the client sent them.
 * @param isBulk - Whether the calls are bulk work, which does not delay other messages.
 * @throws StoreError if the store is full or cannot write. If the connection was lost during the commit, all calls may be durable.
 */
export type EnqueueCalls = (
  source: string,
  calls: Call[],
  headers: TraceHeaders,
  isBulk: boolean,
) => Promise<void>

/**
 * Creates {@link EnqueueCalls}.
 *
 * @param route - Decides by the current settings which destinations get a call.
 * @param traceOf - Reads the headers of the trace; by default they are dropped.
 */
export function createEnqueueCalls(
  enqueue: Enqueue,
  route: (source: string, call: Call) => Route,
  traceOf: (headers: TraceHeaders) => string | undefined = () => undefined,
): EnqueueCalls {
  return async (source, calls, headers, isBulk) => {
    const traceParent = traceOf(headers)
    const deliveries: Enqueued[] = []
    for (const call of calls) {
      const content = { call, source, traceParent, isBulk }
      addDeliveries(content, route(source, call), deliveries)
    }
    await enqueue(deliveries)
  }
}

/** What the deliveries of a call have in common. */
interface Content {
  call: Call
  source: string
  traceParent: string | undefined
  isBulk: boolean
}

/**
 * Adds a delivery for each destination of a call. A destination whose filters stop the call, and a call without a
 * destination, get one that is only logged.
 */
function addDeliveries(content: Content, route: Route, deliveries: Enqueued[]): void {
  const { to, stopped, reason } = route
  if (reason !== undefined) {
    deliveries.push(deliveryOf(content, '', '', reason, undefined))
    return
  }
  const body = to.length === 0 ? '' : webhookBody(content.call)
  for (const destination of to) {
    const verdict = hasFilters(destination) ? { destination } : undefined
    deliveries.push(deliveryOf(content, destination.name, body, undefined, verdict))
  }
  for (const verdict of stopped ?? []) {
    const { name } = verdict.destination
    deliveries.push(deliveryOf(content, name, '', verdict.reason, verdict))
  }
}

/** Lists the fields, because each message passes here: a spread takes ten times as long. */
function deliveryOf(
  { call, source, traceParent, isBulk }: Content,
  destination: string,
  body: string,
  skipReason: string | undefined,
  verdict: Verdict | undefined,
): Enqueued {
  return {
    messageId: call.messageId,
    source,
    destination,
    type: call.type,
    user: call.userId ?? call.anonymousId ?? '',
    event: call.event ?? call.name,
    traceParent,
    body,
    isBulk,
    skipReason,
    verdict,
  }
}
