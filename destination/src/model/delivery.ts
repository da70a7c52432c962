import type { EventType } from './call.js'
import type { OutcomeCode } from './outcome.js'

/** All of one delivery: a store that has it goes on as the one before would have. Ids are each store's own. */
export interface Copy extends Trace {
  /** When its next attempt is due, its lease ends, or it died; `null` for what is done or skipped. */
  dueAt: number | null
  /** How often it was claimed. */
  attempt: number
  /** As {@link Delivery.attemptsBefore}. */
  attemptsBefore: number
  /** When it was replayed, if it waits since then; `null` for all else. */
  replayedAt: number | null
  traceParent: string | null
  refusedBy: readonly string[]
}

/** Names a delivery within its store. */
export type DeliveryId = number

/** Where deliveries wait. */
export type Lane = 'fresh' | 'backlog'

/** One message for one destination, as it is put. */
export interface NewDelivery {
  messageId: string
  /** The source's name. */
  source: string
  /** The destination's name; empty if the source has none. */
  destination: string
  type: EventType
  /** The user's id, or the anonymous id where there is none: what a search by user looks for. */
  user: string
  /** The name of the event, page or screen: what a search by event looks for. None if there is none. */
  event?: string | undefined
  /** The trace that it belongs to: `traceparent` of W3C Trace Context. */
  traceParent?: string | undefined
  /** The body, exactly as it is sent; empty if it is skipped. */
  body: string
  /**
   * Where it starts: in a lane, or leased to whoever puts it, as if it had been claimed in the same step (its
   * attempt is 1 then), or skipped, which is for the log alone.
   */
  state: Lane | 'leased' | 'skipped'
  /** Why it is skipped. */
  reason?: string
}

/** A wish for deliveries of one lane of one destination. */
export interface Claim {
  destination: string
  lane: Lane
  /** At most so many. */
  limit: number
}

/** One message for one destination, leased. */
export interface Delivery {
  id: DeliveryId
  /** Counts the claims, from 1. It is the fencing token too: only the latest claim can settle. */
  attempt: number
  /** Attempts made before it was replayed; 0 if it was not. Those after them are of its window. */
  attemptsBefore: number
  messageId: string
  source: string
  destination: string
  type: EventType
  body: string
  /** Time since the first claim of its window, in ms: 0 at the first. */
  sinceFirstMs: number
  /** As it was put. */
  traceParent?: string | undefined
  /** The lane that it was claimed from; `fresh` for what was put leased. */
  lane: Lane
  /** URLs that refused it for good: they are not tried again. */
  refusedBy: readonly string[]
}

/** What came of one attempt of one delivery. */
export interface Settlement {
  id: DeliveryId
  /** The attempt that is settled, as {@link Delivery.attempt} had it. */
  attempt: number
  /** What is next for it: nothing, another attempt after a while, or nothing for a reason. */
  next:
    { state: 'done' } | { state: 'backlog'; delayMs: number } | { state: 'dead'; reason: string }
  /** Replaces {@link Delivery.refusedBy}. */
  refusedBy: readonly string[]
  /** What came of each POST. */
  log: AttemptLog[]
}

/** One POST to one endpoint, for the log. */
export interface AttemptLog {
  /** The endpoint's URL. */
  url: string
  code: OutcomeCode
  /** The status of the answer; `null` if there was none. */
  status: number | null
  ms: number
  /** What went wrong, in words; `null` for a delivery. */
  error: string | null
  /** The start of the answer's body; empty for none. */
  response: string
}

/** Where a delivery is on its way. */
export type State = Lane | 'leased' | 'done' | 'dead' | 'skipped'

/** What deliveries are looked for by. All that is given has to match; nothing matches all. */
export interface Filter {
  /** Any of them. */
  states?: readonly State[] | undefined
  destination?: string | undefined
  source?: string | undefined
  type?: string | undefined
  event?: string | undefined
  user?: string | undefined
  messageId?: string | undefined
  /** Put at that time or later: ms since the epoch, by the store's clock. */
  since?: number | undefined
  /** Put before that time. */
  until?: number | undefined
}

/** One slice of a search. */
export interface Findings {
  deliveries: Summary[]
  /** Where to go on; `undefined` once all has been looked through. */
  next: DeliveryId | undefined
}

/** What a list shows of a delivery. */
export interface Summary {
  id: DeliveryId
  messageId: string
  source: string
  destination: string
  type: EventType
  event: string
  user: string
  state: State
  reason: string | null
  /** How often it was claimed. */
  attempt: number
  receivedAt: number
  /** As {@link Trace.dueAt}. */
  dueAt: number | null
  /** What came of the latest attempt: of the endpoint that took it, or else of the last one. `null` for none yet. */
  lastCode: OutcomeCode | null
  lastStatus: number | null
}

/** All that is known of one delivery. */
export interface Trace {
  id: DeliveryId
  messageId: string
  source: string
  destination: string
  type: EventType
  /** Empty for none. */
  event: string
  user: string
  body: string
  state: State
  /** Why it is dead, or skipped; `null` for neither. */
  reason: string | null
  /** When it was put: ms since the epoch, by the store's clock. */
  receivedAt: number
  /** When it was first claimed, since its replay if it was replayed; `null` before. */
  firstAttemptAt: number | null
  /** When its next attempt is due, or its lease ends; `null` if it is settled. */
  dueAt: number | null
  /** Oldest first. */
  attempts: (AttemptLog & { attempt: number; at: number })[]
}

/** What waits for one destination. */
export interface Stats {
  /** The destination's name. */
  destination: string
  /** Messages that arrived while it was well, and wait for their first attempt. */
  fresh: number
  /** Messages that wait for a retry, or for the destination to be well again. */
  backlog: number
  /** Messages in an attempt. */
  leased: number
  /** Dead letters. */
  dead: number
  /** Age of the oldest delivery that is not settled, in ms; 0 if there is none. */
  oldestMs: number
}
