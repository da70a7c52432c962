/** @module hookline/request-context */

import { describe, isPlainObject } from './describe.js'
import { ValidationError } from './errors.js'
import { AsyncLocalStorage } from './runtime.js'
import type {
  AliasMessage,
  AnyPlan,
  Callback,
  Fields,
  GroupMessage,
  IdentifyMessage,
  Integrations,
  MessageType,
  PageMessage,
  PlanOf,
  TrackMessage,
} from './types.js'

/** Who did it, as far as a call says: what it leaves out comes from the current request. */
export interface OptionalIdentity {
  /** The user's id in your database. */
  readonly userId?: string | undefined
  /** The id of a user whom you do not know yet. */
  readonly anonymousId?: string | undefined
}

/** What the calls of one request have in common. A field that is undefined counts as not given. */
export interface RequestFields extends OptionalIdentity {
  /** Context of each call: the ip, a trace id, the locale. A call's own keys win. */
  readonly context?: Fields | undefined
  /** Integrations of each call. A call's own keys win. */
  readonly integrations?: Integrations | undefined
}

/** The calls of a client: what {@link createRequestContext} needs of one. */
export interface Recorder<Plan> {
  /** Says who a user is. */
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
  /** Says which group a user belongs to. */
  group(message: GroupMessage, callback?: Callback): void
  /** Says that two ids are one user. */
  alias(message: AliasMessage, callback?: Callback): void
}

/**
 * The calls of a client, with the fields of the current request merged in. Each does what the client's own
 * does. A call outside of {@link RequestContext.run | run()} has the fields that it was given, and no others.
 */
export interface RequestContext<in out Plan extends PlanOf<Plan> = AnyPlan> {
  /**
   * Runs a function, and gives back what it returns. The calls that it makes, and those of everything that it
   * starts (promises, timers, streams), have these fields. The fields are copied: a later change has no effect.
   *
   * A run inside another one has the fields of both. Its own win, and end with it.
   *
   * @param fields - what the calls of this request have in common
   * @param act - the function, such as `next` in an Express middleware
   * @throws `ValidationError` for what is no field of a request, or no function
   */
  readonly run: <Result>(fields: RequestFields, act: () => Result) => Result
  /**
   * Adds fields to the current run, from now on: the user id after a login, for example.
   *
   * @param fields - the new fields: they win over those of the run
   * @throws `ValidationError` for what is no field of a request
   * @throws `Error` outside of a run
   */
  readonly set: (fields: RequestFields) => void
  /** Says who a user is, as the client's `identify` does. */
  readonly identify: (message: IdentifyMessage<OptionalIdentity>, callback?: Callback) => void
  /** Says what a user did, as the client's `track` does. */
  readonly track: <Event extends keyof Plan & string>(
    message: TrackMessage<Plan, Event, OptionalIdentity>,
    callback?: Callback,
  ) => void
  /** Says which page a user saw, as the client's `page` does. */
  readonly page: (message: PageMessage<OptionalIdentity>, callback?: Callback) => void
  /** Says which screen of an app a user saw, as the client's `screen` does. */
  readonly screen: (message: PageMessage<OptionalIdentity>, callback?: Callback) => void
  /** Says which group a user belongs to, as the client's `group` does. */
  readonly group: (message: GroupMessage<OptionalIdentity>, callback?: Callback) => void
  /** Says that two ids are one user, as the client's `alias` does. */
  readonly alias: (
    message: Omit<AliasMessage, 'userId'> & OptionalIdentity,
    callback?: Callback,
  ) => void
}

/** The fields of one run. `set()` replaces them, so that all that the run started sees the new ones. */
interface Run {
  fields: RequestFields
}

type Call = (message: unknown, callback?: Callback) => void

/**
 * Makes the calls of a client know the request in which they are made: the user, the ip, a trace id are set
 * once for each request, and no call repeats them. It needs `AsyncLocalStorage`.
 *
 * The fields live in the object that this gives back. Make one for each client, and import it where you record.
 *
 * @param analytics - the client that records
 * @throws `Error` where the runtime has no `AsyncLocalStorage`
 * @throws `ValidationError` for what is no client
 *
 * @example
 * ```ts
 * import { randomUUID } from 'node:crypto'
 * import express from 'express'
 * import { createRequestContext } from 'hookline/request-context'
 *
 * const request = createRequestContext(analytics)
 *
 * const app = express()
 * app.use((req, res, next) => {
 *   const anonymousId = req.get('X-Visitor-Id') || randomUUID()
 *   request.run({ anonymousId, context: { ip: req.ip } }, next)
 * })
 * app.post('/orders', (req, res) => {
 *   request.track({ event: 'Order Completed' })
 *   res.sendStatus(201)
 * })
 * ```
 */
