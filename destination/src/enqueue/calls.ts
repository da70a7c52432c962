import { bodyOf } from './webhook-body.js'
import type { Call } from '../model/call.js'
import type { Forward } from './enqueue.js'
import type { Route } from './route.js'
import type { NewDelivery } from '../model/delivery.js'

/**
 * Takes the calls of a source, all of them or, if it rejects, none: resolves once they are durable.
 *
 * @param traceParent - The header of that name, whatever is in it.
 * @throws StoreError if the store is full, or can't write: the client is told to come again.
 */
export type Accept = (
  source: string,
  calls: Call[],
  traceParent: string | undefined,
) => Promise<void>

/**
 * Makes what takes calls over from a source: once it resolves, each call is durable for each of its destinations, and on
 * its way. What the source has sent before is not forwarded again.
 *
 * @param route - Where a call goes, by the settings of the moment.
 * @param traceParentOf - What is kept of the header `traceparent`.
 */
export function createAccept(
  forward: Forward,
  route: (source: string, call: Call) => Route,
  traceParentOf: (header: string | undefined) => string | undefined = () => undefined,
): Accept {
  return async (source, calls, header) => {
    const traceParent = traceParentOf(header)
    const deliveries: NewDelivery[] = []
    for (const call of calls) {
      const { to, reason } = route(source, call)
      const body = to.length > 0 ? bodyOf(call) : ''
      const { type, messageId } = call
      const user = call.userId ?? call.anonymousId ?? ''
      const event = call.event ?? call.name
      const common = { messageId, source, type, event, user, traceParent }
      for (const { name: destination } of to) {
        deliveries.push({ ...common, destination, body, state: 'fresh' })
      }
      if (reason !== undefined) {
        const state = 'skipped'
        deliveries.push({ ...common, destination: '', body, state, reason })
      }
    }
    await forward(deliveries)
  }
}
