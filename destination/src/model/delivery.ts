import type { EventType } from './call.js'
import type { OutcomeCode } from './outcome.js'

/** Identifies a delivery within its store. */
export type DeliveryId = number

/**
 * Where a search continues: before this delivery. A store of several servers has a place in each of them, which it writes as a
 * text.
 */
export type SearchPlace = DeliveryId | string

/** The lanes in which deliveries wait. {@link Stats} says what each one holds. */
export type Lane = 'fresh' | 'backlog' | 'bulk'

/** The state of a delivery; {@link Store} in `store/store.ts` has a drawing of them. */
export type State = Lane | 'leased' | 'done' | 'dead' | 'skipped'

/** One message for one destination. */
export interface DeliveryContent {
  messageId: string
  /** The source's name. */
  source: string
  /** The destination's name; empty if the source has no destination. */
  destination: string
  type: EventType
  /** The user's id, or else the anonymous id. A search by user compares this field. */
  user: string
  /** The name of the event, page or screen; left out if the message has none. A search by event compares this field. */
  event?: string | undefined
  /** The `traceparent` of the message (W3C Trace Context), then a space and its `tracestate` if it has one. */
  traceParent?: string | undefined
  /** The body, exactly as it is sent; empty if the delivery is skipped. */
  body: string
}

/** A delivery that is to be stored. */
export interface NewDelivery extends DeliveryContent {
  /**
   * The first state: a lane, `leased` or `skipped`. A `leased` delivery is stored already leased to the process that stores
   * it, with the attempt number 1. A `skipped` one is never sent and only stays visible to the operator.
   */
  state: Lane | 'leased' | 'skipped'
  /** Why the delivery is skipped. */
  reason?: string | undefined
}

/** A request for deliveries of one lane of one destination. */
export interface Claim {
  destination: string
  lane: Lane
  /** The maximum number of deliveries. */
  limit: number
  /**
   * Claims only deliveries that were never claimed before, from among the 1,000 that became due last, the latest
   * first. Left out: claims the longest due first.
   */
  isUntried?: true
}

/** One message for one destination, leased. */
export interface Delivery {
  id: DeliveryId
  /**
   * The number of the claim, from 1. All attempts for one claim share this number. It is also the fencing token: only the
   * latest claim can settle the delivery.
   */
  attempt: number
  /**
   * How many of the attempts before this one do not count in the current retry window: those before a replay, those whose
   * lease ran out, because nobody knows whether they were made, and those that sent nothing.
   */
  attemptsBefore: number
  messageId: string
  source: string
  destination: string
  type: EventType
  body: string
  /** The time since the first claim in its retry window, in ms; 0 at the first claim. */
  sinceFirstMs: number
  /** How long it has been due, in ms; 0 by default. If it is not sent after all, it goes back to its place in the lane. */
  dueForMs?: number | undefined
  /** As in {@link DeliveryContent}. */
  traceParent?: string | undefined
  /** The lane from which it was claimed; `fresh` if it was stored as `leased`. */
  lane: Lane
  /** URLs of endpoints that permanently refused it and are not tried again. */
  refusedBy: readonly string[]
}

/** What happens to a delivery after an attempt: it is delivered, has another attempt after the delay, or is given up. */
export type Next =
  | { state: 'done' }
  | { state: 'backlog' | 'bulk'; delayMs: number }
  | { state: 'dead'; reason: string }

/** The end of a claim: the decision about a delivery after all of its attempts, or that it was not sent after all. */
export interface Settlement {
  id: DeliveryId
  /** The number of the claim: {@link Delivery.attempt}. */
  attempt: number
  /**
   * A new message that was not sent goes back to the fresh lane. What was not sent keeps its place: then `delayMs` is negative, and
   * says how long it has been due.
   */
  next: Next | { state: 'fresh'; delayMs: number }
  /** Replaces {@link Delivery.refusedBy}. */
  refusedBy: readonly string[]
  /** Whether nothing was sent. The attempt then does not count in the retry window. */
  isUnsent?: boolean
  /** The outcome of each attempt. */
  log: AttemptLog[]
  /** The delivery as it was claimed, for those who hear that the store has taken the settlement. No store writes it. */
  delivery?: Delivery
}

/** The record of one attempt, which is one POST to one endpoint. */
export interface AttemptLog {
  /** The endpoint's URL. */
  url: string
  code: OutcomeCode
  /** The status of the answer; `null` if there was none. */
  status: number | null
  ms: number
  /** The error in words; `null` if the message was delivered. */
  error: string | null
  /** The start of the answer's body; empty if there is none. */
  response: string
  /**
   * The headers of the answer, one `name: value` a line. Left out if there was no answer, or if the message was delivered:
   * only failures have to be explained, and successes would take most of the room.
   */
  headers?: string | undefined
}

