import { isPostgres, type StorePlace } from '../store/kind.js'
import { StoreError } from '../store/store-error.js'

/** What a process does: collect calls, deliver them, or both. */
export type Role = 'all' | 'collector' | 'worker'

/** All roles. The first is the default. */
export const ROLES: readonly Role[] = ['all', 'collector', 'worker']

/**
 * Refuses a role that does only a part of the work if the store can't be shared with a process that does the rest.
 *
 * @param store - Where the store is.
 * @throws StoreError `unsupported` if only one process at a time can use the store.
 */
export function checkRole(role: Role, store: StorePlace): void {
  if (role === 'all' || isPostgres(store)) return
  throw new StoreError(
    'unsupported',
    `store: the role ${role} needs PostgreSQL, because only one process at a time can use a SQLite store. ` +
      'Set "store" to a postgres:// URL, or run with --role all.',
  )
}
