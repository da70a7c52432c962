import type { RecordKey } from './store.js'
import { StoreError } from './store-error.js'
import { toStored } from './text.js'

/** The kind and the name of a record, as both engines store them. */
export function recordKey({ kind, name }: RecordKey): [kind: string, name: string] {
  return [toStored(kind), toStored(name)]
}

/** A record has another version than its change expects. */
export function conflictOf(
  { kind, name, version }: RecordKey & { version: number },
  found: number,
) {
  const expected = version === 0 ? 'not to exist' : `to have the version ${version}`
  const is = found === 0 ? 'it does not exist' : `it has the version ${found}`
  return new StoreError(
    'conflict',
    `The ${kind} ${JSON.stringify(name)} was expected ${expected}, but ${is}.`,
  )
}

/** A record was changed after the revision that the caller has decided by. */
export function staleRevision() {
  return new StoreError(
    'conflict',
    'Another change was made meanwhile. Read the records again, and decide again.',
  )
}
