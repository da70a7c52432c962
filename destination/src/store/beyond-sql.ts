import type { Filter, Summary } from '../model/delivery.js'
import { portalCause } from '../model/portal-words.js'
import { withoutQuery } from '../model/shown-url.js'
import { startsAlike } from './prefix.js'

/** Checks the conditions of a filter that SQL can only approximate: prefixes without regard to case, and causes. */
export function matchesBeyondSql(
  { isPrefix, event, user, messageId, cause, isInPortalWords }: Filter,
  found: Summary,
): boolean {
  if (cause !== undefined && causeOf(found, isInPortalWords) !== cause) return false
  if (isPrefix !== true) return true
  return (
    startsAlike(found.event, event ?? '') &&
    startsAlike(found.user, user ?? '') &&
    startsAlike(found.messageId, messageId ?? '')
  )
}

function causeOf({ cause, lastStatus }: Summary, isInPortalWords = false): string | null {
  return isInPortalWords ? portalCause(cause, lastStatus) : cause
}

/** Whether SQL alone decides what matches a filter. */
export function isExact({ isPrefix, cause }: Filter): boolean {
  return isPrefix !== true && cause === undefined
}

/** Whether a stored URL belongs to an endpoint that is named without its query. */
export function isOfEndpoint(url: string, endpoint: string): boolean {
  return withoutQuery(url) === endpoint
}