/** A search for deliveries. All given fields must match. An empty filter matches everything. */
export interface Filter {
  /** Matches a delivery in any of these states. */
  states?: readonly State[] | undefined
  destination?: string | undefined
  /** Matches only deliveries to these destinations, in addition to `destination`. An empty list matches nothing. */
  destinations?: readonly string[] | undefined
  source?: string | undefined
  type?: string | undefined
  event?: string | undefined
  user?: string | undefined
  messageId?: string | undefined
  /**
   * Whether `event`, `user` and `messageId` match each text that starts with them, in upper or lower case. Otherwise they
   * match only the same text.
   */
  isPrefix?: boolean | undefined
  /** The code of the latest outcome: {@link Summary.lastCode}. */
  code?: string | undefined
  /** The range of the latest status: {@link Summary.lastStatus}. Both ends are included. */
  status?: { from: number; to: number } | undefined
  /** The URL, without its query, of the endpoint with the latest outcome. */
  endpoint?: string | undefined
  /** Why the latest attempt failed: {@link Summary.cause}. */
  cause?: string | undefined
  /** Whether `cause` is in the words of the portal: `portalWords`. */
  isInPortalWords?: boolean | undefined
  /** Stored at this time or later: ms since the epoch, by the store's clock. */
  since?: number | undefined
  /** Stored before this time: ms since the epoch, by the store's clock. */
  until?: number | undefined
  /**
   * Matches only what has been settled since this time or before: dead letters that had died, and delivered messages that had been
   * attempted, and neither was replayed since. It is a time of the store's own clock, `ClockPort.clock.now`.
   */
  asOf?: number | undefined
}

/** The deliveries of one destination that match a search. */
export interface Match {
  destination: string
  ids: DeliveryId[]
}

/** What a search lacks. */
export interface Incomplete {
  /** The servers of the store that could not be asked. Left out if there is none. */
  away?: readonly string[]
}

/** One slice of what matches a search. */
export interface Matches extends Incomplete {
  matches: Match[]
  /** Where to continue; `undefined` once everything has been searched. */
  next: DeliveryId | undefined
}

/** One slice of the results of a search. */
export interface Findings extends Incomplete {
  deliveries: Summary[]
  /** Where to continue; `undefined` once everything has been searched. */
  next: SearchPlace | undefined
}

/** The fields of a delivery that lists show. */
export interface Summary {
  id: DeliveryId
  messageId: string
  source: string
  destination: string
  type: EventType
  /** The name of the event, page or screen; empty if there is none. */
  event: string
  user: string
  state: State
  /** Why it is a dead letter or skipped; `null` in all other states. */
  reason: string | null
  /** How often it was claimed. */
  attempt: number
  receivedAt: number
  /** As in {@link Trace}. */
  dueAt: number | null
  /** The outcome of the latest claim: that of the endpoint that accepted it, or else of the last attempt. `null` before. */
  lastCode: OutcomeCode | null
  lastStatus: number | null
  /**
   * Why the latest attempt failed, in one line; see `causeOf`. The reason of a dead letter without an attempt. Otherwise
   * `null`.
   */
  cause: string | null
}

/** Dead letters that have the same destination, latest outcome and cause. */
export interface DeadGroup {
  destination: string
  /** `null` if there was no attempt. */
  code: OutcomeCode | null
  status: number | null
  /** As {@link Summary.cause}; empty if nothing is known. */
  cause: string
  count: number
  /** When the first and the last of them became dead letters. */
  firstAt: number
  lastAt: number
}

/** A slice of the dead letters of a destination, in groups. */
export interface DeadGroups extends Incomplete {
  groups: DeadGroup[]
  /** Where to continue; `undefined` at the end. */
  next: DeadPlace | undefined
}

/** A place in the order of deaths. */
export interface DeadPlace {
  diedAt: number
  id: DeliveryId
}

/** Everything that is known about one delivery. */
export interface Trace {
  id: DeliveryId
  messageId: string
  source: string
  destination: string
  type: EventType
  /** The name of the event, page or screen; empty if there is none. */
  event: string
  user: string
  body: string
  state: State
  /** Why it is a dead letter or skipped; `null` in all other states. */
  reason: string | null
  /** When it was stored: ms since the epoch, by the store's clock. */
  receivedAt: number
  /** When it was first claimed, or first claimed after its replay; `null` before. */
  firstAttemptAt: number | null
  /** When its next attempt is due or its lease ends; `null` if it is settled. */
  dueAt: number | null
  /** Oldest first. */
  attempts: (AttemptLog & { attempt: number; at: number })[]
}

/** Everything that another store needs to continue a delivery. The other store assigns its own id. */
export interface Copy extends Trace {
  /** When its next attempt is due, its lease ends, or it became a dead letter; `null` if it is done or skipped. */
  dueAt: number | null
  /** How often it was claimed. */
  attempt: number
  /** As in {@link Delivery}. */
  attemptsBefore: number
  /** When it was replayed, if it has not died since; otherwise `null`. */
  replayedAt: number | null
  traceParent: string | null
  refusedBy: readonly string[]
}

/** The number of deliveries of one destination, by state. */
export interface Stats {
  /** The destination's name. */
  destination: string
  /** Messages that arrived while the destination was healthy and that wait for their first attempt. */
  fresh: number
  /** Messages that wait for a retry, or for the destination to recover. */
  backlog: number
  /** Messages of bulk work that wait for an attempt: audiences, imports and replays. */
  bulk: number
  /** Messages that are being sent. */
  leased: number
  /** Dead letters. */
  dead: number
  /** Age of the oldest delivery that is not settled, in ms; 0 if there is none. */
  oldestMs: number
}

/** How many messages of a destination are not settled: those that wait, and those that are being sent. */
export function waitingIn({
  fresh,
  backlog,
  bulk,
  leased,
}: Pick<Stats, 'fresh' | 'backlog' | 'bulk' | 'leased'>): number {
  return fresh + backlog + bulk + leased
}
