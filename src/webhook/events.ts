/** The fields that all events share, except `delete`. */
export interface EventBase<Type extends string> {
  /** Tells the events apart. */
  type: Type
  /** The version of the body's layout. */
  version: 1
  /** The time of the call: ISO 8601 with milliseconds. */
  timestamp: string
  /** The id of the user. It is absent if the call only had an `anonymousId`. */
  userId?: string
  /** The id of a user who is not known yet. It is absent if the call had none. */
  anonymousId?: string
  /** Facts about the user's surroundings, such as the device or the IP address. It is absent if the call had none. */
  context?: Record<string, unknown>
}

/** A user viewed a page. */
export interface PageEvent extends EventBase<'page'> {
  /** Facts about the page. */
  properties: PageProperties
  /** The name of the page. */
  name?: string
  /** The category of the page. */
  category?: string
}

/** The properties of a page, as the call had them. */
export interface PageProperties extends Record<string, unknown> {
  /** The path of the page's URL. */
  path?: unknown
  /** The URL of the previous page. */
  referrer?: unknown
  /** The title of the page. */
  title?: unknown
  /** The URL of the page. */
  url?: unknown
}

/** A user viewed a screen of an app. */
export interface ScreenEvent extends EventBase<'screen'> {
  /** The name of the screen. */
  name: string
  /** The category of the screen. */
  category?: string
  /** Facts about the screen. */
  properties?: Record<string, unknown>
}

/** Traits of a user changed, or a user joined or left an audience. */
export interface IdentifyEvent extends EventBase<'identify'> {
  /** The user's traits. An audience is a trait: its name is in snake_case, its value is a boolean. */
  traits: Record<string, unknown>
}

/** A user did something. */
export interface TrackEvent extends EventBase<'track'> {
  /** The name of the action, such as `Order Completed`. */
  event: string
  /** Facts about the action. */
  properties: Record<string, unknown>
}

/** Two ids belong to one user. The names of its two own fields contain a space, as the destination sends them. */
export interface AliasEvent extends Omit<EventBase<'alias'>, 'userId'> {
  /** The user's id until now. */
  'Previous ID': string
  /** The user's id from now on. */
  'User ID': string
}

/** A user belongs to a group. */
export interface GroupEvent extends EventBase<'group'> {
  /** The id of the group. */
  groupId: string
  /** The group's traits. */
  traits: Record<string, unknown>
}

/** Somebody asks you to delete all data of a user. Only this event has no `version`. */
export interface DeleteEvent {
  /** Tells the events apart. */
  type: 'delete'
  /** The id of the user whose data to delete. */
  userId: string
  /** The time of the request for deletion: ISO 8601 with milliseconds. */
  timestamp: string
}

/** One of the seven bodies that the destination sends. `type` tells them apart. */
export type WebhookEvent =
  PageEvent | ScreenEvent | IdentifyEvent | TrackEvent | AliasEvent | GroupEvent | DeleteEvent
