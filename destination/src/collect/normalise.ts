import { randomUUID } from 'node:crypto'
import { CALL_TYPES, type Call, type CallType } from '../model/call.js'
import { isFields, type Fields } from '../model/fields.js'
import { MAX_MESSAGE_ID_LENGTH } from './limits.js'
import { RejectedCall, show } from '../http/refusal.js'
import {
  isForwardable,
  MAX_MS,
  MIN_EPOCH_MS,
  parseTime,
  skewMsOf,
  toForwardable,
} from './timestamp.js'

/** What the calls of one request have in common. */
export interface Shared {
  /** The type that the URL names; `undefined` for a batch. */
  type: CallType | undefined
  /** The context of the batch. If a call has the same key, the call's value is used. */
  context: Fields | undefined
  /** The integrations of the batch. If a call has the same key, the call's value is used. */
  integrations: Fields | undefined
  /** How many ms the clock of the client is behind, by the `sentAt` of the request. A call may have its own `sentAt`. */
  skewMs: number
  /** When the request arrived: ms since the epoch. */
  receivedAt: number
}

/**
 * Turns a message of any client into a call. `null` and an empty text count as left out. A number is accepted as an id
 * and becomes its digits. Fields that a call does not have are dropped.
 *
 * @throws {@link RejectedCall} that names the field, the expected value and the given one.
 */
export function normalise(message: unknown, shared: Shared): Call {
  if (!isFields(message)) {
    throw new RejectedCall('invalid_call', `A call must be an object, got ${show(message)}.`)
  }
  const type = typeOf(message['type'], shared.type)
  const call: Call = {
    type,
    messageId: messageIdOf(message),
    timestamp: timestampOf(message, shared),
  }
  const userId = id(message, 'userId')
  const anonymousId = id(message, 'anonymousId')
  if (userId !== undefined) call.userId = userId
  if (anonymousId !== undefined) call.anonymousId = anonymousId
  const context = merged(fields(message, 'context'), shared.context)
  const integrations = merged(fields(message, 'integrations'), shared.integrations)
  if (context) call.context = context
  if (integrations) call.integrations = integrations

  addOwn(call, message)
  if (userId === undefined && anonymousId === undefined) {
    const expected = `${type} needs a userId or an anonymousId, a non-empty string; got neither.`
    throw new RejectedCall('missing_field', expected)
  }
  return call
}

/** Adds the fields that only calls of this type have. */
function addOwn(call: Call, message: Fields): void {
  switch (call.type) {
    case 'track':
      call.event = required('track', 'event', text(message, 'event'))
      addProperties(call, fields(message, 'properties'))
      return
    case 'identify':
      // Clients in browsers and phones may send the traits only within the context.
      addTraits(call, fields(message, 'traits') ?? traitsWithin(call.context))
      return
    case 'page':
    case 'screen': {
      const name = text(message, 'name')
      const category = text(message, 'category')
      if (name !== undefined) call.name = name
      if (category !== undefined) call.category = category
      addProperties(call, fields(message, 'properties') ?? fields(message, 'traits'))
      return
    }
    case 'group':
      call.groupId = required('group', 'groupId', id(message, 'groupId'))
      addTraits(call, fields(message, 'traits'))
      return
    case 'alias':
      call.previousId = required('alias', 'previousId', id(message, 'previousId'))
      required('alias', 'userId', call.userId)
  }
}

function addProperties(call: Call, properties: Fields | undefined): void {
  if (properties) call.properties = properties
}

function addTraits(call: Call, traits: Fields | undefined): void {
  if (traits) call.traits = traits
}

function traitsWithin(context: Fields | undefined): Fields | undefined {
  const traits = context?.['traits']
  return isFields(traits) ? traits : undefined
}

function typeOf(given: unknown, ofRoute: CallType | undefined): CallType {
  const type = typeof given === 'string' ? given.toLowerCase() : (given ?? ofRoute)
  if (ofRoute !== undefined && type !== ofRoute) {
    throw invalid('type', `left out or "${ofRoute}" at /v1/${ofRoute}`, given)
  }
  const known = CALL_TYPES.find((one) => one === type)
  if (known !== undefined) return known
  const expected = `type must be one of ${CALL_TYPES.join(', ')}; got ${show(given)}.`
  throw new RejectedCall('unknown_type', expected)
}

