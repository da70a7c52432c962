// The answers of the admin API, as JSON. The routes, the page and the command line share these types. Times are ms since
// the epoch, by the destination's clock.
import type { State, Stats, Summary, Trace } from './delivery.js'
import type { OutcomeCode } from './outcome.js'

/**
 * The state of an endpoint's circuit breaker. `closed`: the endpoint is healthy. `open`: the endpoint is down, and gets
 * only one probe at a time. `half-open`: the endpoint is recovering, and gets more requests after each success.
 */
export type BreakerState = 'closed' | 'open' | 'half-open'

/** `GET /v1/admin/status` */
export interface Status {
  version: string
  startedAt: number
  now: number
  /** Whether this client may replay. It may if the settings have an admin token, because it then needed the token to read. */
  canWrite: boolean
  store: 'postgres' | 'sqlite'
  role: string
  retentionMs: number
  sources: SourceStatus[]
  destinations: DestinationStatus[]
  formerDestinations: FormerDestination[]
}

/** The number of accepted and of rejected calls of a source since the start. */
export interface SourceTotals {
  accepted: number
  rejected: number
}

export interface SourceStatus extends SourceTotals {
  name: string
}

/** How many messages of a destination wait, are being sent, or are dead letters. */
export type MessageCounts = Omit<Stats, 'destination'>

/** A destination that the settings no longer have, although messages of it wait or are dead letters. */
export interface FormerDestination extends MessageCounts {
  name: string
}

export interface DestinationStatus extends MessageCounts {
  name: string
  enabled: boolean
  sources: string[]
  endpoints: EndpointStatus[]
}

export interface EndpointStatus extends EndpointTotals {
  url: string
  /** `null` if the process that answers does not send to the endpoint. */
  breaker: BreakerStatus | null
}

export interface BreakerStatus {
  state: BreakerState
  /** How many requests may be in flight at once now. */
  allowed: number
  inFlight: number
  /** Requests that wait for their turn. */
  waiting: number
  /**
   * The most requests per second now: the endpoint's `rateLimit`, or less after it answered 429; `null` for no limit. It is
   * the part of this process.
   */
  requestsPerSecond: number | null
  /** For how long nothing is sent, in ms: until the next probe, or until the end of a pause that the endpoint asked for. */
  pausedMs: number
}

/** What happened at one endpoint since the start. */
export interface EndpointTotals {
  delivered: number
  failed: number
  /** Quantiles of the durations in the last 5 minutes; `null` if nothing was sent. */
  p50Ms: number | null
  p99Ms: number | null
  /** The latest request that failed; `null` if none did. */
  lastFailure: Failure | null
}

/** A request that failed. */
export interface Failure {
  at: number
  code: OutcomeCode
  status: number | null
  /** The error in words; `null` if there is none. */
  error: string | null
}

/** `GET /v1/admin/history` */
export interface EndpointHistories {
  bucketMs: number
  endpoints: EndpointHistory[]
}

export interface EndpointHistory {
  destination: string
  url: string
  buckets: Bucket[]
}

/** One endpoint in one minute. */
export interface Bucket {
  /** When the minute began. */
  at: number
  delivered: number
  /** Requests that were sent and failed. */
  failed: number
  /** Requests that were not sent, because the breaker was open or the endpoint could not keep up. */
  busy: number
  /** Quantiles of the durations in this minute; `null` if nothing was sent. */
  p50Ms: number | null
  p99Ms: number | null
  /** The worst state of the breaker in this minute, by one sample per second. */
  breaker: BreakerState
}

/** `GET /v1/admin/deliveries` */
export interface DeliveryList {
  deliveries: Summary[]
  /** The parameter `before` of the next page; `null` at the end. */
  next: string | null
  /** `false` if the search ran out of time before the page was full. */
  isComplete: boolean
}

/** `GET /v1/admin/deliveries/:id`: a trace whose URLs have no queries. */
export interface ShownTrace extends Trace {
  /** When the retry window ends; `null` if the delivery is settled or has had no attempt yet. */
  deadlineAt: number | null
}

/** One attempt of a {@link ShownTrace}. */
export type ShownAttempt = ShownTrace['attempts'][number]

/** `GET /v1/admin/messages?messageId=` and `GET /v1/admin/messages/:messageId` */
export interface ShownMessage {
  deliveries: ShownTrace[]
}

/** The body of `POST /v1/admin/replay`. It has exactly one of the first four fields. */
export interface ReplayRequest {
  ids?: number[]
  messageId?: string
  filter?: Record<string, string>
  all?: true
  /** Replays delivered messages, too. */
  force?: true
}

/** `POST /v1/admin/replay` */
export interface Replayed {
  /** How many deliveries match and can be replayed. */
  matched: number
  /** How many deliveries were replayed; 0 in a dry run. */
  replayed: number
  /** The replayed deliveries by destination. In a dry run, the matching ones. */
  byDestination: { name: string; count: number }[]
  /**
   * Deliveries that would match and stay as they are, because the settings have no enabled destination of this name. They
   * are not in `matched`.
   */
  kept: { name: string; count: number }[]
  dryRun: boolean
}

/** The event `call` of `GET /v1/admin/stream`. */
export interface CallEvent {
  at: number
  source: string
  type: string
  event: string
  user: string
  messageId: string
}

/** The event `attempt` of `GET /v1/admin/stream`. */
export interface AttemptEvent {
  at: number
  id: number
  messageId: string
  source: string
  destination: string
  endpoint: string
  attempt: number
  code: OutcomeCode
  status: number | null
  ms: number
  next: Extract<State, 'done' | 'backlog' | 'bulk' | 'dead'>
  nextInMs: number | null
  error: string | null
}
