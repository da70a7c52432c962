import type {
  Claim,
  Delivery,
  DeliveryId,
  Filter,
  Findings,
  NewDelivery,
  Settlement,
} from '../../model/delivery.js'
import type { PurgedPart, Store } from '../store.js'
import type { StoreErrorCode } from '../store-error.js'
import type { Reading } from './clock.js'
import type { DriverName } from './driver.js'
import type { CallsMemory } from './exit.js'
import type { Upgrade } from './schema.js'
import type { FlatHistory, Packed } from './wire.js'

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

/** A method of the store as the thread runs it: its result is the answer itself. */
type Now<Method> = Method extends (...given: infer Given) => Promise<infer Result>
  ? (...given: Given) => Result
  : never

/** The methods of the store that the thread answers as the port says. */
type Same =
  | 'ping'
  | 'due'
  | 'trace'
  | 'stats'
  | 'get'
  | 'match'
  | 'deadGroups'
  | 'addHistory'
  | 'replay'
  | 'discard'
  | 'count'
  | 'copyOut'
  | 'copyIn'
  | 'copiesOf'
  | 'beginSync'
  | 'join'
  | 'leave'
  | 'catchUp'
  | 'forgetDestinations'
  | 'hasUser'
  | 'writeRecords'
  | 'records'
  | 'recordLog'
  | 'forgetRecords'
  | 'copyRecordsIn'
  | 'copyLogIn'

/** The calls that run by themselves, outside the transaction of the round. */
export type Queries = { [Name in Same]: Now<Store[Name]> } & {
  find: (filter: Filter, before: DeliveryId | undefined, limit: number) => Findings
  deadCounts: (destinations: readonly string[], withinMs: number, most: number) => number[]
  history: (...given: Parameters<Store['history']>) => FlatHistory
  sweep: (olderThanMs: number, limit: number) => Swept
  purgeUser: (user: string, from: number) => PurgedPart
}

/** One of these calls. */
export type Query<Name extends keyof Queries = keyof Queries> = {
  [Ask in Name]: { ask: Ask; given: Parameters<Queries[Ask]> }
}[Name]

/** What a sweep did. */
export interface Swept {
  changed: number
  /** How many became dead letters, by destination. */
  expired: ReadonlyMap<string, number>
}

/** The result of a query. */
export type Answer<Name extends keyof Queries = keyof Queries> = ReturnType<Queries[Name]>

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

/** The data that the thread starts with. */
export interface ThreadData {
  path: string
  driver: DriverName | undefined
  calls: CallsMemory
  at: Reading
  /** Whether this process had the file open before, in a thread that has died. Its leases still hold. */
  isRestart: boolean
}

/** A message before {@link Opened}: the tables of an older version are about to be changed. */
export interface Upgrading {
  upgrade: Upgrade
}

/** The first message of the thread but {@link Upgrading}: the file is open, with the store's time at {@link ThreadData.at}, or the error. */
export type Opened = Result<number>

/** A round as it is sent to the thread. */
export type Sent = Omit<Round, 'deliveries' | 'settlements'> & {
  deliveries: Packed
  settlements: Packed
}

/** The result of a round as the thread sends it. */
export type SentBack = Omit<RoundResult, 'claimed'> & { claimed: Result<Packed> }

/** The last message to the thread: the file is to be closed. */
export interface Goodbye {
  closeAt: Reading
}
