import sift from 'sift'
import type { Call } from '../model/call.js'
import { matcher } from '../model/wildcard.js'
import type { Where } from './settings.js'

/** One field of a condition, which a call has to fulfil together with the others. */
export interface Condition {
  /** The name of the field, or `$and` or `$or`. */
  field: string
  isMet: (call: Call) => boolean
}

/** What the operators of sift get beside a value. */
type Rest = [query: unknown, options: Parameters<typeof sift.$eq>[2]]

/**
 * The operators that the settings may use, and no others. `sift` also has `$where`, which runs code, and `$regex`, with which
 * a call could keep the process busy for minutes.
 */
const operations = {
  $eq: sift.$eq,
  $ne: sift.$ne,
  $gt: sift.$gt,
  $gte: sift.$gte,
  $lt: sift.$lt,
  $lte: sift.$lte,
  $in: (list: readonly unknown[], ...rest: Rest) => sift.$in([oneOf(list)], ...rest, '$in'),
  $nin: (list: readonly unknown[], ...rest: Rest) => sift.$nin([oneOf(list)], ...rest, '$nin'),
  $exists: sift.$exists,
  $not: sift.$not,
  $and: sift.$and,
  $or: sift.$or,
  $like: (pattern: string, ...rest: Rest) => {
    const matches = matcher(pattern)
    return sift.$eq((value: unknown) => typeof value === 'string' && matches(value), ...rest)
  },
}

/**
 * Tests whether a value is one of those of a list. sift would compare each element of a call's list with each of these.
 *
 * Where sift expects a value, it may get such a function.
 */
function oneOf(list: readonly unknown[]) {
  const values = new Set(list)
  return (value: unknown) => values.has(value ?? null)
}

/** Compiles a condition from the settings, field by field, so that it can be said which field a call does not fulfil. */
export function conditionsOf(where: Where): Condition[] {
  return Object.entries(where).map(([field, condition]) => ({
    field,
    isMet: sift.createQueryTester<Call>({ [field]: condition } as never, { operations }),
  }))
}
