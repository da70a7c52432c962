/**
 * The store could not do what it was asked. `full`: there is no room; `locked`: another process has the store;
 * `newer`: it was written by a newer version; `unsupported`: such a store can't be opened here;
 * `superseded`: a newer sync of the audience has been begun; `failed`: anything else.
 */
export type StoreErrorCode = 'full' | 'locked' | 'newer' | 'failed' | 'unsupported' | 'superseded'

/** The store could not do what it was asked; the cause is kept. */
export class StoreError extends Error {
  /** Tells it apart where classes can't be compared. */
  override readonly name = 'StoreError'

  constructor(
    /** What to act on. */
    readonly code: StoreErrorCode,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options)
  }
}
