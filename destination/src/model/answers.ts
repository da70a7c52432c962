// The answers of the admin API, as JSON. The routes, the page and the command line share these types. Times are ms since
// the epoch, by the destination's clock.
import type { BreakerState } from './breaker-state.js'
import type { CallType, EventType } from './call.js'
import type { DeadGroup, State, Stats, Summary, Trace } from './delivery.js'
import type { Health } from './health.js'
import type { HistorySpan } from './history.js'
import type { OutcomeCode, Verdict } from './outcome.js'
import type { Kind } from './setting.js'

export type { BreakerState }

/**
 * What a client may do, by its token. An `admin` may do everything. An `operator` may read, replay, test, pause and resume. A
 * `reader` has no token and may read, because the settings have none either.
 */
export type AccessRole = 'admin' | 'operator' | 'reader'

/** `GET /v1/admin/status` */
export interface Status {
  version: string
  startedAt: number
  now: number
  access: AccessRole
  store: 'postgres' | 'sqlite'
  /** The servers of the store; left out if it has one. */
  servers?: ServerStatus[]
  /** Why the store takes no calls or does not answer, as `/readyz` says; left out while it works. */
  storeProblem?: string
  role: string
  retentionMs: number
  sources: SourceStatus[]
  destinations: DestinationStatus[]
  formerDestinations: FormerDestination[]
}

/** A server of the store, as the process that answers sees it. */
export interface ServerStatus {
  name: string
  /** Why it fails; `null` if it works. */
  error: string | null
}

/** The number of accepted and of rejected calls of a source since the start. Calls that were answered 429 or 503 are neither. */
export interface SourceTotals {
  accepted: number
  rejected: number
}

export interface SourceStatus extends SourceTotals {
  name: string
}

/** How many messages of a destination wait, are being sent, or are dead letters. */
export type MessageCounts = Omit<Stats, 'destination'>

export const NO_MESSAGES: Readonly<MessageCounts> = {
  fresh: 0,
  backlog: 0,
  bulk: 0,
  leased: 0,
  dead: 0,
  oldestMs: 0,
}

/** A destination that the settings no longer have, although messages of it wait or are dead letters. */
export interface FormerDestination extends MessageCounts {
  name: string
}

/** How many calls the filters of a destination let through and stopped, in the process that answers. */
export interface FilterCount {
  passed: number
  stopped: number
}

export interface DestinationStatus extends MessageCounts {
  name: string
  enabled: boolean
  /** `null` if it is not paused. */
  paused: Pause | null
  sources: string[]
  /** Since its filters were last changed, or since the start; `null` if it has no filters. */
  filters: FilterCount | null
  endpoints: EndpointStatus[]
}

/** Nothing is sent to a destination that is paused. Its messages wait. */
export interface Pause {
  /** When it began. */
  at: number
  /** Why, in words. */
  reason: string
  /** Who paused it: somebody, or `alerts`, because each endpoint failed for `alerts.pauseAfter`. */
  by: 'operator' | 'alerts'
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
  /** How many requests failed since the last success; `null` if nothing was sent since the start. */
  failuresInARow: number | null
  /** How many requests were delivered since the last failure; `null` if nothing was sent since the start. */
  deliveredInARow: number | null
}

/** A request that failed. */
export interface Failure {
  at: number
  code: OutcomeCode
  status: number | null
  /** The error in words; `null` if there is none. */
  error: string | null
}

/** The last hour of some endpoints. */
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

/** `GET /v1/admin/overview`: what the page shows first. Its size does not grow with the number of destinations. */
export interface Overview extends Omit<Status, 'destinations' | 'storeProblem'> {
  /** At most 12, in the order of the settings: those with the most rejected calls, and then those with the most accepted ones. */
  sources: SourceStatus[]
  span: HistorySpan
  totals: OverviewTotals
  chart: Series
  /** The destinations that need attention, the worst first; at most 8. */
  destinations: DestinationStatus[]
  /** How many destinations need attention. */
  troubled: number
  /** The last hour of the endpoints of `destinations`. */
  histories: EndpointHistories
  /** One page of the table. */
  rows: OverviewRow[]
  /** How many destinations match the search. */
  found: number
}

