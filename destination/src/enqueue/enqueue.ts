import type { Dispatcher, Placement } from '../deliver/dispatcher.js'
import type { NewDelivery } from '../model/delivery.js'
import type { Store } from '../store/store.js'

/** What forwarding works with. */
export interface ForwardParts {
  store: Pick<Store, 'put'>
  dispatcher: Pick<Dispatcher, 'place' | 'placed' | 'notPlaced'>
  counts: ForwardCounts
  /** The store could not take messages. */
  refused: () => void
  /** A monotonic clock, in ms. */
  now: () => number
}

/** What forwarding tells of, in numbers. */
export interface ForwardCounts {
  /** A message came again, and is not forwarded again. */
  duplicated(source: string, destination: string): void
  /** The store took so long to make messages durable, in ms. */
  committed(ms: number): void
}

/**
 * Makes messages durable, and sends them on their way. Where each starts, the dispatcher says; what is `skipped` stays
 * so.
 *
 * @returns for each whether it is new: the store has the others for that destination already.
 * @throws StoreError if they could not be stored; none of them is then.
 */
export type Forward = (deliveries: NewDelivery[]) => Promise<boolean[]>

/** See {@link Forward}. */
export function createForward(parts: ForwardParts): Forward {
  const { store, dispatcher, counts, refused, now } = parts
  return async (deliveries) => {
    const placements = deliveries.map((delivery): Placement | undefined => {
      if (delivery.state === 'skipped') return undefined
      const placement = dispatcher.place(delivery.destination)
      delivery.state = placement.state
      return placement
    })
    const startedAt = now()
    let ids: Awaited<ReturnType<Store['put']>>
    try {
      ids = await store.put(deliveries)
    } catch (error) {
      refused()
      for (const placement of placements) if (placement) dispatcher.notPlaced(placement)
      throw error
    }
    counts.committed(now() - startedAt)
    for (const [i, delivery] of deliveries.entries()) {
      const placement = placements[i]
      const id = ids[i]
      if (id === undefined) counts.duplicated(delivery.source, delivery.destination)
      if (!placement) continue
      if (id === undefined) dispatcher.notPlaced(placement)
      else dispatcher.placed(placement, { ...delivery, ...FIRST_CLAIM, id })
    }
    return ids.map((id) => id !== undefined)
  }
}

/** What a delivery that was put leased has beside what was put. */
const FIRST_CLAIM = {
  attempt: 1,
  attemptsBefore: 0,
  lane: 'fresh',
  sinceFirstMs: 0,
  refusedBy: [],
} as const
