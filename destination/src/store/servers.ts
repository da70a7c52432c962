import type { Copy, DeliveryId, NewDelivery } from '../model/delivery.js'

/** The servers over which the messages of one store are spread. */
export interface Servers {
  /** The state of each server, the home first. */
  list(): ServerState[]
  /** Calls a listener whenever the state of a server has changed. */
  onChange(listener: (state: ServerState) => void): void
  /** Reads which server owns which share. @throws StoreError if the home is away. */
  directory(): Promise<Directory>
  /**
   * Moves shares to other servers, while the store is in use. It first finishes the moves that were interrupted. So whoever was
   * interrupted calls it again with the same plan. A share that is where it should be stays there.
   *
   * @param plan - Decides the new owner of each share by the present directory. A share without one stays.
   * @param signal - Stops the move after the messages that are being moved. The promise rejects with its reason then.
   * @throws StoreError `locked` if another process moves shares, `unsupported` for a server that does not exist; others if a server
   * fails.
   */
  move(
    plan: (directory: Directory) => ReadonlyMap<number, string>,
    report: (progress: MoveProgress) => void,
    signal?: AbortSignal,
  ): Promise<void>
}

/** What a move of shares has done. */
export interface MoveProgress {
  from: string
  to: string
  /** The shares that move from this server to that one. */
  shares: number[]
  /** How many messages that waited have been moved. */
  moved: number
  /** How many messages still have to be moved as far as is known, because they are being sent. */
  left: number
}

/** The state of a server, as this process sees it. */
export interface ServerState {
  name: string
  /** Why it can't be reached, or fails; `undefined` if it works. */
  error: Error | undefined
}

/** What each of the servers of a store has to know: who it is, and which shares of the messages are its own. */
export interface ServerPort {
  /** Who this server is; `undefined` if it is not one of several yet. */
  identity(): Promise<ServerIdentity | undefined>

  /**
   * Makes this server the home of a store of several servers, or adds servers to that store. The home has the directory, and
   * what does not belong to a source. The directory of a new store has no shares before {@link divide}.
   *
   * @param names - The names of all servers. The first one is that of this server.
   * @throws StoreError `unsupported` if this server is another one of a store, or there would be too many.
   */
  found(names: readonly string[]): Promise<Directory>

  /** Reads the directory of the store that has its home here. */
  directory(): Promise<Directory>

  /**
   * Makes this server a part of a store. Its ids are then those of its number.
   *
   * @param wasEnrolled - Whether it was a part of the store before, by the directory.
   * @throws StoreError `unsupported` if it has messages, or is a part of another store, or another part of this one, or if it is
   * empty although it was enrolled before.
   */
  enroll(identity: ServerIdentity, wasEnrolled: boolean): Promise<void>

  /** At the home: the server has been enrolled. @throws StoreError if the directory does not have it any more. */
  noteEnrolled(identity: ServerIdentity): Promise<void>

  /**
   * At the home of a new store: the numbers of the servers that get its shares. They are spread evenly, unless the home has messages
   * already: then all shares are its own.
   *
   * @param numbers - Those of all servers.
   */
  firstOwners(numbers: readonly number[]): Promise<number[]>

  /** At the home of a new store: writes down the first owners of the shares, once they have got them. */
  divide(owners: readonly number[]): Promise<Directory>

  /**
   * As `put` of the store, if the share is still this server's own.
   *
   * @returns `undefined` if it is not: then nothing is stored.
   */
  putOwn(
    deliveries: readonly NewDelivery[],
    share: OwnShare,
  ): Promise<(DeliveryId | undefined)[] | undefined>

  /** For each delivery whether this server has that message for that destination, in whatever state. */
  knows(deliveries: readonly NewDelivery[]): Promise<boolean[]>

  /** For the move of shares; see `several/move.ts`. */
  readonly moving: MovePort
}

/** The steps of a move of shares. Each can be repeated, and has no effect then. */
export interface MovePort {
  /**
   * At the home: works while no other process moves shares.
   *
   * @param work - Calls its argument before it changes an owner or moves messages: it rejects if another process may have begun.
   * @throws StoreError `locked` if another process does.
   */
  alone<T>(work: (stillAlone: () => Promise<void>) => Promise<T>): Promise<T>
  /**
   * At the home: writes down that shares are to go to a server.
   *
   * @param shares - With the epochs that this server has of them, or 0: if they are later, those of the directory are raised to them.
   */
  intend(shares: readonly OwnShare[], to: number): Promise<void>
  /** At the new owner: makes shares its own. Nobody uses them before the directory says so. */
  grant(shares: readonly OwnShare[]): Promise<void>
  /** Which of these shares a server has. */
  owned(shares: readonly number[]): Promise<OwnShare[]>
  /** At the home: writes down that shares stay where they are. @param shares - Those that their owner has. */
  giveUp(shares: readonly OwnShare[]): Promise<void>
  /** At the former owner: takes shares away. Puts that are under way end before. */
  withdraw(shares: readonly OwnShare[]): Promise<void>
  /**
   * At the home: writes down that shares have changed their owner, where that was intended. Call it once the former owner has lost
   * them.
   *
   * @param shares - With their former epochs.
   */
  handOver(shares: readonly OwnShare[]): Promise<void>
  /**
   * At the former owner: moves messages of shares that wait. It looks at a part of all that wait.
   *
   * @param after - The id behind which it begins.
   * @param copyIn - Stores copies at the new owner. A message is deleted here once that has succeeded.
   */
  moveSome(
    shares: readonly number[],
    after: DeliveryId,
    copyIn: (copies: Copy[]) => Promise<unknown>,
  ): Promise<Moved>
  /** At the home: writes down that nothing waits at a former owner any more. @param lastId - Its present {@link lastId}. */
  finish(shares: readonly number[], from: number, lastId: DeliveryId): Promise<void>
  /** The latest id that this server has given. */
  lastId(): Promise<DeliveryId>
  /** The oldest id of a message of this server; `undefined` if it has none. */
  firstId(): Promise<DeliveryId | undefined>
  /** At the home: a former owner has no message any more from before this id. */
  forget(from: number, firstId: DeliveryId | undefined): Promise<void>
}

/** What a slice of a move did. */
export interface Moved {
  moved: number
  /** Messages that have to stay for now, because they are being sent. */
  held: number
  /** Where to go on; `undefined` at the end. */
  next: DeliveryId | undefined
}

/** Who a server is. */
export interface ServerIdentity {
  /** The id of the store, a UUID. */
  store: string
  /** Its place in the store, from 0, which is the home. It never changes. */
  number: number
  name: string
}

/** A share that a server owns. */
export interface OwnShare {
  /** Its number, from 0. */
  share: number
  /** Raised whenever the share gets another owner, so that nobody uses a former directory. */
  epoch: number
}

/** Which server owns which share of the messages. */
export interface Directory {
  /** The id of the store, a UUID. */
  store: string
  /** The name of each server, at the index of its number. A number that nobody has is given an empty name. */
  names: string[]
  /** The numbers of the servers whose databases have been a part of the store. */
  enrolled: number[]
  /** At the index of its number. None before the shares of a new store are divided. */
  shares: SharePlace[]
}

/** Where a share is. */
export interface SharePlace {
  /** The number of its owner. */
  server: number
  epoch: number
  /** The server to which it is about to go; `null` if it stays. */
  next: number | null
  /** The servers that owned it before and may still have messages of it. */
  former: FormerOwner[]
}

/** A server that owned a share before. */
export interface FormerOwner {
  server: number
  /** Whether messages that wait are still being moved from it. */
  isMoving: boolean
}