export interface OverviewTotals {
  destinations: number
  /** How many destinations are in each state. */
  byHealth: Record<Health, number>
  sources: number
  /** The calls of all sources since the start, in the process that answers. */
  accepted: number
  rejected: number
  /** Accepted calls per second in the last minute, in the process that answers. */
  callsPerSecond: number
  /** Requests within the span. */
  delivered: number
  failed: number
  p50Ms: number | null
  p99Ms: number | null
  waiting: number
  dead: number
  /** The age of the oldest message that waits; 0 if none does. */
  oldestMs: number
}

/** `GET /v1/portal/overview`: of the tenant's own destinations alone. */
export interface PortalOverview extends Pick<
  Overview,
  | 'now'
  | 'span'
  | 'sources'
  | 'chart'
  | 'destinations'
  | 'troubled'
  | 'histories'
  | 'rows'
  | 'found'
> {
  tenant: PortalTenant
  /** When the link expires. */
  expiresAt: number
  totals: PortalTotals
}

/** The totals of what is the tenant's own. The calls per second are those of all sources of the process. */
export type PortalTotals = Omit<OverviewTotals, 'callsPerSecond'>

/** The tenant that has opened a portal link. */
export interface PortalTenant {
  name: string
  /** The name that people read; the same as `name` if it has none. */
  title: string
  /** Whether it may change the URLs of its endpoints. */
  mayEditUrls: boolean
}

/** `GET /v1/portal/sources` and `GET /v1/portal/destinations` */
export interface PortalSettings {
  /** In the order of their names. */
  items: ManagedSetting[]
}

/** `POST /v1/admin/tenants/{name}/link` */
export interface PortalLink {
  /** Opens the portal. The token is in its fragment, which browsers send to no server. */
  url: string
  token: string
  expiresAt: number
}

/** One destination in the table. */
export interface OverviewRow {
  name: string
  health: Health
  /** The share of the recent requests that failed; `null` if there were none. */
  failedShare: number | null
  delivered: number
  failed: number
  p99Ms: number | null
  waiting: number
  dead: number
  /** The URL of its first endpoint, and how many more there are. */
  url: string
  moreUrls: number
  /** Requests bucket by bucket. */
  spark: { delivered: number[]; failed: number[] }
}

/** The buckets of a span without gaps, the oldest first. */
export interface Series {
  bucketMs: number
  /** When the first bucket began. */
  firstAt: number
  delivered: number[]
  failed: number[]
  busy: number[]
  /** Quantiles of the durations; `null` if nothing was sent. */
  p50Ms: (number | null)[]
  p99Ms: (number | null)[]
  /** The worst state of the breaker. */
  breaker: BreakerState[]
}

/** `GET /v1/admin/destination?name=` */
export interface DestinationDetails extends DestinationStatus {
  health: Health
  failedShare: number | null
  span: HistorySpan
  chart: Series
  /** For each endpoint, in the order of `endpoints`. */
  charts: Series[]
  healths: Health[]
  /** For each endpoint: the share of its recent requests that failed; `null` if there were none. */
  failedShares: (number | null)[]
  histories: EndpointHistories
  now: number
}

/** `GET /v1/admin/dead` */
export interface DeadCauses {
  /** The largest first; at most 100. */
  groups: DeadGroup[]
  /** Whether all dead letters were counted, and all their groups are here. */
  isComplete: boolean
  /** The servers of the store that could not be asked. Left out if there is none. */
  away?: string[]
}

/** `GET /v1/admin/deliveries` */
export interface DeliveryList {
  deliveries: Summary[]
  /** The parameter `before` of the next page; `null` at the end. */
  next: string | null
  /** `false` if the search ran out of time before the page was full, or if a server was away. */
  isComplete: boolean
  /** The servers of the store that could not be asked. Left out if there is none. */
  away?: string[]
}

/** A trace whose URLs have no queries. */
export interface ShownTrace extends Trace {
  /** When the retry window ends; `null` if the delivery is settled or has had no attempt yet. */
  deadlineAt: number | null
  /**
   * Why no attempt is made although the delivery waits: its destination is `paused` or `disabled`, or was `removed` from the
   * settings; `null` if attempts are made, or if the delivery is settled.
   */
  hold: 'paused' | 'disabled' | 'removed' | null
}

