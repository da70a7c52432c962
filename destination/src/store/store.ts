import type {
  Claim,
  Copy,
  Delivery,
  DeliveryId,
  Filter,
  Findings,
  Lane,
  NewDelivery,
  Settlement,
  Stats,
  Trace,
} from '../model/delivery.js'

/**
 * Keeps the deliveries. A delivery is one message on its way to one destination.
 *
 *     put ──► fresh ───┐                  ┌──► done
 *       ├───► backlog ─┴─ claim ► leased ─┼──► dead
 *       │        ▲                  │     │
 *       │        └──── settle ──────│─────┘
 *       ├───────────────────────────┘
 *       └───► skipped
 *
 * `fresh` and `backlog` are the two lanes. Fresh deliveries arrived while their destination was healthy. The backlog has
 * all others: retries, and what arrived while the destination was down. A lease ends by itself: when it runs out, the
 * delivery is due again in the backlog, so that nothing is lost with a worker that died.
 *
 * Times cross this interface only as durations. The store's own clock counts, so that a worker whose clock is wrong does
 * no harm.
 *
 * Each part of the service asks for the port that it uses.
 */
export interface Store extends WritePort, DispatchPort, ReadPort, AudiencePort, MaintainPort {
  /** Ends what is under way and closes the files or connections. */
  close(): Promise<void>
}

/** For code that takes messages in. */
export interface WritePort {
  /**
   * Makes deliveries durable, all of them or, if it rejects, none.
   *
   * @returns for each the id, or `undefined` if the store has that message for that destination already.
   * @throws StoreError if the store is full, or can't write.
   */
  put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]>
}

/** For code that sends messages. */
export interface DispatchPort {
  /**
   * Leases what is due for {@link LEASE_MS}: claim by claim, the longest due first. A delivery that is leased gets the
   * next attempt number.
   *
   * @throws StoreError if the store can't write; nothing is leased then.
   */
  claim(claims: Claim[]): Promise<Delivery[]>

  /**
   * Writes the outcomes of attempts. A settlement is refused if its attempt number is not the delivery's latest, because
   * a newer claim has the delivery. It is refused too if the delivery is settled already.
   *
   * @returns how many were refused.
   * @throws StoreError if the store can't write; nothing is settled then, and the same settlements may be given again.
   */
  settle(settlements: Settlement[]): Promise<number>

  /**
   * Tells a listener of the lanes in which another process has just put something. This is fast but not reliable: the
   * listener has to look by itself too. Only stores that several processes can have do it.
   */
  onPut?(listener: (destination: string, lane: Lane) => void): void

  /** What the workers of one store share. Only stores that several processes can have know other workers. */
  readonly workers?: Workers
}

/** For code that shows what is stored. */
export interface ReadPort {
  /**
   * Resolves if the store answers.
   *
   * @throws StoreError if it does not.
   */
  ping(): Promise<void>

  /** How much waits, by destination. */
  stats(): Promise<Stats[]>

  /** What is stored of one message: a trace for each destination that it went to. */
  trace(messageId: string): Promise<Trace[]>

  /** What is stored of one delivery; `undefined` if there is none. */
  get(id: DeliveryId): Promise<Trace | undefined>

  /**
   * Looks for deliveries, the newest first. Works in slices, so that nobody waits for a search through millions:
   * call it again with `next` while there is one.
   *
   * @param before - Where to continue; `undefined` starts with the newest.
   * @param limit - At most so many. A slice may have fewer, or none, although more slices follow.
   */
  find(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Findings>
}

/** For code that keeps the members of audiences. */
export interface AudiencePort {
  /**
   * Begins a sync of an audience with the list of its members. An audience that does not exist is created. The sync
   * supersedes all syncs that were begun before, also those of a process that has ended.
   *
   * @throws StoreError if the store can't write.
   */
  beginSync(audience: string): Promise<Sync>

  /**
   * Notes that users are members by the list of a sync. For users who were not members before, the messages are put in
   * the same commit, one for each destination. A user who comes twice joins once.
   *
   * @returns how many joined. It is durable.
   * @throws StoreError `superseded` if a newer sync has been begun, and nothing is noted; others as {@link WritePort.put}.
   */
  join(sync: Sync, members: string[], messages: MemberMessage[]): Promise<number>

