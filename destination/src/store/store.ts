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
 * `fresh` and `backlog` are the two lanes. What is fresh arrived while its destination was well; the backlog is
 * all else: retries, and what arrived while the destination was down. A lease ends by itself: when it runs out,
 * the delivery is due again in the backlog, so that a worker that died is missed by nobody.
 *
 * Time crosses this interface as durations alone. The store's own clock is the one that counts, so that a worker
 * whose clock is wrong does no harm.
 */
export interface Store {
  /**
   * Makes deliveries durable, all of them or, if it rejects, none.
   *
   * @returns for each the id, or `undefined` if the store has that message for that destination already.
   * @throws StoreError if the store is full, or can't write.
   */
  put(deliveries: NewDelivery[]): Promise<(DeliveryId | undefined)[]>

  /**
   * Leases what is due for {@link LEASE_MS}: wish by wish, the longest due first. Each claim counts as the start of an
   * attempt.
   *
   * @throws StoreError if the store can't write; nothing is leased then.
   */
  claim(wants: Claim[]): Promise<Delivery[]>

  /**
   * Writes what came of attempts. A settlement whose attempt is not the delivery's latest is refused: a newer
   * claim has the delivery. One of a delivery that is settled already is refused too.
   *
   * @returns how many were refused.
   * @throws StoreError if the store can't write; nothing is settled then, and the same settlements may be given again.
   */
  settle(settlements: Settlement[]): Promise<number>

  /** What is stored of one message: a trace for each destination that it went to. */
  trace(messageId: string): Promise<Trace[]>

  /** What waits, by destination. */
  stats(): Promise<Stats[]>

  /** What is stored of one delivery; `undefined` if there is none. */
  get(id: DeliveryId): Promise<Trace | undefined>

  /**
   * Looks for deliveries, the newest first. Works in slices, so that nobody waits for a search through millions:
   * call it again with `next` while there is one.
   *
   * @param before - Where to go on; `undefined` starts with the newest.
   * @param limit - At most so many; a slice may have fewer, or none, and yet be followed by others.
   */
  find(filter: Filter, before: DeliveryId | undefined, limit: number): Promise<Findings>

  /**
   * Sends dead letters on their way again: due at once, to all endpoints, with a window of their own. Attempts go on
   * counting, and those before stay in the log. What is no dead letter is left alone, so that the same can be asked for
   * again.
   *
   * @param withDone - Takes those that have arrived too.
   * @returns those that were replayed.
   * @throws StoreError if the store can't write; nothing is replayed then.
   */
  replay(ids: readonly DeliveryId[], withDone: boolean): Promise<DeliveryId[]>

  /**
   * Deletes what is older than the retention and settled, and makes dead letters of what is older and still
   * waits. Age counts from the put; that of dead letters from their death, and that of what waits after a replay from
   * the replay. What is being attempted is left for later.
   * Works in slices: call it again while it returns the limit.
   *
   * @returns how many it changed, `limit` at most.
   */
  sweep(olderThanMs: number, limit: number): Promise<number>

  /**
   * Has a listener told of the lanes in which another process has put something just now. Told as soon as can be, and
   * not told at times: who listens has to look by himself too. Only stores that several processes can have do it.
   */
  onPut?(listener: (destination: string, lane: Lane) => void): void

  /** What the workers of one store agree on; only stores that several processes can have know others. */
  readonly crew?: Crew

  /** Ends what is under way and lets go of the files. */
  close(): Promise<void>

  /** How many deliveries it has, of whatever state. */
  count(): Promise<number>

  /** Everything of the deliveries after one, in the order of their ids, for another store; `limit` at most. */
  copyOut(after: DeliveryId, limit: number): Promise<Copy[]>

  /**
   * Adds what another store gave, all of it or, if it rejects, none. What this one has of a message for a destination
   * stays as it is: the same can be given again.
   *
   * @returns for each whether it was added.
   * @throws StoreError
   */
  copyIn(copies: Copy[]): Promise<boolean[]>

