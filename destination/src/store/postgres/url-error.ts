import { StoreError } from '../store-error.js'

/** The error of a store's URL that can't be used. @param what - Continues "the URL". It never contains the password. */
export function urlError(what: string, cause?: unknown): StoreError {
  return new StoreError('unsupported', `store: the URL ${what}.`, { cause })
}
