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
  Lane,
  NewDelivery,
  SearchPlace,
  Settlement,
  Stats,
  Trace,
} from '../model/delivery.js'
import type { Clock } from '../model/clock.js'
import type { HistoryCounts, HistoryPlace, HistoryRow, HistorySpan } from '../model/history.js'
import type { ServerPort, Servers } from './servers.js'
import type { Workers } from './workers.js'

/**
 * Keeps the deliveries. A delivery is one message on its way to one destination.
 *
 *     put ──► fresh ──────────┐                  ┌──► done
 *       ├───► backlog or bulk ┴─ claim ► leased ─┼──► dead
 *       │        ▲                         │     │
 *       │        └──── settle ─────────────│─────┘
 *       ├──────────────────────────────────┘
 *       └───► skipped
 *
 * `fresh`, `backlog` and `bulk` are the lanes. Fresh deliveries arrived while their destination was healthy. The bulk
 * lane has the messages of audiences, imports and replays, and their retries. The backlog has all others: retries, and
 * deliveries that arrived while the destination was down. A lease ends after {@link LEASE_MS}: then the delivery is due
 * again in the backlog, so that nothing is lost with a worker that died. This holds for bulk work too: at most as many
 * deliveries as the worker had leased leave the bulk lane. In a store that several processes can share, the next claim of
 * its former lane puts it into the backlog, and {@link DispatchPort.due} names the former lane until then.
 *
 * Callers pass only durations, never times. The store applies its own clock, so that a worker whose clock is wrong does
 * no harm.
 *
 * Each part of the service asks for the port that it uses.
 */
export interface Store
  extends
    WritePort,
    DispatchPort,
    ReadPort,
    HistoryPort,
    AudiencePort,
    RecordPort,
    MaintainPort,
    MoveRecordsPort,
    ClockPort,
    SharedPort {
  /** The servers of a store that has several. */
  readonly servers?: Servers

  /**
   * The names of the servers that had shares of this store, and that this process does not know. They may still have dead letters and
   * what was delivered, until the retention is over.
   */
  readonly formerServers?: readonly string[]

  /** What a store does as one of several servers. Only a store in PostgreSQL that was opened for this has it. */
  readonly asServer?: ServerPort

  /** Waits for the calls that are under way, then closes the files or connections. Later calls reject. */
  close(): Promise<void>
}

/** For code that takes messages in. */
export interface WritePort {
  /**
   * Makes deliveries durable: all of them, or none if it rejects.
   *
   * @returns for each delivery its id, or `undefined` if the store has that message for that destination already.
   * @throws StoreError if the store is full, or can't write.
   */
  put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]>
}

/** For code that sends messages. */
export interface DispatchPort {
  /**
   * Leases due deliveries for {@link LEASE_MS}: claim by claim, the longest due first. Each leased delivery gets its
   * next attempt number.
   *
   * A claim that gets fewer deliveries than its limit has found all that are due. A store that can't return everything at
   * once calls the listener of {@link Shared.onPut} during the call, with each lane of which it left something.
   *
   * @throws StoreError if the store can't write. A delivery that was leased nevertheless is due again when its lease ends.
   */
  claim(claims: Claim[]): Promise<Delivery[]>

  /**
   * The lanes in which something is due now. Ask once a second, because deliveries become due, leases end, and other
   * processes put deliveries. The cost grows with the number of lanes in which something waits, not with that of all
   * destinations.
   *
   * @throws StoreError if the store does not answer.
   */
  due(): Promise<DueLane[]>

  /**
   * Writes the outcomes of attempts. A settlement is refused if its attempt number is not the delivery's latest,
   * because then a newer claim holds the delivery. It is also refused if the delivery is settled already.
   *
   * If another session of the database has locked the row of a delivery for too long, its settlement is written after this
   * call, as soon as the row is free. A process that ends before then has not settled it, and it is sent again.
   *
   * @returns how many were refused, and of those that were written after former calls, how many have been refused since.
   * @throws StoreError if the store can't write. Give the same objects again then: those that were settled nevertheless
   * are not refused.
   */
  settle(settlements: Settlement[]): Promise<number>

  /**
   * Calls a listener with the settlements that the store has taken: with the objects that {@link settle} was given, and with each of
   * them once. It comes before that call resolves or rejects, and for those that are written after the call, once they are written.
   * If the answer to a settlement was lost, it comes once the store has found out.
   */
  onSettled(listener: (settlements: readonly Settlement[]) => void): void

