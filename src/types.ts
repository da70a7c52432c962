import type { HooklineError } from './hookline-error.js'

declare global {
  // Without this, our declarations do not compile with `lib: ['es2022', 'dom']` and without the types of Node.
  interface SymbolConstructor {
    /** The method that `await using` calls at the end of its block. */
    readonly asyncDispose: unique symbol
  }
}

/**
 * A plain object of JSON values: traits, properties or context.
 *
 * Other values are converted as `JSON.stringify` converts them: a `Date` becomes its ISO string, `undefined` and
 * functions are left out, and `NaN` becomes `null`.
 */
export interface Fields {
  // An interface has no index signature: with `unknown` here it would be refused, with `any` it is accepted.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [key: string]: any
  /** Refuses arrays, Maps and Sets. */
  readonly [Symbol.iterator]?: never
}

/**
 * Turns destinations on and off by name; names are case-sensitive. All are on by default. `All: false` turns off those
 * that are not turned on by name. An object turns one on and gives it settings.
 *
 * Source: spec "Endpoints", rule 1.
 *
 * @example
 * ```ts
 * const integrations = { All: false, Webhooks: true }
 * ```
 */
export type Integrations = Readonly<Record<string, boolean | Fields>>

/** Identifies the user: a `userId`, an `anonymousId`, or both. Each is a non-empty string without NUL characters. */
export type Identity =
  | {
      /** The user's id in your database. */
      readonly userId: string
      /** The id that the user had before signing in. */
      readonly anonymousId?: string | undefined
    }
  | {
      /** Absent. */
      readonly userId?: undefined
      /** The id of a user who has not signed in. */
      readonly anonymousId: string
    }

/** The fields that a message of any type may have. */
export interface MessageOptions {
  /**
   * When it happened: a `Date`, or an ISO 8601 string with its time zone, in the years 0 to 9999. Set it when you
   * import old data.
   *
   * @defaultValue the time of the call
   */
  readonly timestamp?: Date | string | undefined
  /**
   * The circumstances of the call, such as the IP address, the user agent and the locale. Facts about the user are
   * traits.
   */
  readonly context?: Fields | undefined
  /** Selects the destinations that get this message. */
  readonly integrations?: Integrations | undefined
  /**
   * The id by which receivers recognise a message that arrives twice. It has at most 100 characters, and no control
   * characters.
   *
   * @defaultValue a UUID version 7, which starts with the time
   */
  readonly messageId?: string | undefined
}

/** The argument of `identify`: a user, and what you know about them. */
export type IdentifyMessage<Who = Identity> = Who &
  MessageOptions & {
    /** Traits of the user. */
    readonly traits?: Fields | undefined
  }

/**
 * A tracking plan: the properties of each event, by the event's name. Only the compiler reads it; nothing checks
 * properties at run time.
 *
 * @example
 * ```ts
 * const analytics = new Analytics<{ 'Order Completed': { total: number } }>('WRITE_KEY')
 * ```
 */
export type PlanOf<Plan> = { readonly [Event in keyof Plan]: Fields }

/** The plan of a client without a plan: any event with any properties. */
export type AnyPlan = Record<string, Fields>

/**
 * The argument of `track`: what a user did. A variable that may be one of several events needs properties that fit each
 * of them.
 */
export type TrackMessage<
  Plan = AnyPlan,
  Event extends keyof Plan = keyof Plan,
  Who = Identity,
> = Who & MessageOptions & (EachEvent<Plan, Event> | SomeEvent<Plan, Event>)

/** A message that is one of several, each with the properties of its own event, such as a `TrackMessage<Plan>`. */
type EachEvent<Plan, Event> = Event extends keyof Plan ? SomeEvent<Plan, Event> : never

/** A message whose event may be any of several. It is the same type as the one above if there is only one event. */
type SomeEvent<Plan, Event> = {
  /** The event's name. */
  readonly event: Event
} & PropertiesOf<Plan, Event>

/** What the properties of each of the events have to be: an inferred parameter is the intersection of its types. */
type PropertiesOf<Plan, Event> = (
  Event extends keyof Plan ? (properties: PropertiesOfOne<Plan[Event]>) => void : never
) extends (properties: infer Properties) => void
  ? Properties
  : never

