import type { Dispatcher, Placement } from '../deliver/dispatcher.js'
import type { FilterRule } from '../model/answers.js'
import type { Delivery, DeliveryContent, DeliveryId, NewDelivery } from '../model/delivery.js'
import type { Destination } from '../settings/settings.js'
import type { WritePort } from '../store/store.js'
import type { Waiting } from './waiting.js'

/** What happens while deliveries are enqueued. */
export interface EnqueueEvents {
  /** The store already has this message for the destination, so it is not forwarded again. */
  duplicated(source: string, destination: string): void
  /** The store has made deliveries durable. `ms` is the time that this took; `isAnyNew` says whether it had to write. */
  committed(ms: number, isAnyNew: boolean): void
  /** The filters of a destination were asked about a new call, and the decision is durable. */
  filtered(delivery: FilteredCall, verdict: Verdict): void
  /** The store could not store deliveries. */
  storeRefused(error: unknown): void
}

/** What the filters of a destination say of a call. Without a rule, it passes. */
export interface Verdict {
  /** The destination, as the settings of this moment have it. */
  destination: Destination
  /** The rule that stops the call. */
  rule?: FilterRule
  /** Why it stops the call. */
  reason?: string
}

/** What is told of a call that filters were asked about. */
export type FilteredCall = Pick<DeliveryContent, 'messageId' | 'source'>

/** What enqueuing needs. */
export interface EnqueueParts {
  store: WritePort
  dispatcher: Pick<Dispatcher, 'place' | 'placed' | 'notPlaced'>
  events: EnqueueEvents
  /** Counts the messages of each tenant. By default nothing is counted. */
  waiting?: Pick<Waiting, 'add'>
  /** A monotonic clock, in ms. */
  now: () => number
}

/** A delivery to enqueue. */
export interface Enqueued extends DeliveryContent {
  /** The reason why the delivery is only stored for the log and never sent. Left out if it is sent. */
  skipReason?: string | undefined
  /** Whether it is bulk work, which does not delay other messages. */
  isBulk?: boolean | undefined
  /** What the filters of the destination say; left out if it has none. */
  verdict?: Verdict | undefined
}

/**
 * Makes deliveries durable and hands them to the dispatcher. The dispatcher decides first whether each delivery is sent
 * at once or waits in the backlog.
 *
 * @returns for each delivery whether it is new. The store already has the others.
 * @throws StoreError if the deliveries could not be stored. None of them is stored then, or all if the connection was lost during the
 * commit.
 */
export type Enqueue = (deliveries: Enqueued[]) => Promise<boolean[]>

/** Creates {@link Enqueue}. */
export function createEnqueue({ store, dispatcher, events, waiting, now }: EnqueueParts): Enqueue {
  return async (deliveries) => {
    const placements = deliveries.map(({ destination, skipReason, isBulk }) =>
      skipReason === undefined ? dispatcher.place(destination, isBulk) : undefined,
    )
    const count = (messages: 1 | -1, isCounted: (index: number) => boolean) => {
      for (const [i, { destination }] of deliveries.entries()) {
        if (placements[i] && isCounted(i)) waiting?.add(destination, messages)
      }
    }
    // Before the commit, so that the next request is checked against all that has been accepted.
    count(1, () => true)
    const placed = deliveries.map((delivery, i) => toNew(delivery, placements[i]))
    const startedAt = now()
    let ids: Awaited<ReturnType<WritePort['put']>>
    try {
      ids = await store.put(placed)
    } catch (error) {
      events.storeRefused(error)
      for (const placement of placements) if (placement) dispatcher.notPlaced(placement)
      count(-1, () => true)
      throw error
    }
    const isAnyNew = ids.some((id) => id !== undefined)
    events.committed(now() - startedAt, isAnyNew)
    count(-1, (i) => ids[i] === undefined)
    for (const [i, delivery] of deliveries.entries()) {
      const placement = placements[i]
      const id = ids[i]
      if (id === undefined) events.duplicated(delivery.source, delivery.destination)
      else if (delivery.verdict) events.filtered(delivery, delivery.verdict)
      if (!placement) continue
      if (id === undefined) dispatcher.notPlaced(placement)
      else dispatcher.placed(placement, firstClaim(id, delivery))
    }
    return ids.map((id) => id !== undefined)
  }
}

// Both functions list the fields: a spread takes ten times as long, and each message passes here.

function toNew(
  { messageId, source, destination, type, user, event, traceParent, body, skipReason }: Enqueued,
  placement: Placement | undefined,
): NewDelivery {
  return {
    messageId,
    source,
    destination,
    type,
    user,
    event,
    traceParent,
    body,
    state: placement?.state ?? 'skipped',
    reason: skipReason,
  }
}

/** A delivery that is stored already leased is on its first attempt. */
function firstClaim(
  id: DeliveryId,
  { messageId, source, destination, type, traceParent, body }: Enqueued,
): Delivery {
  return {
    id,
    attempt: 1,
    attemptsBefore: 0,
    messageId,
    source,
    destination,
    type,
    body,
    sinceFirstMs: 0,
    traceParent,
    lane: 'fresh',
    refusedBy: NONE,
  }
}

const NONE: readonly string[] = []
