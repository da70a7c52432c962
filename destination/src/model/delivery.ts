import type { EventType } from './call.js'
import type { OutcomeCode } from './outcome.js'

/** Names a delivery within its store. */
export type DeliveryId = number

/** Where deliveries wait. */
export type Lane = 'fresh' | 'backlog'

/** The state of a delivery; {@link Store} in `store/store.ts` has a drawing of them. */
export type State = Lane | 'leased' | 'done' | 'dead' | 'skipped'

/** One message for one destination. */
export interface DeliveryContent {
  messageId: string
  /** The source's name. */
  source: string
  /** The destination's name; empty if the source has none. */
  destination: string
  type: EventType
  /** The user's id, or the anonymous id where there is none: what a search by user looks for. */
  user: string
  /** The name of the event, page or screen, which a search by event looks for; left out if the message has none. */
  event?: string | undefined
  /** The trace that it belongs to: `traceparent` of W3C Trace Context. */
  traceParent?: string | undefined
  /** The body, exactly as it is sent; empty if it is skipped. */
  body: string
}

/** A delivery as it is put. */
export interface NewDelivery extends DeliveryContent {
  /**
   * Where it starts: in a lane; or `leased` to the process that puts it, as if it had been claimed in the same step, so
   * that its attempt number is 1; or `skipped`, which is only for the log.
   */
  state: Lane | 'leased' | 'skipped'
  /** Why it is skipped. */
  reason?: string
}

/** A request for deliveries of one lane of one destination. */
export interface Claim {
  destination: string
  lane: Lane
  /** At most so many. */
  limit: number
}

/** One message for one destination, leased. */
export interface Delivery {
  id: DeliveryId
  /**
   * The number of the claim, from 1. All attempts that are made for it have this number. It is the fencing token too: only
   * the latest claim can settle.
   */
  attempt: number
  /** The number that the last attempt before a replay had; 0 if it was not replayed. Later ones are of its window. */
  attemptsBefore: number
  messageId: string
  source: string
  destination: string
  type: EventType
  body: string
  /** Time since the first claim of its retry window, in ms: 0 at the first. */
  sinceFirstMs: number
  /** As it was put. */
  traceParent?: string | undefined
  /** The lane that it was claimed from; `fresh` if it was put as `leased`. */
  lane: Lane
  /** URLs that refused it for good: they are not tried again. */
  refusedBy: readonly string[]
}

/** What is decided for a delivery, after all attempts of one claim have ended. */
export interface Settlement {
  id: DeliveryId
  /** The number of the claim that is settled, as {@link Delivery.attempt} had it. */
  attempt: number
  /** What is next for it: nothing, another attempt after a delay, or nothing for a reason. */
  next:
    { state: 'done' } | { state: 'backlog'; delayMs: number } | { state: 'dead'; reason: string }
  /** Replaces {@link Delivery.refusedBy}. */
  refusedBy: readonly string[]
  /** The outcome of each attempt. */
  log: AttemptLog[]
}

/** One attempt, which is one POST to one endpoint, for the log. */
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

/** What deliveries are searched by. All fields that are given have to match; an empty filter matches everything. */
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
  /** Where to continue; `undefined` once everything has been searched. */
  next: DeliveryId | undefined
}

/** What a list shows of a delivery. */
export interface Summary {
  id: DeliveryId
  messageId: string
  source: string
  destination: string
  type: EventType
  /** Empty for none. */
  event: string
  user: string
  state: State
  /** Why it is dead, or skipped; `null` in all other states. */
  reason: string | null
  /** How often it was claimed. */
  attempt: number
  receivedAt: number
  /** As {@link Trace.dueAt}. */
  dueAt: number | null
  /** The outcome of the latest claim: of the endpoint that took it, or else of the last attempt. `null` for none yet. */
  lastCode: OutcomeCode | null
  lastStatus: number | null
}

/** Everything that is known of one delivery. */
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
  /** Why it is dead, or skipped; `null` in all other states. */
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

/** All of one delivery, for another store that goes on with it. Ids belong to each store. */
export interface Copy extends Trace {
  /** When its next attempt is due, its lease ends, or it died; `null` if it is done or skipped. */
  dueAt: number | null
  /** How often it was claimed. */
  attempt: number
  /** As {@link Delivery.attemptsBefore}. */
  attemptsBefore: number
  /** When it was replayed, if it still waits; `null` otherwise. */
  replayedAt: number | null
  traceParent: string | null
  refusedBy: readonly string[]
}

/** How much waits for one destination. */
export interface Stats {
  /** The destination's name. */
  destination: string
  /** Messages that arrived while it was healthy, and wait for their first attempt. */
  fresh: number
  /** Messages that wait for a retry, or for the destination to recover. */
  backlog: number
  /** Messages that are being sent. */
  leased: number
  /** Dead letters. */
  dead: number
  /** Age of the oldest delivery that is not settled, in ms; 0 if there is none. */
  oldestMs: number
}