// `{}` extends a type that requires no property. `object` does not extend a type with optional properties.
// eslint-disable-next-line @typescript-eslint/no-empty-object-type
type PropertiesOfOne<Properties> = {} extends Properties
  ? {
      /** Properties of the event. */
      readonly properties?: Properties | undefined
    }
  : {
      /** Properties of the event. */
      readonly properties: Properties
    }

/**
 * The argument of `page` and `screen`: what a user saw. Traits are sent as `properties`, and have either name here.
 * Destinations know the traits `url`, `title`, `referrer` and `path`.
 */
export type PageMessage<Who = Identity> = Who &
  MessageOptions & {
    /** Category of the page. */
    readonly category?: string | undefined
    /** Name of the page. */
    readonly name?: string | undefined
  } & (
    | {
        /** Traits of the page. */
        readonly traits?: Fields | undefined
        /** Absent. */
        readonly properties?: undefined
      }
    | {
        /** Traits of the page, by the name under which they are sent. */
        readonly properties?: Fields | undefined
        /** Absent. */
        readonly traits?: undefined
      }
  )

/** The argument of `group`: the company, project or team that a user belongs to. */
export type GroupMessage<Who = Identity> = Who &
  MessageOptions & {
    /** The group's id. */
    readonly groupId: string
    /** Traits of the group. */
    readonly traits?: Fields | undefined
  }

/** The argument of `alias`: two ids of the same user. */
export type AliasMessage = MessageOptions & {
  /** The user's new id. */
  readonly userId: string
  /** The id that the user had until now. */
  readonly previousId: string
  /** The id that the user had before signing in. */
  readonly anonymousId?: string | undefined
}

/** What each call but `track` takes. */
export interface OtherMessages {
  /** A user, and what you know about them. */
  identify: IdentifyMessage
  /** A page that a user saw. */
  page: PageMessage
  /** A screen that a user saw. */
  screen: PageMessage
  /** A group that a user belongs to. */
  group: GroupMessage
  /** Two ids of one user. */
  alias: AliasMessage
}

/** The type of a message: one for each method of the client. */
export type MessageType = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias'

/** A message as it is sent: what a call recorded, completed by the client. Fields that were not given are absent. */
export interface WireMessage {
  /** The method that recorded it. */
  type: MessageType
  /** The message's id, the same in every attempt. */
  messageId: string
  /** When it happened: ISO 8601, milliseconds, UTC. */
  timestamp: string
  /** The user's id. */
  userId?: string | undefined
  /** The id of a user who has not signed in. */
  anonymousId?: string | undefined
  /** The event's name, on track. */
  event?: string | undefined
  /** Name of the page or screen. */
  name?: string | undefined
  /** Category of the page or screen. */
  category?: string | undefined
  /** The group's id, on group. */
  groupId?: string | undefined
  /** The user's former id, on alias. */
  previousId?: string | undefined
  /** Properties of a track; traits of a page or screen. */
  properties?: Record<string, unknown> | undefined
  /** Traits of an identify or group. */
  traits?: Record<string, unknown> | undefined
  /** Context, with the library's name and version. */
  context?: Record<string, unknown> | undefined
  /** Selects the destinations that get it. */
  integrations?: Record<string, unknown> | undefined
}

/**
 * A message whose fields have been validated, before the client adds an id and a time.
 *
 * @internal
 */
export type CheckedMessage = Omit<WireMessage, 'messageId' | 'timestamp'> & {
  messageId: string | undefined
  timestamp: string | undefined
}

/**
 * Called exactly once with the outcome of a message: without an argument when a server accepted it, with the reason
 * when it was lost. An error that the callback throws is logged and goes no further.
 *
 * It is called after the call that recorded the message has returned. In a loop that loses more than 1,000 messages
 * without a pause, callbacks of earlier messages are called inside a later call.
 */
export type Callback = (error?: HooklineError) => void

/** Describes a batch that a server accepted. */
export interface DeliveredReport {
  /** The number of messages that were accepted. */
  readonly messages: number
  /** The size of the body, in bytes of JSON. */
  readonly bytes: number
  /** The number of requests that it took. */
  readonly attempts: number
  /** Milliseconds from the start of the first attempt to the answer. */
  readonly durationMs: number
}