/** `GET /v1/admin/deliveries/:id` */
export interface ShownDelivery extends ShownTrace {
  /** The requests of the latest attempt, as the current settings make them; empty if they do not have the destination. */
  requests: ShownRequest[]
}

/** A request to one endpoint. Static headers of the settings have `…` as their value, because they may be keys. */
export interface ShownRequest {
  url: string
  headers: [name: string, value: string][]
}

/** One attempt of a {@link ShownTrace}. */
export type ShownAttempt = ShownTrace['attempts'][number]

/** `GET /v1/admin/messages?messageId=` and `GET /v1/admin/messages/:messageId` */
export interface ShownMessage {
  deliveries: ShownDelivery[]
  /** The time of the answer, by the clock that the times of the deliveries are of. */
  now: number
}

/** The body of `POST /v1/admin/replay`. It has exactly one of the first four fields. */
export interface ReplayRequest {
  ids?: number[]
  messageId?: string
  filter?: Record<string, string | number>
  all?: true
  /** Replays delivered messages, too. */
  force?: true
  /** The one of a former answer: replays only what was counted then and has not been replayed since. */
  asOf?: number
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
  /** The servers of the store that could not be asked. Left out if there is none. */
  away?: string[]
  dryRun: boolean
  /** The time as of which they were counted: that of the request, or of a dry run without one. */
  asOf?: number
}

/** The kinds of rules of a filter that can stop a call. */
export type FilterRule = 'type' | 'allow' | 'deny' | 'where'

/** `POST /v1/admin/filters/preview` */
export interface FilterPreview {
  passed: number
  stopped: number
  /** A call has a result for each source of the destination. Stored calls come the newest first. */
  results: FilterPreviewResult[]
  /** Calls that were found in the store without a body, because no destination got them. They are not in `results`. */
  withoutBody: number
  /** `false` if the search ran out of time before it had found as many calls as wanted. */
  isComplete: boolean
}

/** What filters say of one call. */
export interface FilterPreviewResult {
  messageId: string
  source: string
  type: CallType
  /** The name of the event, page or screen; empty if there is none. */
  event: string
  user: string
  passes: boolean
  /** The rule that stops the call; `null` if it passes. */
  rule: FilterRule | null
  reason: string | null
}

/** `POST /v1/admin/destinations/:name/test` */
export interface TestReport {
  destination: string
  /** Whether the destination is enabled. A test is sent to a disabled one too. */
  enabled: boolean
  /** Whether each endpoint accepted each sample. */
  ok: boolean
  /** When the test began. */
  at: number
  ms: number
  endpoints: TestedEndpoint[]
}

/** What one endpoint did with the samples of a test. */
export interface TestedEndpoint {
  /** Without its query. */
  url: string
  ok: boolean
  /** In the order in which they were sent. */
  samples: TestedSample[]
}

/** `POST /v1/admin/destinations/:name/pause` and `…/resume` */
export interface PauseChanged {
  destination: string
  /** `null` if it is not paused now. */
  paused: Pause | null
  /** Whether it was paused before. */
  wasPaused: boolean
}

/** One sample of a test: the request, the answer, and what they mean. */
export interface TestedSample {
  type: EventType
  messageId: string
  /**
   * `delivered`: the endpoint accepted it. `retry`: a real message would be sent again. `refused`: a real message would not
   * be sent again. `not_sent`: the test ended before.
   */
  verdict: Verdict | 'not_sent'
  /** `null` if it was not sent. */
  code: OutcomeCode | null
  /** `null` if there was no answer. */
  status: number | null
  /** The time until the status line or the failure; `null` if it was not sent. */
  ms: number | null
  /** The request as it was sent; `null` if it was not. */
  request: TestedRequest | null
  /** The start of the body of the answer; empty if there is none. */
  response: string
  /** The headers of the answer of a failed request, one `name: value` a line; `null` if there are none. */
  responseHeaders: string | null
  /** What happened, in words. */
  found: string
  /** What to do about it; `null` if there is nothing to do, or if `found` says it. */
  fix: string | null
}

