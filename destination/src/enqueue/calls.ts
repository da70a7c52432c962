import type { Call } from '../model/call.js'
import type { Enqueue, Enqueued } from './enqueue.js'
import { hasFilters, type Route } from './route.js'
import { webhookBody } from './webhook-body.js'

/** The headers of W3C Trace Context. */
export interface TraceHeaders {
  traceparent?: string | undefined
  tracestate?: string | undefined
}

/**
 * Accepts all calls of a request or, if it rejects, none. When it resolves, each call is durable for each of its
 * destinations. Calls that the source has sent before are not forwarded again.
 *
 * @param headers - The headers of the request, with those of its trace as the client sent them.
 * @param isBulk - Whether the calls are bulk work, which does not delay other messages.
 * @throws StoreError if the store is full or cannot write.
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
    const shared = { source, traceParent, isBulk }
    await enqueue(calls.flatMap((call) => deliveriesOf(call, route(source, call), shared)))
  }
}

/** The body that the destinations of a call get; `undefined` if it has none. */
export function bodyFor(call: Call, { to }: Route): string | undefined {
  return to.length === 0 ? undefined : webhookBody(call)
}

/**
 * Makes a delivery for each destination of a call. A destination whose filters stop the call, and a call without a
 * destination, get one that is only logged.
 */
function deliveriesOf(
  call: Call,
  { to, stopped, reason }: Route,
  shared: Pick<Enqueued, 'source' | 'traceParent' | 'isBulk'>,
): Enqueued[] {
  const { type, messageId } = call
  const user = call.userId ?? call.anonymousId ?? ''
  const event = call.event ?? call.name
  const common = { ...shared, messageId, type, event, user }
  if (reason !== undefined) return [{ ...common, destination: '', body: '', skipReason: reason }]
  const body = to.length === 0 ? '' : webhookBody(call)
  const sent = to.map((destination): Enqueued => {
    const delivery = { ...common, destination: destination.name, body }
    return hasFilters(destination) ? { ...delivery, verdict: { destination } } : delivery
  })
  if (!stopped) return sent
  const logged = stopped.map((verdict): Enqueued => {
    const { name: destination } = verdict.destination
    return { ...common, destination, body: '', skipReason: verdict.reason, verdict }
  })
  return [...sent, ...logged]
}
