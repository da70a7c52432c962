import type { HooklineError } from './hookline-error.js'

declare global {
  // Without it, a program compiled with `lib: ['es2022', 'dom']` and without Node's types finds an error in ours.
  interface SymbolConstructor {
    /** The method that `await using` calls at the end of its block. */
    readonly asyncDispose: unique symbol
  }
}

/**
 * A plain object of JSON values: traits, properties, context.
 *
 * What JSON has no word for follows JSON's own rules: a `Date` becomes its ISO string, `undefined` and
 * functions vanish, `NaN` becomes `null`.
 */
export interface Fields {
  // `any` lets interfaces in, which `unknown` would refuse for want of an index signature.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  readonly [key: string]: any
  /** Keeps arrays, Maps and Sets out: they are objects, but no plain ones. */
  readonly [Symbol.iterator]?: never
}

/**
 * Switches destinations by name, case-sensitively. All are on unless told otherwise; `All: false` turns
 * off every one that is not switched on by name. An object switches on and carries settings.
 *
 * Source: spec "Endpoints", rule 1.
 *
 * @example
 * ```ts
 * const integrations = { All: false, Webhooks: true }
 * ```
 */
export type Integrations = Readonly<Record<string, boolean | Fields>>

/** Who did it: a `userId`, an `anonymousId`, or both. Non-empty strings. */
export type Identity =
  | {
      /** The user's id in your database. */
      readonly userId: string
      /** The id that the user had before you knew who it was. */
      readonly anonymousId?: string | undefined
    }
  | {
      /** The user's id in your database. */
      readonly userId?: undefined
      /** The id of a user whom you don't know yet. */
      readonly anonymousId: string
    }

/** What every message may carry, whatever its type. */
export interface MessageOptions {
  /**
   * When it happened: a `Date`, or an ISO 8601 string with its time zone. Leave it out for what happens
   * now, send it when importing the past.
   *
   * @defaultValue the time of the call
   */
  readonly timestamp?: Date | string | undefined
  /** More about the circumstances (ip, user agent, locale); not an attribute of the user. */
  readonly context?: Fields | undefined
  /** Which destinations get this message. */
  readonly integrations?: Integrations | undefined
  /**
   * The id by which receivers know a message that comes twice; at most 100 characters.
   *
   * @defaultValue a UUID v4
   */
  readonly messageId?: string | undefined
}

/** Says who a user is, and what you know about them. */
export type IdentifyMessage = Identity &
  MessageOptions & {
    /** Traits of the user. */
    readonly traits?: Fields | undefined
  }

/**
 * A tracking plan: the properties of each event, by the event's name. It exists for the compiler alone.
 *
 * @example
 * ```ts
 * const analytics = new Analytics<{ 'Order Completed': { total: number } }>('WRITE_KEY')
 * ```
 */
export type PlanOf<Plan> = { readonly [Event in keyof Plan]: Fields }

/** The plan of a client that was given none: any event, any properties. */
export type AnyPlan = Record<string, Fields>

/** Says what a user did. */
export type TrackMessage<Plan = AnyPlan, Event extends keyof Plan = keyof Plan> = Identity &
  MessageOptions & {
    /** The event's name. */
    readonly event: Event
    // Whatever has no property that is required takes an object without any, `object` only some.
    // eslint-disable-next-line @typescript-eslint/no-empty-object-type
  } & ({} extends Plan[Event]
    ? {
        /** Properties of the event. */
        readonly properties?: Plan[Event] | undefined
      }
    : {
        /** Properties of the event. */
        readonly properties: Plan[Event]
      })

/**
 * Says which page or screen a user saw. Its traits travel as `properties`, which is also accepted as the
 * name of the field; `url`, `title`, `referrer` and `path` are the traits that destinations know.
 */
export type PageMessage = Identity &
  MessageOptions & {
    /** Category of the page. */
    readonly category?: string | undefined
    /** Name of the page. */
    readonly name?: string | undefined
  } & (
    | {
        /** Traits of the page. */
        readonly traits?: Fields | undefined
        /** Not both. */
        readonly properties?: undefined
      }
    | {
        /** Traits of the page, by the name that they have on the wire. */
        readonly properties?: Fields | undefined
        /** Not both. */
        readonly traits?: undefined
      }
  )

/** Says which group (company, project, team) a user belongs to. */
export type GroupMessage = Identity &
  MessageOptions & {
    /** The group's id. */
    readonly groupId: string
    /** Traits of the group. */
    readonly traits?: Fields | undefined
  }