function messageIdOf(message: Fields): string {
  const messageId = id(message, 'messageId')
  if (messageId === undefined) return randomUUID()
  if (messageId.length > MAX_MESSAGE_ID_LENGTH) {
    throw invalid('messageId', `at most ${MAX_MESSAGE_ID_LENGTH} characters long`, messageId)
  }
  // The id is also sent in a header, and a header must not contain control characters (RFC 9110, 5.5).
  if (/[\0-\x1F\x7F]/.test(messageId)) {
    throw invalid('messageId', 'free of control characters', messageId)
  }
  // Bytes that are not UTF-8 become U+FFFD. Ids that differ only there would be duplicates of each other.
  if (/\uFFFD|\p{Surrogate}/u.test(messageId)) {
    throw invalid('messageId', 'free of U+FFFD and lone surrogates', messageId)
  }
  return messageId
}

/**
 * The time of the call, by the clock of this machine. If a client sends both `timestamp` and `originalTimestamp`, its
 * caller gave the first one, and the second one is the time of the client's clock. The caller's time is not corrected.
 */
function timestampOf(message: Fields, shared: Shared): string {
  const { timestamp, originalTimestamp, sentAt } = message
  const given = timestamp ?? originalTimestamp
  if (given === undefined || given === null) return toForwardable(shared.receivedAt, 0)
  let { skewMs } = shared
  if (timestamp === given && isPresent(originalTimestamp)) skewMs = 0
  else if (isPresent(sentAt)) skewMs = skewMsOf(sentAt, shared.receivedAt)
  if (skewMs === 0 && isForwardable(given)) return given
  const ms = parseTime(given)
  if (ms !== undefined) return toForwardable(ms, skewMs)
  throw invalid(
    timestamp === given ? 'timestamp' : 'originalTimestamp',
    'ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds from ' +
      `${MIN_EPOCH_MS} (a lower one is probably in seconds) to ${MAX_MS}`,
    given,
  )
}

/** Reads an id: a text, or the digits of a number. */
function id(message: Fields, field: string): string | undefined {
  const given = message[field]
  if (typeof given === 'string') {
    // PostgreSQL refuses NUL in a text, and so do the databases of many receivers.
    if (given.includes('\0')) throw invalid(field, 'free of NUL characters', given)
    return given === '' ? undefined : given
  }
  if (!isPresent(given)) return undefined
  // JSON.parse has already rounded a larger number, so it might be the id of another user.
  if (typeof given === 'number' && Number.isSafeInteger(given)) return String(given)
  throw invalid(field, 'a string or a whole number below 2^53', given)
}

function text(message: Fields, field: string): string | undefined {
  const given = message[field]
  if (typeof given === 'string') return given
  if (!isPresent(given)) return undefined
  throw invalid(field, 'a string', given)
}

/**
 * Reads an object from a message or a batch.
 *
 * @throws {@link RejectedCall} if the field has another type.
 */
export function fields(message: Fields, field: string): Fields | undefined {
  const given = message[field]
  if (isFields(given)) return given
  if (!isPresent(given)) return undefined
  throw invalid(field, 'an object', given)
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** Uses spread, because an assignment to a key `__proto__` would change the prototype. */
function merged(own: Fields | undefined, shared: Fields | undefined): Fields | undefined {
  if (own === undefined) return shared
  return shared === undefined ? own : { ...shared, ...own }
}

function required(type: CallType, field: string, value: string | undefined): string {
  if (value !== undefined && value !== '') return value
  throw new RejectedCall('missing_field', `${type} needs ${field}, a non-empty string; got none.`)
}

function invalid(field: string, expected: string, given: unknown): RejectedCall {
  return new RejectedCall('invalid_field', `${field} must be ${expected}; got ${show(given)}.`)
}