  /**
   * Goes through the members, `limit` at a time, and removes those who are not in the list of a sync. The messages are
   * put for them as in {@link join}.
   *
   * @param from - An empty text to begin with, then `next` of the last call.
   * @throws StoreError as {@link join}.
   */
  leave(sync: Sync, from: string, limit: number, messages: MemberMessage[]): Promise<Left>
}

/** For code that changes, deletes or moves what is stored. */
export interface MaintainPort {
  /**
   * Sends dead letters again: they are due at once, at all endpoints, with a retry window of their own. Attempt numbers go
   * on, and the attempts so far stay in the log. Deliveries that are not dead are left alone, so that the same can be
   * asked for again.
   *
   * @param withDone - Sends delivered messages again too.
   * @returns those that were replayed.
   * @throws StoreError if the store can't write; nothing is replayed then.
   */
  replay(ids: readonly DeliveryId[], withDone: boolean): Promise<DeliveryId[]>

  /**
   * Deletes settled deliveries that are older than the retention, and makes dead letters of older ones that still wait.
   * The age counts from the put; for dead letters it counts from their death, and for deliveries that wait after a replay
   * from the replay. A delivery that is being sent is left for later.
   * Works in slices: call it again while it returns the limit.
   *
   * @returns how many it changed, `limit` at most.
   */
  sweep(olderThanMs: number, limit: number): Promise<number>

  /** Whether anything but deletions is stored of a user. */
  hasUser(user: string): Promise<boolean>

  /**
   * Deletes what is stored of a user: memberships, and messages in any state with their attempts. The deletions
   * themselves stay, because they are to be sent. A message that is being sent is deleted too, and its settlement is
   * refused. Works in slices.
   *
   * @param from - 0 to begin with, then `next` of the last call.
   * @throws StoreError if the store can't write.
   */
  purgeUser(user: string, from: number): Promise<Purged>

  /** How many deliveries it has, in any state. */
  count(): Promise<number>

  /** Everything of the deliveries after one, in the order of their ids, for another store; `limit` at most. */
  copyOut(after: DeliveryId, limit: number): Promise<Copy[]>

  /**
   * Adds what another store gave, all of it or, if it rejects, none. If this store has a message for a destination
   * already, that stays as it is, so that the same copies can be given again.
   *
   * @returns for each whether it was added.
   * @throws StoreError
   */
  copyIn(copies: Copy[]): Promise<boolean[]>

  /** What this store has of the deliveries that another one gave; `undefined` for those that it does not have. */
  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]>
}

/** One list of an audience's members while it comes in. The numbers of an audience's syncs rise. */
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

/** How many left, and where to continue; `undefined` at the end. */
export interface Left {
  left: number
  next: string | undefined
}

/** How many messages and memberships were deleted, and where to continue; `undefined` at the end. */
export interface Purged {
  purged: number
  next: number | undefined
}

/**
 * The processes that deliver from one store. They share the load that endpoints can take: each worker takes its part of
 * an endpoint's cap, and one of them at a time probes an endpoint that is down.
 */
export interface Workers {
  /**
   * A sign of life, to be given every {@link HEARTBEAT_MS}. The first one joins.
   *
   * The other workers learn of a new one at their next heartbeat. Until then, workers that each take 1/n of a cap, and at
   * least 1, exceed it together, but stay below twice the cap. A worker that died counts for {@link WORKER_TIMEOUT_MS}.
   *
   * @returns how many workers there are, this one included.
   * @throws StoreError
   */
  heartbeat(): Promise<number>

  /**
   * Asks for the permission to probe an endpoint that is down. Of all workers that ask, one gets it for a while: for
   * `firstMs` the first time, then for twice as long each time, up to `maxMs`.
   *
   * @returns for how long, in ms; 0 if another worker has it.
   * @throws StoreError
   */
  tryProbe(endpoint: string, firstMs: number, maxMs: number): Promise<number>

  /**
   * Tells that an endpoint is healthy again. The next worker that asks to probe it gets the permission at once, for
   * `firstMs`.
   *
   * @throws StoreError
   */
  endProbes(endpoint: string): Promise<void>
}

/** How often a worker gives a sign of life, in ms. */
export const HEARTBEAT_MS = 5_000

/** A worker that gave no sign of life for so long, in ms, is no longer counted. */
export const WORKER_TIMEOUT_MS = 15_000

/** How long a lease holds: 5 s of waiting for a free connection, 5 s for the attempt, and ample time to settle. */
export const LEASE_MS = 30_000