/** Says that two ids are one user. */
export type AliasMessage = MessageOptions & {
  /** The user's new id. */
  readonly userId: string
  /** The id that the user had until now. */
  readonly previousId: string
  /** The id that the user had before you knew who it was. */
  readonly anonymousId?: string | undefined
}

/** The type of a message: one for each method of the client. */
export type MessageType = 'identify' | 'track' | 'page' | 'screen' | 'group' | 'alias'

/** A message as it travels: what a call recorded, completed. Fields that were not given are absent. */
export interface WireMessage {
  /** Which call it was. */
  type: MessageType
  /** The message's id, the same in every attempt. */
  messageId: string
  /** When it happened: ISO 8601, milliseconds, UTC. */
  timestamp: string
  /** The user's id. */
  userId?: string | undefined
  /** The id of a user whom nobody knows yet. */
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
  /** Which destinations get it. */
  integrations?: Record<string, unknown> | undefined
}

/**
 * A message whose fields are what they should be; what the call left out is still undefined.
 *
 * @internal
 */
export type CheckedMessage = Omit<WireMessage, 'messageId' | 'timestamp'> & {
  messageId: string | undefined
  timestamp: string | undefined
}

/**
 * Called exactly once with a message's outcome: nothing when a server accepted it, the reason when it
 * was lost. What it throws is logged and goes no further. It is called after the call has returned; only
 * a loop that loses more than 1,000 messages without a pause meets, in a later call, what it has to tell.
 */
export type Callback = (error?: HooklineError) => void

/** One batch that a server accepted. */
export interface DeliveredReport {
  /** How many messages were accepted. */
  readonly messages: number
  /** Size of the body, in bytes of JSON. */
  readonly bytes: number
  /** How many requests it took. */
  readonly attempts: number
  /** From the start of the first attempt to the answer, in milliseconds. */
  readonly durationMs: number
}

/** A message that was lost. */
export interface LostMessage {
  /** Which call it was; `unknown` for one that the spool can't read any more. */
  readonly type: string
  /** The message's id, where the call got as far as having one. */
  readonly messageId: string | undefined
  /** The message as it would have travelled, to be kept and sent again; absent if it could not be encoded. */
  readonly json: string | undefined
}

/** Messages that were lost together, and why. */
export interface FailedReport {
  /** The messages, in the order of their calls; none when a spool fails that has lost nothing. */
  readonly messages: readonly LostMessage[]
  /** Why; `error.code` tells the reasons apart. */
  readonly error: HooklineError
}

/**
 * The books of a client: `accepted = delivered + rejected + dropped + pending` holds at every instant.
 */
export interface Stats {
  /** Calls that were valid, and messages that were taken over from a spool. */
  readonly accepted: number
  /** Messages that a server accepted. */
  readonly delivered: number
  /** Messages that a server refused for good. */
  readonly rejected: number
  /** Messages given up here: queue full, hook, disabled, closed, out of retries or of time. */
  readonly dropped: number
  /** Messages without an outcome yet: queued, spooled or in flight. */
  readonly pending: number
  /** Size of the pending messages, in bytes of their JSON. */
  readonly pendingBytes: number
}

/** What became of the messages that a flush waited for. */
export interface FlushResult {
  /** Messages that a server accepted. */
  readonly delivered: number
  /** Messages that were lost; callbacks and `onFailed` got the reasons. */
  readonly failed: number
}

/**
 * What a client can do. Let your code depend on this interface rather than on the class: a test can then pass a fake,
 * and a function that only records needs only `Pick<AnalyticsClient, 'track'>`. {@link Analytics} describes each
 * method in full.
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
export interface AnalyticsClient<Plan extends PlanOf<Plan> = AnyPlan> {
  /** Says who a user is, and what you know about them. */
  identify(message: IdentifyMessage, callback?: Callback): void
  /** Says what a user did. */
  track<Event extends keyof Plan & string>(
    message: TrackMessage<Plan, Event>,
    callback?: Callback,
  ): void
  /** Says which page a user saw. */
  page(message: PageMessage, callback?: Callback): void
  /** Says which screen of an app a user saw. */
  screen(message: PageMessage, callback?: Callback): void
  /** Says which group a user belongs to, and what you know about the group. */
  group(message: GroupMessage, callback?: Callback): void
  /** Says that two ids are one user. */
  alias(message: AliasMessage, callback?: Callback): void
  /** Sends what is queued, and waits until each message recorded before has its outcome. */
  flush(options?: { timeout?: number | undefined }): Promise<FlushResult>
  /** Flushes, and reports what is left after the timeout as failed. */
  close(options?: { timeout?: number | undefined }): Promise<FlushResult>
  /** Closes the client at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void>
  /** The counts of messages at this instant. */
  stats(): Stats
}