export function createRequestContext<Plan extends PlanOf<Plan> = AnyPlan>(
  analytics: Recorder<Plan>,
): RequestContext<Plan> {
  if (!AsyncLocalStorage) {
    throw new Error(
      'createRequestContext() needs AsyncLocalStorage, which this runtime lacks. On Cloudflare Workers, add the compatibility flag nodejs_compat. Elsewhere, give each call its userId.',
    )
  }
  const calls = analytics as unknown as Record<MessageType, Call> | undefined
  if (typeof calls?.track !== 'function') {
    throw new ValidationError(
      'analytics',
      `createRequestContext() takes the client that records, got ${describe(analytics)}.`,
    )
  }
  const runs = new AsyncLocalStorage<Run>()

  const record =
    (type: MessageType): Call =>
    (message, callback) => {
      const fields = runs.getStore()?.fields
      calls[type](fields ? complete(message, fields) : message, callback)
    }

  return {
    run: (fields, act) => {
      const own = copy('run', fields)
      if (typeof act !== 'function') {
        const got = describe(act)
        throw new ValidationError('act', `run() takes a function after the fields, got ${got}.`)
      }
      const outer = runs.getStore()?.fields
      return runs.run({ fields: outer ? join(outer, own) : own }, act)
    },
    set: (fields) => {
      const own = copy('set', fields)
      const run = runs.getStore()
      if (!run) {
        throw new Error(
          'set() was called outside of run(): call it in a function that run() started.',
        )
      }
      run.fields = join(run.fields, own)
    },
    identify: record('identify'),
    track: record('track'),
    page: record('page'),
    screen: record('screen'),
    group: record('group'),
    alias: record('alias'),
  }
}

const NAMES = ['userId', 'anonymousId', 'context', 'integrations']

/** Copies fields, with what is in them: a change that comes later must not reach the calls. */
function copy(method: string, given: unknown): RequestFields {
  if (!isPlainObject(given)) {
    throw new ValidationError(
      'fields',
      `${method}() takes a plain object of fields, got ${describe(given)}.`,
    )
  }
  const unknown = Object.keys(given).find((name) => !NAMES.includes(name))
  if (unknown !== undefined) {
    throw new ValidationError(
      unknown,
      `${method}() has no field ${JSON.stringify(unknown)}. Its fields are ${NAMES.join(', ')}.`,
    )
  }
  const { userId, anonymousId, context, integrations } = given
  return {
    userId,
    anonymousId,
    context: copyOf(context),
    integrations: copyOf(integrations),
  } as RequestFields
}

/**
 * A copy as JSON makes it, with the keys that are undefined: they take values away. What JSON cannot hold stays as it is: the call
 * that meets it says what is wrong.
 */
function copyOf(value: unknown): unknown {
  if (!isPlainObject(value)) return value
  try {
    const copy = JSON.parse(JSON.stringify(value)) as Record<string, unknown>
    for (const name of Object.keys(value)) if (value[name] === undefined) copy[name] = undefined
    return copy
  } catch {
    return value
  }
}

/** Completes a message. What is none stays as it is: the client says what is wrong with it. */
function complete(message: unknown, fields: RequestFields): unknown {
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return message
  const valueOf = (name: string | symbol) => fields[name as keyof RequestFields]
  const given: (string | symbol)[] = NAMES.filter((name) => valueOf(name) !== undefined)
  const get = (name: string | symbol): unknown => {
    const own: unknown = Reflect.get(message, name)
    return given.includes(name) ? joinValues<unknown>(valueOf(name), own) : own
  }
  // The client reads each field of a message, also one that it inherits: only then, so that a getter that throws does so there.
  return new Proxy(Object.create(message) as object, {
    get: (_, name) => get(name),
    // A client of another kind may copy the message, and the client itself refuses a field that no message has.
    ownKeys: () => [...new Set([...Reflect.ownKeys(message), ...given])],
    getOwnPropertyDescriptor: (_, name) => {
      const own = given.includes(name)
        ? { enumerable: true, get: () => get(name) }
        : Reflect.getOwnPropertyDescriptor(message, name)
      return own && { ...own, configurable: true } // a Proxy may not say otherwise
    },
  })
}

/** Joins fields with those of an inner run, whose own win. */
function join(outer: RequestFields, inner: RequestFields): RequestFields {
  return {
    userId: joinValues(outer.userId, inner.userId),
    anonymousId: joinValues(outer.anonymousId, inner.anonymousId),
    context: joinValues(outer.context, inner.context),
    integrations: joinValues(outer.integrations, inner.integrations),
  }
}

/** The inner value wins; two plain objects are joined key by key. The client refuses what is neither. */
function joinValues<Value>(outer: Value, inner: Value): Value {
  if (inner === undefined) return outer
  return isPlainObject(outer) && isPlainObject(inner) ? { ...outer, ...inner } : inner
}
