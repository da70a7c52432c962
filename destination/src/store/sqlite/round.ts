import type {
  Claim,
  Copy,
  DeadGroups,
  DeadPlace,
  Delivery,
  DeliveryId,
  Filter,
  Findings,
  Matches,
  NewDelivery,
  Settlement,
  Stats,
  Trace,
} from '../../model/delivery.js'
import type { HistoryCounts, HistoryPlace, HistorySpan } from '../../model/history.js'
import type {
  AudienceDestination,
  CaughtUp,
  DueLane,
  Left,
  LogEntry,
  MemberMessage,
  Purged,
  RecordChange,
  RecordKey,
  Records,
  ReplayLane,
  StoredRecord,
  Sync,
} from '../store.js'
import type { StoreErrorCode } from '../store-error.js'
import type { Reading } from './clock.js'
import type { FlatHistory } from './wire.js'

/**
 * All calls that came while the previous round was under way. Settlements, puts and claims run in this order in one
 * transaction. The queries run after it.
 */
export interface Round {
  /** What the clocks show. The thread can't call them, because they are functions of the main thread. */
  at: Reading
  settlements: Settlement[]
  deliveries: NewDelivery[]
  claims: Claim[]
  queries: Query[]
}

/** What to replay, as `Store.replay` takes it. */
export interface ReplayQuery {
  ids: readonly DeliveryId[]
  withDone: boolean
  lane: ReplayLane
  asOf: number | undefined
}

/** A call that runs by itself, outside the transaction of the round. */
export type Query =
  | { ask: 'ping' }
  | { ask: 'due' }
  | { ask: 'trace'; messageId: string }
  | { ask: 'stats' }
  | { ask: 'get'; id: DeliveryId }
  | { ask: 'find' | 'match'; filter: Filter; before: DeliveryId | undefined; limit: number }
  | { ask: 'deadGroups'; destination: string; before: DeadPlace | undefined; limit: number }
  | { ask: 'deadCounts'; destinations: readonly string[]; withinMs: number; most: number }
  | { ask: 'addHistory'; counts: HistoryCounts[] }
  | {
      ask: 'history'
      span: HistorySpan
      since: number
      after: HistoryPlace | undefined
      limit: number
    }
  | ({ ask: 'replay' } & ReplayQuery)
  | { ask: 'sweep'; olderThanMs: number; limit: number }
  | { ask: 'discard'; destination: string; limit: number }
  | { ask: 'count' }
  | { ask: 'copyOut'; after: DeliveryId; limit: number }
  | { ask: 'copyIn'; copies: Copy[] }
  | { ask: 'copiesOf'; copies: Copy[] }
  | { ask: 'beginSync'; audience: string; destinations: readonly AudienceDestination[] }
  | { ask: 'join'; sync: Sync; members: string[]; messages: MemberMessage[] }
  | { ask: 'leave'; sync: Sync; from: string; limit: number; messages: MemberMessage[] }
  | CatchUpQuery
  | { ask: 'forgetDestinations'; names: readonly string[] }
  | { ask: 'hasUser'; user: string }
  | { ask: 'purgeUser'; user: string; from: number }
  | {
      ask: 'writeRecords'
      changes: readonly RecordChange[]
      unchangedSince: number | undefined
    }
  | { ask: 'records'; after: number; limit: number }
  | {
      ask: 'recordLog'
      about: RecordKey | undefined
      before: number | undefined
      limit: number
    }
  | { ask: 'forgetRecords'; olderThanMs: number; limit: number }
  | { ask: 'copyRecordsIn'; records: readonly StoredRecord[]; after: number }
  | { ask: 'copyLogIn'; entries: readonly LogEntry[] }

interface CatchUpQuery {
  ask: 'catchUp'
  sync: Sync
  limit: number
  arrivals: MemberMessage[]
  departures: MemberMessage[]
}

/** What a sweep did. */
export interface Swept {
  changed: number
  /** How many became dead letters, by destination. */
  expired: ReadonlyMap<string, number>
}

/** The result of a query. */
export type Answer =
  | Trace[]
  | Trace
  | undefined
  | Stats[]
  | DueLane[]
  | Findings
  | Matches
  | DeadGroups
  | FlatHistory
  | DeliveryId[]
  | number
  | number[]
  | Swept
  | Copy[]
  | boolean[]
  | (Copy | undefined)[]
  | boolean
  | Sync
  | Left
  | CaughtUp
  | Purged
  | Records
  | LogEntry[]

/** The results of a round, in the order of its items. */
export interface RoundResult {
  /** Whether each settlement was accepted. */
  settled: Result<boolean[]>
  put: Result<(DeliveryId | undefined)[]>
  claimed: Result<Delivery[][]>
  answers: Result<Answer>[]
}

/** A value, or the error. */
export type Result<T> = { value: T } | { failure: Failure }

/** A StoreError as a plain object: messages between threads do not keep the class. */
export interface Failure {
  code: StoreErrorCode
  message: string
  cause: unknown
}
