import { bodyOf } from './body.js'
import type { Call } from './call.js'
import type { Accept } from './collector/call-routes.js'
import type { Dispatcher, Placement } from './dispatcher/dispatcher.js'
import type { Route } from './route.js'
import type { NewDelivery, Store } from './store/store.js'

/** What accepting works with. */
export interface AcceptParts {
  store: Pick<Store, 'put'>
  dispatcher: Pick<Dispatcher, 'place' | 'placed' | 'notPlaced'>
  /** Where a call goes, by the settings of the moment. */
  route: (source: string, call: Call) => Route
}

/**
 * Makes what takes calls over from a source: once it resolves, each call is durable for each of its destinations, and on
 * its way. What the source has sent before is not forwarded again.
 */
export function createAccept({ store, dispatcher, route }: AcceptParts): Accept {
  return async (source, calls) => {
    const deliveries: NewDelivery[] = []
    const placements: (Placement | undefined)[] = []
    for (const call of calls) {
      const { to, reason } = route(source, call)
      const body = to.length > 0 ? bodyOf(call) : ''
      const { type, messageId } = call
      const user = call.userId ?? call.anonymousId ?? ''
      for (const { name: destination } of to) {
        const placement = dispatcher.place(destination)
        const { state } = placement
        placements.push(placement)
        deliveries.push({ messageId, source, destination, type, user, body, state })
      }
      if (reason !== undefined) {
        const state = 'skipped'
        placements.push(undefined)
        deliveries.push({ messageId, source, destination: '', type, user, body, state, reason })
      }
    }

    let ids: Awaited<ReturnType<Store['put']>> = []
    try {
      ids = await store.put(deliveries)
    } finally {
      for (const [i, placement] of placements.entries()) {
        const id = ids[i]
        const delivery = deliveries[i]
        if (!placement || !delivery) continue
        if (id === undefined) dispatcher.notPlaced(placement)
        else dispatcher.placed(placement, { ...delivery, ...FIRST_CLAIM, id })
      }
    }
  }
}

/** What a delivery that was put leased has beside what was put. */
const FIRST_CLAIM = { attempt: 1, lane: 'fresh', sinceFirstMs: 0, refusedBy: [] } as const
