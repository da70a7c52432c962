/** The calls that a source sends. */
export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const
export type CallType = (typeof CALL_TYPES)[number]

/** What a destination is told of: the calls, and deletions. */
export type EventType = CallType | 'delete'

/**
 * One call as the collector understood it: whatever client sent it, the same fields in the same shapes.
 * Each optional field is there only if the call carried it.
 */
export interface Call {
  type: CallType
  /** The client's own id for it, or one that the collector made. At most 100 characters. */
  messageId: string
  /** When the call was made, by the collector's clock: ISO 8601 with milliseconds. */
  timestamp: string
  userId?: string
  anonymousId?: string
  /** Track's. */
  event?: string
  /** Page's and screen's. */
  name?: string
  /** Page's and screen's. */
  category?: string
  /** Group's. */
  groupId?: string
  /** Alias's. */
  previousId?: string
  /** Track's, page's and screen's. */
  properties?: Record<string, unknown>
  /** Identify's and group's. */
  traits?: Record<string, unknown>
  context?: Record<string, unknown>
  /** Which destinations are to have it; never forwarded. */
  integrations?: Record<string, unknown>
}
