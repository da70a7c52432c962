import type { CallType } from '../model/call.js'
import {
  findChanges,
  findChangesInCall,
  markChanges,
  toChange,
  type ChangedNumber,
} from '../model/changed-numbers.js'
import { isFields } from '../http/json-body.js'
import type { Rejected } from '../http/refusal.js'

/** A number in an accepted call that is forwarded with another value. */
export interface Warning extends ChangedNumber {
  /** The index of the call in the batch. It is left out if the number is in a field of the batch, for all calls. */
  index?: number
}

/** The warnings about a request. */
export interface Warnings {
  /** The first {@link MAX_WARNINGS}. */
  warnings: Warning[]
  /** The number of all warnings. */
  count: number
}

/** The most warnings in one answer, because each number of a large batch could have one. */
const MAX_WARNINGS = 100

const NONE: Warnings = { warnings: [], count: 0 }

/**
 * Finds the numbers of a request that are forwarded with another value.
 *
 * @param text - The body of the request, valid JSON.
 * @param type - The type that the URL names; `undefined` for a batch.
 * @param rejected - The calls that were not accepted. They have no warnings.
 */
export function warningsOf(
  text: string,
  type: CallType | undefined,
  rejected: readonly Rejected[],
): Warnings {
  const marked = markChanges(text)
  if (!isFields(marked)) return NONE
  const warnings: Warning[] = []
  let count = 0
  const add = (path: string, number: string, index?: number) => {
    count++
    if (count > MAX_WARNINGS) return
    warnings.push({ ...(index !== undefined && { index }), ...toChange(path, number) })
  }
  if (type === undefined) findChanges(marked['context'], 'context', add)
  const messages = type === undefined ? (marked['batch'] as unknown[]) : [marked]
  const refused = new Set(rejected.map(({ index }) => index))
  for (const [index, message] of messages.entries()) {
    if (refused.has(index)) continue
    findChangesInCall(message, (path, number) => {
      add(path, number, index)
    })
  }
  return { warnings, count }
}