/** A message that was lost. */
export interface LostMessage {
  /** The method that recorded it, or `unknown` if the spool can no longer read it. */
  readonly type: string
  /** The message's id. It is undefined if the call was refused and gave none, or the spool can't read it. */
  readonly messageId: string | undefined
  /** The message as it would have been sent: keep it to send it again. It is undefined if it was invalid or too large, or `beforeSend` threw. */
  readonly json: string | undefined
}

/** Describes messages that were lost together, for one reason. */
export interface FailedReport {
  /**
   * The messages, in the order of their calls. It is empty when a spool fails without losing a message, and when it finds
   * only a part of one.
   */
  readonly messages: readonly LostMessage[]
  /** The reason; compare `error.code`. */
  readonly error: HooklineError
}

/**
 * The counts of a client. At every instant, `accepted = delivered + rejected + dropped + pending`.
 */
export interface Stats {
  /** Valid calls, and messages taken over from a spool. */
  readonly accepted: number
  /** Messages that a server accepted. */
  readonly delivered: number
  /** Messages that a server refused and that are not sent again. */
  readonly rejected: number
  /** Messages that the client gave up, for a reason that `onFailed` and the callback get. */
  readonly dropped: number
  /** Messages without an outcome yet: queued, spooled or in flight. */
  readonly pending: number
  /** Their size, in bytes of JSON. */
  readonly pendingBytes: number
}

/** What became of one message. */
export type DeliveryOutcome =
  | {
      /** A server accepted it. */
      readonly delivered: true
      /** Absent. */
      readonly error?: undefined
    }
  | {
      /** It was lost. */
      readonly delivered: false
      /** Why; `error.code` tells the reasons apart. */
      readonly error: HooklineError
    }

/** The outcomes of the messages that a flush waited for. */
export interface FlushResult {
  /** Messages that a server accepted. */
  readonly delivered: number
  /** Messages that were lost. Their callbacks and `onFailed` got the reasons. */
  readonly failed: number
}

/**
 * What a client can do. Let your code depend on this interface rather than on the class: a test can then pass a fake,
 * and a function that only records needs `Pick<AnalyticsClient, 'track'>`. {@link Analytics} describes each method.
 *
 * @typeParam Plan - the properties of each event, by its name; see {@link PlanOf}
 *
 * @example
 * ```ts
 * import type { AnalyticsClient } from 'hookline'
 *
 * export function signUp(userId: string, analytics: Pick<AnalyticsClient, 'track'>): void {
 *   analytics.track({ userId, event: 'Signed Up' })
 * }
 * ```
 */
// `in out`: a client of one plan is no client of another. The compiler does not see that in `track` itself.
export interface AnalyticsClient<in out Plan extends PlanOf<Plan> = AnyPlan> {
  /** Records who a user is, and the user's traits. */
  identify(message: IdentifyMessage, callback?: Callback): void
  /** Records what a user did. */
  track<Event extends keyof Plan & string>(
    message: TrackMessage<Plan, Event>,
    callback?: Callback,
  ): void
  /** Records which page a user saw. */
  page(message: PageMessage, callback?: Callback): void
  /** Records which screen of an app a user saw. */
  screen(message: PageMessage, callback?: Callback): void
  /** Records which group a user belongs to, and the group's traits. */
  group(message: GroupMessage, callback?: Callback): void
  /** Records that two ids belong to the same user. */
  alias(message: AliasMessage, callback?: Callback): void
  /** Records one message, sends it at once, and waits for its outcome. */
  deliver<Event extends keyof Plan & string>(
    type: 'track',
    message: TrackMessage<Plan, Event>,
  ): Promise<DeliveryOutcome>
  /** The same for a message of another type. */
  deliver<Type extends keyof OtherMessages>(
    type: Type,
    message: OtherMessages[Type],
  ): Promise<DeliveryOutcome>
  /** Sends the queued messages, and waits until every message recorded before has its outcome. */
  flush(options?: { timeout?: number | undefined }): Promise<FlushResult>
  /** Flushes, and reports the messages that are left after the timeout as failed. */
  close(options?: { timeout?: number | undefined }): Promise<FlushResult>
  /** Closes the client at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void>
  /** The counts of messages at this instant. */
  stats(): Stats
}
