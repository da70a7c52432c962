import type { Call } from '../model/call.js'
import type { Enqueue, Enqueued } from './enqueue.js'
import type { Route } from './route.js'
import { webhookBody } from './webhook-body.js'

/**
 * Takes over the calls of a source, all of them or, if it rejects, none. Once it resolves, each call is durable for each
 * of its destinations. Calls that the source has sent before are not forwarded again.
 *
 * @param traceParent - The header of that name, as it came.
 * @throws StoreError if the store is full, or can't write.
 */
export type EnqueueCalls = (
  source: string,
  calls: Call[],
  traceParent: string | undefined,
) => Promise<void>

/**
 * Makes {@link EnqueueCalls}.
 *
 * @param route - Where a call goes, by the present settings.
 * @param traceParentOf - What is kept of the header `traceparent`.
 */
export function createEnqueueCalls(
  enqueue: Enqueue,
  route: (source: string, call: Call) => Route,
  traceParentOf: (header: string | undefined) => string | undefined = () => undefined,
): EnqueueCalls {
  return async (source, calls, header) => {
    const traceParent = traceParentOf(header)
    await enqueue(
      calls.flatMap((call) => deliveriesOf(call, route(source, call), source, traceParent)),
    )
  }
}

/** A delivery for each destination of a call, or one for the log alone if the call has no destination. */
function deliveriesOf(
  call: Call,
  { to, reason }: Route,
  source: string,
  traceParent: string | undefined,
): Enqueued[] {
  const { type, messageId } = call
  const user = call.userId ?? call.anonymousId ?? ''
  const event = call.event ?? call.name
  const common = { messageId, source, type, event, user, traceParent }
  if (reason !== undefined) return [{ ...common, destination: '', body: '', skipReason: reason }]
  const body = webhookBody(call)
  return to.map(({ name: destination }) => ({ ...common, destination, body }))
}