  /**
   * Calls a listener with leased deliveries that were deleted because their user was, in this process or another. What of them was not
   * sent yet should not be sent any more. The calls about other processes are fast but not reliable: the caller has to ask
   * {@link Shared.gone} too.
   */
  onRemoved(listener: (ids: readonly DeliveryId[]) => void): void
}

/** A lane of a destination. */
export type DueLane = Pick<Claim, 'destination' | 'lane'>

/** For code that shows what is stored. */
export interface ReadPort {
  /**
   * Checks whether the store answers.
   *
   * @throws StoreError if it does not answer.
   */
  ping(): Promise<void>

  /**
   * The number of deliveries in each state that waits or is dead, for each destination that has any. A server that is away has its last
   * count, or none.
   */
  stats(): Promise<Stats[]>

  /**
   * Everything stored of one message: a trace for each of its deliveries. Empty if the message is not known.
   *
   * @throws StoreError if a server is away that may have more of it.
   */
  trace(messageId: string): Promise<Trace[]>

  /** Everything stored of one delivery; `undefined` if there is no such delivery. */
  get(id: DeliveryId): Promise<Trace | undefined>

  /**
   * Searches deliveries, the newest first. One call searches only a slice, so that other calls do not wait for a search
   * through millions of rows. Call it again with `next` until that is `undefined`.
   *
   * @param before - Where to continue; `undefined` starts with the newest.
   * @param limit - The most deliveries in a slice. A slice may have fewer, or none, although more slices follow.
   */
  find(filter: Filter, before: SearchPlace | undefined, limit: number): Promise<Findings>

  /** Searches as {@link find} does, and reads only which deliveries match. That takes a tenth of the time. */
  match(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Matches>

  /**
   * Groups the dead letters of a destination by latest outcome and cause, the latest dead letters first. One call reads
   * only a slice. Call it again with `next` until that is `undefined`.
   *
   * @param before - Where to continue; `undefined` starts with the latest.
   * @param limit - The most dead letters that one call reads.
   */
  deadGroups(destination: string, before: DeadPlace | undefined, limit: number): Promise<DeadGroups>

  /**
   * Counts the dead letters of destinations that died within the last `withinMs`, and are still dead letters.
   *
   * @param most - No destination is counted further than this, so that a call costs no more than that for each.
   */
  deadCounts(destinations: readonly string[], withinMs: number, most: number): Promise<DeadCounts>
}

/** How many messages of a destination a sweep has made dead letters. */
export type OnExpired = (destination: string, count: number) => void

/** The numbers of dead letters of some destinations, in their order. */
export interface DeadCounts {
  counts: number[]
  /** The servers that could not be asked, so that there may be more. */
  away?: string[]
}

/** For code that remembers what happened at the endpoints. All processes of one store share one history. */
export interface HistoryPort {
  /**
   * Adds to the current buckets of all histories, and deletes the buckets that are too old. Call it with what has happened
   * since the last call. A destination and URL must not come twice in one call.
   *
   * @throws StoreError if the store can't write; nothing is added then, unless it says that it is unsure.
   */
  addHistory(counts: HistoryCounts[]): Promise<void>

  /**
   * The buckets of one history that began at `since` or later, the oldest first. An endpoint at which nothing happened has
   * no row. With thousands of endpoints, ask for a few hundred rows at a time, so that other calls do not wait.
   *
   * @param since - Ms since the epoch, by the store's clock.
   * @param after - The last row of the call before, to go on behind it.
   */
  history(
    span: HistorySpan,
    since: number,
    after: HistoryPlace | undefined,
    limit: number,
  ): Promise<HistoryRow[]>
}

/** For code that keeps the members of audiences. */
export interface AudiencePort {
  /**
   * Begins a sync of an audience with a list of its members. An audience that does not exist is created. The new sync
   * supersedes all older syncs of the audience, including those of a process that has ended.
   *
   * From the first sync in which a destination is enabled, the store knows what the destination was told. It forgets this
   * when a sync begins without the destination, and by {@link forgetDestinations}.
   *
   * @param destinations - The destinations of the settings, also those that are not enabled.
   * @throws StoreError if the store can't write.
   */
  beginSync(audience: string, destinations: readonly AudienceDestination[]): Promise<Sync>

