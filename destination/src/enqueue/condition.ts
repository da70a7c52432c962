import sift from 'sift'
import type { Call } from '../model/call.js'
import { matcher } from '../model/wildcard.js'
import type { Where } from '../settings/settings.js'

/** One field of a condition, which a call has to fulfil together with the others. */
export interface Condition {
  /** The name of the field, or `$and` or `$or`. */
  field: string
  isMet: (call: Call) => boolean
}

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
  $in: sift.$in,
  $nin: sift.$nin,
  $exists: sift.$exists,
  $not: sift.$not,
  $and: sift.$and,
  $or: sift.$or,
  $like: (pattern: string, query: unknown, options: Parameters<typeof sift.$eq>[2]) => {
    const matches = matcher(pattern)
    // A function in the place of a value tests each value.
    return sift.$eq((value: unknown) => typeof value === 'string' && matches(value), query, options)
  },
}

/** Compiles a condition from the settings, field by field, so that it can be said which field a call does not fulfil. */
export function conditionsOf(where: Where): Condition[] {
  return Object.entries(where).map(([field, condition]) => ({
    field,
    isMet: sift.createQueryTester<Call>({ [field]: condition } as never, { operations }),
  }))
}
