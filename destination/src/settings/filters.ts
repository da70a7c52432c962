import { CALL_TYPES, type CallType } from '../model/call.js'
import { covers } from '../model/wildcard.js'
import type { Refuse } from './problem.js'
import type { CallFilter } from './settings.js'
import { suggest } from './suggest.js'

// The rules for each part of a filter. A filter that can let nothing through, or that has no effect, is a mistake.

/** Reads a list of types of calls. */
export function readTypes(given: unknown, refuse: Refuse): CallType[] | undefined {
  if (!isList(given)) {
    refuse(`expected a list of at least one type of call (${CALL_TYPES.join(', ')}), got {got}.`)
    return undefined
  }
  return given.flatMap((type, index) => {
    const problem = problemOfType(type) ?? problemOfRepeated(given, index)
    if (problem !== undefined) refuse(problem, index)
    return problem === undefined ? [type as CallType] : []
  })
}

/** What is wrong with a type of call; `undefined` if nothing is. */
export function problemOfType(given: unknown): string | undefined {
  if (CALL_TYPES.some((type) => type === given)) return undefined
  if (given === 'delete') {
    return 'a delete message is not a call, and is never filtered. Remove it.'
  }
  const meant = typeof given === 'string' ? suggest(given, CALL_TYPES) : undefined
  return `expected one of ${CALL_TYPES.join(', ')}, got {got}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`
}

/** The most patterns of one list. Without wildcards, their number has no effect on the speed. */
const MAX_PATTERNS = 1_000

/** Reads a list of patterns for the names of events. */
export function readPatterns(given: unknown, refuse: Refuse): string[] | undefined {
  if (!isList(given) || given.length > MAX_PATTERNS) {
    refuse(
      `expected a list of 1 to ${MAX_PATTERNS.toLocaleString('en')} names of events, such as ["Order *"], got {got}.`,
    )
    return undefined
  }
  return given.flatMap((pattern, index) => {
    const problem = problemOfPattern(pattern) ?? problemOfRepeated(given, index)
    if (problem !== undefined) refuse(problem, index)
    return problem === undefined ? [pattern as string] : []
  })
}

/** In characters. The time to match a text grows with the pattern. */
const MAX_PATTERN_LENGTH = 200

/** What is wrong with a pattern; `undefined` if nothing is. */
export function problemOfPattern(given: unknown): string | undefined {
  if (typeof given !== 'string' || given === '' || given.length > MAX_PATTERN_LENGTH) {
    return `expected a text of 1 to ${MAX_PATTERN_LENGTH} characters, in which * stands for any text, got {got}.`
  }
  // The pattern is stored in the reason of the calls that it stops, and PostgreSQL refuses NUL in a text.
  if (/\p{Cc}/u.test(given)) return 'expected a text without control characters, got {got}.'
  if (given.trim() !== given) {
    return 'expected no white space at the start or the end, got {got}. Remove it, or write a * in its place.'
  }
  return undefined
}

/** Refuses a filter that lets nothing through, or that has no effect. All parts of it are right by themselves. */
export function refuseUseless({ types, events, where }: CallFilter, refuse: Refuse): void {
  if (!types && !events && !where) {
    refuse(
      'expected at least one of types, events and where. Without them, the filter does nothing.',
    )
  }
  if (!events) return
  const { allow, deny } = events
  if (!allow && !deny) refuse('expected allow, deny or both.', 'events')
  if (types && !types.includes('track')) {
    refuse(
      'has no effect, because types does not have "track", and only track calls have an event. Remove one of the two.',
      'events',
    )
  }
  const widest = allow ?? ['*']
  const denied = widest.every((one) => deny?.some((pattern) => covers(pattern, one)))
  if (!denied) return
  refuse(
    `denies everything that ${allow ? 'allow allows' : 'there is'}, so no event passes. ` +
      'To stop all track calls, leave "track" out of types.',
    ['events', 'deny'],
  )
}

function problemOfRepeated(list: readonly unknown[], index: number): string | undefined {
  const first = list.indexOf(list[index])
  return first === index ? undefined : `is the same as [${first}]. Remove one of the two.`
}

function isList(given: unknown): given is unknown[] {
  return Array.isArray(given) && given.length > 0
}