  /** What this store has of what another one gave; `undefined` for what it has not. */
  copiesOf(copies: Copy[]): Promise<(Copy | undefined)[]>

  /**
   * Begins a sync of an audience with the list of its members; the audience is made if there is none of the name. It
   * supersedes those that were begun before, also those of a process that is gone.
   *
   * @throws StoreError if the store can't write.
   */
  beginSync(audience: string): Promise<Sync>

  /**
   * Notes that users are members by the list of a sync. For those who were not before, the notices are put, in the same
   * commit, one for each destination; a user who comes twice joins once.
   *
   * @returns how many joined. It is durable.
   * @throws StoreError `superseded` if a newer sync has been begun, and nothing is noted; others as {@link put}.
   */
  join(sync: Sync, members: string[], notices: Notice[]): Promise<number>

  /**
   * Goes through the members, `limit` at a time, and takes out those who are not in the list of a sync; the notices are
   * put for them as in {@link join}.
   *
   * @param from - An empty text to begin with, then what the last call gave as `next`.
   * @throws StoreError as {@link join}.
   */
  leave(sync: Sync, from: string, limit: number, notices: Notice[]): Promise<Left>

  /** Whether anything is stored of a user but deletions. */
  hasUser(user: string): Promise<boolean>

  /**
   * Deletes what is stored of a user: messages whatever their state, with their attempts, and memberships; not the
   * deletions, which are to be sent. What is being attempted goes too: its settlement is refused. Works in slices.
   *
   * @param from - 0 to begin with, then what the last call gave as `next`.
   * @throws StoreError if the store can't write.
   */
  purgeUser(user: string, from: number): Promise<Purged>
}

/** One list of an audience's members on its way in. The numbers of an audience's syncs rise. */
export interface Sync {
  audience: string
  number: number
}

/** What one destination is told of a member; the body is what comes before the user's id in JSON, it, and the rest. */
export interface Notice {
  source: string
  destination: string
  before: string
  after: string
}

/** How many left, and where to go on; `undefined` at the end. */
export interface Left {
  left: number
  next: string | undefined
}

/** How many messages and memberships were deleted, and where to go on; `undefined` at the end. */
export interface Purged {
  purged: number
  next: number | undefined
}

/**
 * The processes that deliver from one store. They share what endpoints can bear: each takes its part of an
 * endpoint's cap, and one of them at a time probes an endpoint that is down.
 */
export interface Crew {
  /**
   * A sign of life, to be given every {@link CREW_BEAT_MS}; the first one joins.
   *
   * One that joins is known to the others at their next beat. Until then, workers that each take 1/n of a cap, and 1 at
   * least, are above it together, but below twice the cap. One that died counts for {@link CREW_SILENCE_MS}.
   *
   * @returns how many workers there are, with this one.
   * @throws StoreError
   */
  beat(): Promise<number>

  /**
   * Asks for the leave to probe an endpoint that is down. Of all that ask, one has it for a while: for `firstMs` the
   * first time, then for twice as long each time, up to `maxMs`.
   *
   * @returns for how long, in ms; 0 if another has it.
   * @throws StoreError
   */
  tryProbe(endpoint: string, firstMs: number, maxMs: number): Promise<number>

  /**
   * Tells that an endpoint is well: whoever asks next to probe it may do so at once, and it begins with `firstMs`.
   *
   * @throws StoreError
   */
  endProbes(endpoint: string): Promise<void>
}

/** How often a worker gives a sign of life, in ms. */
export const CREW_BEAT_MS = 5_000

/** A worker that gave none for so long, in ms, is no longer counted. */
export const CREW_SILENCE_MS = 15_000

/** How long a claim holds: a wait of 5 s for a free connection, the 5 s of an attempt, and ample time to settle. */
export const LEASE_MS = 30_000
