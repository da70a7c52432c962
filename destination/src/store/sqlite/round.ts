import type {
  Claim,
  Copy,
  Delivery,
  DeliveryId,
  Filter,
  Findings,
  NewDelivery,
  Settlement,
  Stats,
  Trace,
} from '../../model/delivery.js'
import type { Left, MemberMessage, Purged, Sync } from '../store.js'
import type { StoreErrorCode } from '../store-error.js'

/**
 * All that was asked while the round before was under way. Settlements, then puts, then claims are one transaction;
 * the queries come after it.
 */
export interface Round {
  /** The store's time: the clock is on the other side of the thread's wall. */
  now: number
  settlements: Settlement[]
  deliveries: NewDelivery[]
  claims: Claim[]
  queries: Query[]
}

/** What is asked one by one. */
export type Query =
  | { ask: 'ping' }
  | { ask: 'trace'; messageId: string }
  | { ask: 'stats' }
  | { ask: 'get'; id: DeliveryId }
  | { ask: 'find'; filter: Filter; before: DeliveryId | undefined; limit: number }
  | { ask: 'replay'; ids: readonly DeliveryId[]; withDone: boolean }
  | { ask: 'sweep'; olderThanMs: number; limit: number }
  | { ask: 'count' }
  | { ask: 'copyOut'; after: DeliveryId; limit: number }
  | { ask: 'copyIn'; copies: Copy[] }
  | { ask: 'copiesOf'; copies: Copy[] }
  | { ask: 'beginSync'; audience: string }
  | { ask: 'join'; sync: Sync; members: string[]; messages: MemberMessage[] }
  | { ask: 'leave'; sync: Sync; from: string; limit: number; messages: MemberMessage[] }
  | { ask: 'hasUser'; user: string }
  | { ask: 'purgeUser'; user: string; from: number }

/** What came of a query. */
export type Answer =
  | Trace[]
  | Trace
  | undefined
  | Stats[]
  | Findings
  | DeliveryId[]
  | number
  | Copy[]
  | boolean[]
  | (Copy | undefined)[]
  | boolean
  | Sync
  | Left
  | Purged

/** What came of a round: for each thing that was asked, in its order. */
export interface RoundResult {
  /** Whether each settlement was accepted. */
  settled: Result<boolean[]>
  put: Result<(DeliveryId | undefined)[]>
  claimed: Result<Delivery[][]>
  answers: Result<Answer>[]
}

/** A value, or why there is none. */
export type Result<T> = { value: T } | { failure: Failure }

/** A StoreError, in the shape in which it can leave the thread. */
export interface Failure {
  code: StoreErrorCode
  message: string
  cause: unknown
}
