/** What every event has. */
export interface EventBase<Type extends string> {
  /** Tells the events apart. */
  type: Type
  /** The version of the body's layout. */
  version: 1
  /** When the call was made: ISO 8601 with milliseconds. */
  timestamp: string
  /** Who made the call; absent when the call carried an `anonymousId` alone. */
  userId?: string
  /** Who made the call, before the user is known; there if the call carried it. */
  anonymousId?: string
  /** Device, address and the like; there if the call carried it. */
  context?: Record<string, unknown>
}

/** A page was viewed. */
export interface PageEvent extends EventBase<'page'> {
  /** What is known of the page. */
  properties: PageProperties
}

/** The properties of a page that the destination names, and any others that the call carried. */
export interface PageProperties extends Record<string, unknown> {
  /** Path of the page's URL. */
  path?: string
  /** URL of the page before it. */
  referrer?: string
  /** Title of the page. */
  title?: string
  /** URL of the page. */
  url?: string
}

/** A screen of an app was viewed. */
export interface ScreenEvent extends EventBase<'screen'> {
  /** Name of the screen. */
  name: string
}

/** Traits of a user became known, or the user joined or left an audience. */
export interface IdentifyEvent extends EventBase<'identify'> {
  /** The user's traits; an audience is a boolean under its name in snake_case. */
  traits: Record<string, unknown>
}

/** A user did something. */
export interface TrackEvent extends EventBase<'track'> {
  /** Name of what the user did. */
  event: string
  /** What is known of it. */
  properties: Record<string, unknown>
}

/** Two identities are one user. The two names are the destination's own, with a space in each. */
export interface AliasEvent extends Omit<EventBase<'alias'>, 'userId'> {
  /** The identity so far. */
  'Previous ID': string
  /** The identity from now on. */
  'User ID': string
}

/** A user belongs to a group. */
export interface GroupEvent extends EventBase<'group'> {
  /** The group. */
  groupId: string
  /** The group's traits. */
  traits: Record<string, unknown>
}

/** All that is stored of a user is to be deleted. It alone has no version. */
export interface DeleteEvent {
  /** Tells the events apart. */
  type: 'delete'
  /** Whose data to delete. */
  userId: string
  /** When deletion was asked for: ISO 8601 with milliseconds. */
  timestamp: string
}

/** The seven bodies that the destination sends; `type` tells them apart. */
export type WebhookEvent =
  PageEvent | ScreenEvent | IdentifyEvent | TrackEvent | AliasEvent | GroupEvent | DeleteEvent