  /**
   * Records that users are in the list of a sync. For each user who was not a member before, the same transaction puts
   * the messages, one for each destination. For a destination without a message it records that the change was not told.
   * A user who comes twice joins once. The result is durable.
   *
   * A destination gets no message of a change that it does not have to know: a user has joined again who left while the
   * destination was not enabled, or {@link catchUp} is still going to tell it of the user.
   *
   * @param messages - One for each enabled destination.
   * @returns how many joined.
   * @throws StoreError `superseded` if a newer sync has begun, and then nothing is recorded; others as
   * {@link WritePort.put}.
   */
  join(sync: Sync, members: string[], messages: MemberMessage[]): Promise<number>

  /**
   * Reads `limit` members and removes those who are not in the list of a sync. It puts the messages for them as
   * {@link join} does. Call it again with `next` until that is `undefined`.
   *
   * @param from - An empty string in the first call, then `next` of the previous one.
   * @throws StoreError as {@link join}.
   */
  leave(sync: Sync, from: string, limit: number, messages: MemberMessage[]): Promise<Left>

  /**
   * Puts up to `limit` messages for destinations that do not know all members: of everyone for a new destination, and of
   * the changes that happened while a destination was not enabled. It records in the same transaction that they were
   * told. Call it after the last {@link leave}, and again until it is done.
   *
   * @param arrivals - The messages about members, one for each enabled destination.
   * @param departures - The messages about users who left, for the same destinations in the same order.
   * @throws StoreError as {@link join}.
   */
  catchUp(
    sync: Sync,
    limit: number,
    arrivals: MemberMessage[],
    departures: MemberMessage[],
  ): Promise<CaughtUp>

  /**
   * Forgets what destinations were told of all audiences, so that others of their names are new. A sync that has begun tells them
   * nothing more.
   *
   * @throws StoreError if the store can't write.
   */
  forgetDestinations(names: readonly string[]): Promise<void>
}

/**
 * For code that keeps small named records, such as settings that change at run time. The store does not look into them.
 *
 * Each change raises the store's revision by one, and is the new version of its record. So a version never comes back, not
 * even if a record is deleted and created again.
 */
export interface RecordPort {
  /**
   * Changes records: all of them, or none if it rejects. The result is durable. Every process of the store sees the changes
   * in the order of their versions.
   *
   * @param unchangedSince - The revision that the caller has decided by. If any record was changed after it, nothing is
   * written. Without it, only the versions of the changed records count.
   * @returns the new version of each record.
   * @throws StoreError `conflict` if a record has another version than its change expects, or if there is a newer revision
   * than `unchangedSince`; others as {@link WritePort.put}.
   */
  writeRecords(changes: readonly RecordChange[], unchangedSince?: number): Promise<number[]>

  /**
   * The records whose version is above `after`, in the order of their versions. A deleted record has no body. From 0, only
   * records that exist are returned.
   *
   * To follow the changes, call it again with the last version while it returns `limit` records, and from then on with the
   * revision. Whoever has paused at a revision below `forgotten` has missed deletions, and must start again from 0.
   */
  records(after: number, limit: number): Promise<Records>

  /**
   * What was written about changes of records, the newest first.
   *
   * @param about - The record; `undefined` for all records.
   * @param before - The id of an entry to continue behind; `undefined` starts with the newest.
   */
  recordLog(
    about: RecordKey | undefined,
    before: number | undefined,
    limit: number,
  ): Promise<LogEntry[]>

  /**
   * Deletes old entries of the log, and what is kept of deleted records. Call it again while it returns `limit`.
   *
   * @param olderThanMs - How long both are kept, in ms.
   * @param limit - The most rows that one call deletes.
   * @returns how many it deleted.
   * @throws StoreError if the store can't write.
   */
  forgetRecords(olderThanMs: number, limit: number): Promise<number>
}

/** For code that has to know what other processes do with the store. It asks for the `Name`s that it uses. */
export interface SharedPort<Name extends keyof Shared = keyof Shared> {
  /** Only a store that several processes can share has this. Without it, everything happens by calls of this process. */
  readonly shared?: Pick<Shared, Name>
}

/** What the processes of a store share, and how they hear of each other. */
export interface Shared {
  /** What the workers share. */
  readonly workers: Workers