/** A request of a test. Static headers of the settings have `…` as their value, because they may be keys. */
export interface TestedRequest {
  headers: [name: string, value: string][]
  body: string
  /** How it was signed, in words; one for each kind of signature. */
  signed: string[]
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

/** A source, a destination or a tenant, without its secrets: `GET /v1/admin/sources/{name}` and the like. */
export interface ManagedSetting {
  kind: Kind
  name: string
  /** Where it is kept. What is in the settings file can only be changed there. */
  origin: 'file' | 'store'
  /** Each change gives it a higher one, which is its ETag; `null` in the settings file. */
  version: number | null
  /** How many secrets it has of each kind: none, one, or two during a rotation. */
  secrets: Record<string, number>
  /** All other settings. Values of headers and queries of URLs are hidden. */
  settings: Record<string, unknown>
}

/** `GET /v1/admin/sources`, `/v1/admin/destinations` and `/v1/admin/tenants` */
export interface ManagedSettings {
  /** In the order of their names. */
  items: ManagedSetting[]
  /** How many match in all. */
  total: number
  /** Whether they can be created and changed: whether the settings have a `settingsKey`. */
  canChange: boolean
  /** Give it as `after` to get the next page; `null` on the last one. */
  next: string | null
}

/** The result of a change of a source, destination or tenant. */
export interface SettingChanged {
  item: ManagedSetting
  /** Whether it did not exist before. */
  created: boolean
  /** Whether anything is different now. */
  changed: boolean
  /** The secrets that were generated. They are not shown again. */
  generated: Record<string, string>
}

/** The result of the deletion of a source, destination or tenant. */
export interface SettingDeleted {
  /** How many messages waited for the destination and were deleted. */
  discarded: number
  /** How many still wait for it. They are sent once there is a destination of this name again. */
  waiting: number
}

/** One value that a change has changed. What must not be shown is hidden. */
export interface SettingChange {
  /** Where the value is, such as `webhooks[0].concurrency`. */
  path: string
  /** The value before; left out if there was none. */
  from?: unknown
  /** The value after; left out if there is none. */
  to?: unknown
}

/** One change that `POST /v1/admin/settings` has made, or would make. */
export interface AppliedChange {
  kind: Kind
  name: string
  action: 'create' | 'update' | 'delete'
  changes: SettingChange[]
  /** The secrets that were generated. They are not shown again. Empty in a dry run. */
  generated: Record<string, string>
  /** How many messages wait, or waited, for a destination that is deleted. */
  waiting: number
}

/** `POST /v1/admin/settings` */
export interface SettingsApplied {
  dryRun: boolean
  /** The ETag of the settings in the store: in a dry run that of before the changes, else that of after them. */
  revision: string
  /** How many are as they are wanted, and do not change. */
  same: number
  /** How many messages waited for destinations that were deleted, and were deleted too. */
  discarded: number
  changes: AppliedChange[]
}

/** `GET /v1/admin/settings`: what the store has, in the form of the settings file. */
export interface SettingsExport {
  /** The ETag of the settings in the store. */
  revision: string
  /** Secrets, values of headers and queries of URLs are hidden, as `•••`. */
  settings: {
    tenants: Record<string, unknown>[]
    sources: Record<string, unknown>[]
    destinations: Record<string, unknown>[]
  }
}

/** A change of a source, destination or tenant, or the start or end of a pause. */
export interface AuditEntry {
  id: number
  at: number
  kind: Kind
  name: string
  action: 'create' | 'update' | 'delete' | 'rotate' | 'revoke' | 'pause' | 'resume'
  /**
   * Who the client says that it is, by the header `X-Actor`; `null` if it does not say. `alerts` without an address is the
   * pause of a destination that has failed for too long.
   */
  by: string | null
  /** The address that the request came from; `null` for a pause by `alerts`. */
  from: string | null
  changes: SettingChange[]
}

/** `GET /v1/admin/audit` */
export interface AuditLog {
  /** The newest first. */
  entries: AuditEntry[]
  /** Give it as `before` to get older entries; `null` if there are none. */
  next: number | null
}
