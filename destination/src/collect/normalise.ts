import { randomUUID } from 'node:crypto'
import { CALL_TYPES, type Call, type CallType } from '../model/call.js'
import { isFields, type Fields } from '../http/json-body.js'
import { MAX_MESSAGE_ID_LENGTH } from './limits.js'
import { RejectedCall, show } from '../http/refusal.js'
import { isForwardable, parseTime, skewMsOf, toForwardable } from './timestamp.js'

/** What the calls of one request have in common. */
export interface Shared {
  /** The type that the URL names; `undefined` for a batch. */
  type: CallType | undefined
  /** The batch's own; a call's keys win. */
  context: Fields | undefined
  /** The batch's own; a call's keys win. */
  integrations: Fields | undefined
  /** How far the client's clock is behind, as the request tells; a call may tell for itself. */
  skewMs: number
  /** When the request arrived: ms since the epoch. */
  receivedAt: number
}

/**
 * Makes one call of what a client sent, whichever client it was. `null` and an empty text are as good as
 * nothing; a number is as good an id as its digits; what no call has is left behind.
 *
 * @throws {@link RejectedCall} that names the field, what was expected and what came.
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
    const expected = `${type} needs a userId or an anonymousId, a non-empty string: neither came.`
    throw new RejectedCall('missing_field', expected)
  }
  return call
}

/** Adds the fields that calls of its type alone have. */
function addOwn(call: Call, message: Fields): void {
  switch (call.type) {
    case 'track':
      call.event = required('track', 'event', text(message, 'event'))
      addProperties(call, fields(message, 'properties'))
      return
    case 'identify':
      // The clients of browsers and phones may have them in the context alone.
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
  // It travels in a header too, where a line break would end it (RFC 9110, 5.5).
  if (/[\0-\x1F\x7F]/.test(messageId)) {
    throw invalid('messageId', 'free of control characters', messageId)
  }
  return messageId
}

/**
 * When the call was made, by the clock here. A client that sends `timestamp` beside `originalTimestamp` was
 * given the first by its caller and read the second off its clock: what the caller said is not corrected.
 */
function timestampOf(message: Fields, shared: Shared): string {
  const { timestamp, originalTimestamp, sentAt } = message as Partial<Record<string, unknown>>
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
    'ISO 8601, such as "2026-01-02T03:04:05.678Z", or a number of milliseconds',
    given,
  )
}

/** An id: a text, or the digits of a number. */
function id(message: Fields, field: string): string | undefined {
  const given = message[field]
  if (typeof given === 'string') {
    // No database column takes it.
    if (given.includes('\0')) throw invalid(field, 'free of NUL characters', given)
    return given === '' ? undefined : given
  }
  if (!isPresent(given)) return undefined
  // Beyond 2^53 digits are lost before they get here: it would be someone else's id.
  if (typeof given === 'number' && Number.isSafeInteger(given)) return String(given)
  throw invalid(field, 'a string or a whole number below 2^53', given)
}

function text(message: Fields, field: string): string | undefined {
  const given = message[field]
  if (typeof given === 'string') return given
  if (!isPresent(given)) return undefined
  throw invalid(field, 'a string', given)
}

/** An object of a message, or of a batch. */
export function fields(message: Fields, field: string): Fields | undefined {
  const given = message[field]
  if (isFields(given)) return given
  if (!isPresent(given)) return undefined
  throw invalid(field, 'an object', given)
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null
}

/** Spread, not assigned: a key `__proto__` stays a key. */
function merged(own: Fields | undefined, shared: Fields | undefined): Fields | undefined {
  if (own === undefined) return shared
  return shared === undefined ? own : { ...shared, ...own }
}

function required(type: CallType, field: string, value: string | undefined): string {
  if (value !== undefined && value !== '') return value
  throw new RejectedCall('missing_field', `${type} needs ${field}, a non-empty string: none came.`)
}

function invalid(field: string, expected: string, given: unknown): RejectedCall {
  return new RejectedCall('invalid_field', `${field} must be ${expected}; got ${show(given)}.`)
}
