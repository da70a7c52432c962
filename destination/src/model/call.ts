/** The calls that a source sends. */
export const CALL_TYPES = ['identify', 'track', 'page', 'screen', 'group', 'alias'] as const
export type CallType = (typeof CALL_TYPES)[number]

/** The types of messages for destinations: all calls, and deletions of users. */
export const EVENT_TYPES = [...CALL_TYPES, 'delete'] as const
export type EventType = (typeof EVENT_TYPES)[number]

/**
 * One call after normalisation. It has the same fields in the same shapes for every client.
 * An optional field is present only if the call had it.
 */
export interface Call {
  type: CallType
  /** The id from the client, or else one that the collector created. At most 100 characters. */
  messageId: string
  /** When the call was made, by the collector's clock: ISO 8601 with milliseconds. */
  timestamp: string
  userId?: string
  anonymousId?: string
  /** Only in `track`. */
  event?: string
  /** Only in `page` and `screen`. */
  name?: string
  /** Only in `page` and `screen`. */
  category?: string
  /** Only in `group`. */
  groupId?: string
  /** Only in `alias`. */
  previousId?: string
  /** Only in `track`, `page` and `screen`. */
  properties?: Record<string, unknown>
  /** Only in `identify` and `group`. */
  traits?: Record<string, unknown>
  context?: Record<string, unknown>
  /** Which destinations get the call. It is not part of the message to them. */
  integrations?: Record<string, unknown>
}