  /**
   * How many workers live that deliver from this store, without this process: see {@link Workers.heartbeat}.
   *
   * @throws StoreError if the store does not answer.
   */
  liveWorkers(): Promise<number>

  /**
   * Calls a listener with each lane in which something is due that the caller may not know: another process has just put
   * it there, or a claim of this process has left it. The calls about other processes are fast but not reliable: the
   * listener has to poll too.
   */
  onPut(listener: (destination: string, lane: Lane) => void): void

  /**
   * Which of these deliveries were deleted. In a store that is not shared, the listener of {@link DispatchPort.onRemoved} hears of all
   * of them.
   *
   * @throws StoreError if the store does not answer.
   */
  gone(ids: readonly DeliveryId[]): Promise<DeliveryId[]>

  /**
   * Adds a listener, which is called soon after another process has changed records. This is not reliable: the listener's owner has to look
   * for new revisions too.
   */
  onRecords(listener: () => void): void
}

/** For code that writes times into records, or compares times with those of the store or of another process. */
export interface ClockPort {
  /**
   * The store's clock, as this process knows it. Whatever the clocks of their machines show, all processes of a store have the same
   * time, and a restart does not change it.
   *
   * A store in PostgreSQL has the clock of its server, and one of several servers that of the home. If somebody sets that clock, its
   * time jumps, here and in all that the server stores. With SQLite, `now` never jumps.
   */
  readonly clock: Clock
}

/** For the move to another store. */
export interface MoveRecordsPort {
  /**
   * Adds records of another store: all of them, or none if it rejects. A record that this store has, or has deleted, stays
   * as it is. The others get versions of this store.
   *
   * @param after - The versions are above this one: the revision of the other store, so that none of its versions comes back.
   * @returns for each record whether it was added.
   */
  copyRecordsIn(records: readonly StoredRecord[], after: number): Promise<boolean[]>

  /** Adds entries of another store's log, but not those that this store has already. */
  copyLogIn(entries: readonly LogEntry[]): Promise<void>
}

/** For code that changes, deletes or moves what is stored. */
export interface MaintainPort {
  /**
   * Replays dead letters: they are due at once, at all endpoints, with a new retry window. Their attempt numbers
   * continue, and their attempts so far stay in the log. Other deliveries are left alone, so that the same call can be
   * repeated.
   *
   * @param withDone - Whether delivered messages are replayed too.
   * @param lane - Where they wait; by default `backlog`.
   * @param asOf - Replays only what {@link Filter.asOf} matches, so that a call that is repeated replays nothing twice.
   * @returns the ids of the deliveries that were replayed.
   * @throws StoreError if the store can't write; nothing is replayed then.
   */
  replay(
    ids: readonly DeliveryId[],
    withDone: boolean,
    lane?: ReplayLane,
    asOf?: number,
  ): Promise<DeliveryId[]>

  /**
   * Deletes settled deliveries that are older than the retention, and makes dead letters of older ones that still wait.
   * The age counts from the put. For dead letters it counts from their death, and for replayed deliveries from the
   * replay. What has arrived may be kept for longer if it was replayed, claimed in vain or copied: its age may count from its first
   * attempt. A delivery that is being sent, or was first attempted less than {@link RETRIED_MS} ago, is left for a later call.
   * Deliveries that would wait for hours because the store's clock was ahead are made due. Call it again while it returns
   * `limit`.
   *
   * @param olderThanMs - The retention, in ms.
   * @param limit - The most deliveries that one call changes.
   * @param expired - Is told how many became dead letters, once for each destination that has any, or a few times. It is told also
   * if the call then rejects. If the answer to them is lost, a later call tells of them.
   * @returns how many it changed.
   */
  sweep(olderThanMs: number, limit: number, expired?: OnExpired): Promise<number>

  /** Only stores whose other calls go on during a {@link sweep} have this. */
  readonly sweepsAside?: true

  /**
   * Deletes messages that wait for a destination. Those that are being sent stay. Call it again while it returns `limit`.
   *
   * @param limit - The most messages that one call deletes.
   * @returns how many it deleted.
   * @throws StoreError if the store can't write.
   */
  discard(destination: string, limit: number): Promise<number>

  /** Whether anything is stored of a user, apart from `delete` messages. */
  hasUser(user: string): Promise<boolean>

