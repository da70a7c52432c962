import type { Dispatcher, Placement } from '../deliver/dispatcher.js'
import type { DeliveryContent, NewDelivery } from '../model/delivery.js'
import type { WritePort } from '../store/store.js'

/** What happens while deliveries are enqueued. */
export interface EnqueueEvents {
  /** The store has a message for that destination already, so that it is not forwarded again. */
  duplicated(source: string, destination: string): void
  /** The store took so long to make deliveries durable, in ms. */
  committed(ms: number): void
  /** The store could not take deliveries. */
  storeRefused(error: unknown): void
}

/** What enqueuing works with. */
export interface EnqueueParts {
  store: WritePort
  dispatcher: Pick<Dispatcher, 'place' | 'placed' | 'notPlaced'>
  events: EnqueueEvents
  /** A monotonic clock, in ms. */
  now: () => number
}

/** A delivery that is to be enqueued. */
export interface Enqueued extends DeliveryContent {
  /** Why it is not sent, but only stored for the log. Left out if it is sent. */
  skipReason?: string
}

/**
 * Makes deliveries durable, and hands them to the dispatcher, which says where each starts.
 *
 * @returns for each whether it is new; the store has the others for that destination already.
 * @throws StoreError if they could not be stored; none of them is stored then.
 */
export type Enqueue = (deliveries: Enqueued[]) => Promise<boolean[]>

/** See {@link Enqueue}. */
export function createEnqueue({ store, dispatcher, events, now }: EnqueueParts): Enqueue {
  return async (deliveries) => {
    const placements = deliveries.map(({ destination, skipReason }) =>
      skipReason === undefined ? dispatcher.place(destination) : undefined,
    )
    const placed = deliveries.map((delivery, i) => toNew(delivery, placements[i]))
    const startedAt = now()
    let ids: Awaited<ReturnType<WritePort['put']>>
    try {
      ids = await store.put(placed)
    } catch (error) {
      events.storeRefused(error)
      for (const placement of placements) if (placement) dispatcher.notPlaced(placement)
      throw error
    }
    events.committed(now() - startedAt)
    for (const [i, delivery] of deliveries.entries()) {
      const placement = placements[i]
      const id = ids[i]
      if (id === undefined) events.duplicated(delivery.source, delivery.destination)
      if (!placement) continue
      if (id === undefined) dispatcher.notPlaced(placement)
      else dispatcher.placed(placement, { ...delivery, ...FIRST_CLAIM, id })
    }
    return ids.map((id) => id !== undefined)
  }
}

function toNew(
  { skipReason, ...content }: Enqueued,
  placement: Placement | undefined,
): NewDelivery {
  if (placement) return { ...content, state: placement.state }
  return { ...content, state: 'skipped', ...(skipReason !== undefined && { reason: skipReason }) }
}

/** What a delivery that was put as `leased` has beside what was put. */
const FIRST_CLAIM = {
  attempt: 1,
  attemptsBefore: 0,
  lane: 'fresh',
  sinceFirstMs: 0,
  refusedBy: [],
} as const
