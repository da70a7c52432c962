/**
 * Why a call of the store failed.
 *
 * - `full`: there is no room.
 * - `locked`: another process uses the store.
 * - `newer`: a newer version wrote the store.
 * - `unsupported`: such a store can't be opened here.
 * - `superseded`: a newer sync of the audience has begun.
 * - `conflict`: a record was changed meanwhile.
 * - `removed`: the file of the store was removed or replaced while it was in use.
 * - `failed`: anything else.
 */
export type StoreErrorCode =
  'full' | 'locked' | 'newer' | 'failed' | 'unsupported' | 'superseded' | 'conflict' | 'removed'

/** A call of the store failed. `message` says what to do; `cause` is the error of the database or the system. */
export class StoreError extends Error {
  /** Identifies the error where `instanceof` fails, because the class was loaded twice. */
  override readonly name = 'StoreError'

  /** Whether the server of the store can't be reached now, so that the same call may succeed later. */
  readonly isUnreachable: boolean

  /** Whether the call may have been carried out nevertheless, because only its answer was lost. */
  readonly isUnsure: boolean

  /**
   * Whether the server answers, and may do later what it can't do now: its tables are locked, it is a standby, too slow, or full, or it
   * ends connections that it finds idle.
   */
  readonly mayPass: boolean

  /** The name of the server that failed, if the store has several. What the others have is not affected. */
  readonly server: string | undefined

  constructor(
    /** What a caller acts on. */
    readonly code: StoreErrorCode,
    message: string,
    options?: {
      cause?: unknown
      isUnreachable?: boolean
      isUnsure?: boolean
      mayPass?: boolean
      server?: string
    },
  ) {
    super(message, options)
    this.isUnreachable = options?.isUnreachable ?? false
    this.isUnsure = options?.isUnsure ?? false
    this.mayPass = options?.mayPass ?? false
    this.server = options?.server
  }
}

/** Whether a record was changed meanwhile, so that a decision by its former version does not hold. */
export function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'conflict'
}

/**
 * Does something again and again until no record is changed meanwhile.
 *
 * @param tries - How often it is done at most.
 * @param work - Reads the newest records each time, decides by them, and writes.
 */
export async function untilNoConflict<T>(tries: number, work: () => Promise<T>): Promise<T> {
  for (let count = 1; ; count++) {
    try {
      return await work()
    } catch (error) {
      if (!isConflict(error) || count >= tries) throw error
    }
  }
}
