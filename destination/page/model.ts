// What the admin routes answer: see "The admin API" in the README of the destination. Times are ms since the epoch, by
// the destination's clock.

export interface Status {
  version: string
  startedAt: number
  now: number
  /** Whether this request came with the right admin token. */
  canWrite: boolean
  /** Whether the settings have an admin token. */
  hasToken: boolean
  store: string
  role: string
  retentionMs: number
  sources: SourceStatus[]
  destinations: DestinationStatus[]
}

export interface SourceStatus {
  name: string
  accepted: number
  rejected: number
}

export interface DestinationStatus {
  name: string
  enabled: boolean
  sources: string[]
  fresh: number
  backlog: number
  leased: number
  dead: number
  /** Age of the oldest that is not settled. */
  oldestMs: number
  endpoints: EndpointStatus[]
}

export type GateState = 'closed' | 'open' | 'probe' | 'ramp'

export interface EndpointStatus {
  url: string
  /** `null` where nothing is sent by the process that answers. */
  gate: { state: GateState; allowed: number; inFlight: number; waiting: number } | null
  delivered: number
  failed: number
  p50Ms: number | null
  p99Ms: number | null
  /** The latest request that was sent and not delivered. */
  lastFailure: { at: number; code: string; status: number | null; error: string | null } | null
}

export interface Health {
  bucketMs: number
  endpoints: EndpointHealth[]
}

export interface EndpointHealth {
  destination: string
  url: string
  buckets: Bucket[]
}

export interface Bucket {
  at: number
  delivered: number
  failed: number
  /** Not sent: there was no room, or the gate was shut. */
  busy: number
  p50Ms: number | null
  p99Ms: number | null
  /** The worst state in it. */
  gate: GateState
}

export type DeliveryState = 'fresh' | 'backlog' | 'leased' | 'done' | 'dead' | 'skipped'

export interface DeliveryLine {
  id: number
  messageId: string
  source: string
  destination: string
  type: string
  event: string
  user: string
  state: DeliveryState
  reason: string | null
  attempt: number
  receivedAt: number
  dueAt: number | null
  lastCode: string | null
  lastStatus: number | null
}

export interface DeliveryList {
  deliveries: DeliveryLine[]
  next: string | null
  isComplete: boolean
}

export interface Trace {
  id: number
  messageId: string
  source: string
  destination: string
  type: string
  event: string
  user: string
  body: string
  state: DeliveryState
  reason: string | null
  receivedAt: number
  firstAttemptAt: number | null
  dueAt: number | null
  deadlineAt: number | null
  attempts: AttemptLine[]
}

export interface AttemptLine {
  attempt: number
  at: number
  url: string
  code: string
  status: number | null
  ms: number
  error: string | null
  response: string
}

export interface Replay {
  matched: number
  replayed: number
  byDestination: { name: string; count: number }[]
  dryRun: boolean
}

/** What to replay: exactly one of the first four. */
export interface ReplayWish {
  ids?: number[]
  messageId?: string
  filter?: Record<string, string>
  all?: true
  force?: true
}

export interface CallEvent {
  at: number
  source: string
  type: string
  event: string
  user: string
  messageId: string
}

export interface AttemptEvent {
  at: number
  id: number
  messageId: string
  source: string
  destination: string
  endpoint: string
  attempt: number
  code: string
  status: number | null
  ms: number
  next: 'done' | 'backlog' | 'dead'
  nextInMs: number | null
  error: string | null
}
