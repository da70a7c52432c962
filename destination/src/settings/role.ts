import { isPostgres } from '../store/kind.js'
import { StoreError } from '../store/store-error.js'

/** What a process does: collect calls, deliver them, or both. */
export type Role = 'all' | 'collector' | 'worker'

/** With the default first. */
export const ROLES: readonly Role[] = ['all', 'collector', 'worker']

/**
 * Sees to it that a process that does a part of the work has others that do the rest.
 *
 * @param store - The store's URL.
 * @throws StoreError `unsupported` if only one process can have the store.
 */
export function checkRole(role: Role, store: string): void {
  if (role === 'all' || isPostgres(store)) return
  throw new StoreError(
    'unsupported',
    `store: the role ${role} needs PostgreSQL, because only one process at a time can use a SQLite store. ` +
      'Set "store" to a postgres:// URL, or run with --role all.',
  )
}