  /**
   * Deletes what is stored of a user: memberships, and messages in any state with their attempts. `delete` messages
   * stay, because they still have to be sent. A message that is being sent is deleted too, and its settlement is
   * refused. One call deletes only a part: call it again with `next` until that is `undefined`.
   *
   * @param from - 0 in the first call, then `next` of the previous one.
   * @throws StoreError if the store can't write.
   */
  purgeUser(user: string, from: number): Promise<Purged>

  /**
   * What {@link ReadPort.stats} says, of all servers and at this moment, for what must not be decided by less.
   *
   * @throws StoreError if a server is away, or if this process does not know all servers.
   */
  completeStats(): Promise<Stats[]>

  /** The number of deliveries in any state. */
  count(): Promise<number>

  /** Copies of up to `limit` deliveries whose ids come after `after`, in the order of ids, for another store. */
  copyOut(after: DeliveryId, limit: number): Promise<Copy[]>

  /**
   * Adds deliveries from another store: all of them, or none if it rejects. A message that this store already has for
   * the same destination stays as it is, so that the same copies can be given again.
   *
   * @returns for each copy whether it was added.
   * @throws StoreError if the store is full, or can't write.
   */
  copyIn(copies: Copy[]): Promise<boolean[]>

  /** This store's own versions of deliveries from another store; `undefined` for those that it does not have. */
  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]>
}

/** The lane of a replay. A single message does not wait behind bulk work. */
export type ReplayLane = Exclude<Lane, 'fresh'>

/** One list of an audience's members while it arrives. Each newer sync of an audience has a higher number. */
export interface Sync {
  audience: string
  number: number
}

/**
 * The message that one destination gets about a user who joins or leaves. Its body is `before`, then the user's id as
 * JSON, then `after`.
 */
export interface MemberMessage {
  source: string
  destination: string
  before: string
  after: string
}

/** A destination of the settings. One that is not enabled gets no messages about members. */
export interface AudienceDestination {
  name: string
  enabled: boolean
}

/** Identifies a record. Both parts together have at most 500 characters. */
export interface RecordKey {
  /** What the record is, such as `source`. Each kind has its own names. */
  kind: string
  name: string
}

/** A change of one record. */
export interface RecordChange extends RecordKey {
  /** The version that the record has now; 0 if it must not exist. */
  version: number
  /** The new content; `undefined` deletes the record. */
  body: string | undefined
  /** What the log of the records says about this change; without it, the log has no entry. Leave out secrets. */
  entry?: string
}

/** A record as it is stored. */
export interface StoredRecord extends RecordKey {
  version: number
  /** `undefined` if the record was deleted. */
  body: string | undefined
}

/** A slice of the records. */
export interface Records {
  records: StoredRecord[]
  /** The version of the latest change of any record; 0 if there was none. */
  revision: number
  /** Deletions up to this version may be missing. */
  forgotten: number
  /**
   * Another one than before means that the store may have been restored: its versions then say nothing about what was read before.
   * There is none where nobody else can restore it while this process runs.
   */
  history?: string
}

/** What was written about a change of a record. */
export interface LogEntry extends RecordKey {
  /** Newer entries have higher ids. */
  id: number
  /** When the change was made, in ms since the epoch. */
  at: number
  entry: string
}

/** How many messages were put, and whether every enabled destination knows all members now. */
export interface CaughtUp {
  caughtUp: number
  isDone: boolean
}

/** How many members left, and where to continue; `next` is `undefined` at the end. */
export interface Left {
  left: number
  next: string | undefined
}

/** How many messages and memberships were deleted, and where to continue; `next` is `undefined` at the end. */
export interface Purged {
  purged: number
  next: number | undefined
}

/** A part of a purge, as the stores carry it out. */
export interface PurgedPart extends Purged {
  /** Those of the deleted messages that were leased, so that they may be being sent. */
  leased: DeliveryId[]
}

/** How many deliveries a claim of untried ones looks at. */
export const NEWEST = 1_000

/**
 * In ms: a message may have another attempt for this long after the first one. This is the retry window of 4 hours, and half
 * an hour for a last attempt that waits behind other messages.
 */
export const RETRIED_MS = 4.5 * 3_600_000

/**
 * How long a lease holds, in ms. A delivery waits up to 5 s for a free connection and its attempt takes up to 5 s; the
 * rest is time to settle.
 */
export const LEASE_MS = 30_000
