import { describe, isPlainObject } from './describe.js'
import { OptionError, ValidationError } from './errors.js'
import { MAX_MESSAGE_ID_LENGTH } from './limits.js'
import type { CheckedMessage, MessageType, WireMessage } from './types.js'

/** The fields that each type of message may have. */
const FIELDS: Record<MessageType, ReadonlySet<string>> = {
  identify: known('traits'),
  track: known('event', 'properties'),
  page: known('category', 'name', 'traits', 'properties'),
  screen: known('category', 'name', 'traits', 'properties'),
  group: known('groupId', 'traits'),
  alias: known('previousId'),
}

export const MESSAGE_TYPES = Object.keys(FIELDS) as readonly MessageType[]

function known(...own: string[]): ReadonlySet<string> {
  return new Set([
    ...own,
    'type',
    'userId',
    'anonymousId',
    'timestamp',
    'context',
    'integrations',
    'messageId',
  ])
}

/**
 * Checks the message of a call. It reads each field once: a getter that gives another value next time must not get
 * past the checks.
 *
 * @throws {@link ValidationError} that names the field, what was expected and what came.
 */
export function validate(type: MessageType, given: unknown): CheckedMessage {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new ValidationError(
      'message',
      `${type}() takes one message object, got ${describe(given)}.`,
    )
  }
  const allowed = FIELDS[type]
  // What a message inherits is not sent, and some libraries extend Object.prototype.
  for (const field of Object.keys(given)) if (!allowed.has(field)) throw unknownField(type, field)

  const message = given as Partial<Record<keyof WireMessage, unknown>>
  // `onFailed` gives lost messages with their type, and applications record them again as they are.
  if (message.type !== undefined && message.type !== type) {
    throw wrong(type, 'type', `left out, or '${type}'`, message.type)
  }
  const isAlias = type === 'alias'
  const userId = id(type, 'userId', message.userId, isAlias)
  const anonymousId = id(type, 'anonymousId', message.anonymousId, false)
  if (userId === undefined && anonymousId === undefined) {
    throw new ValidationError(
      'userId',
      `${type}() needs a userId or an anonymousId, a non-empty string: neither came.`,
    )
  }
  const traits = plainObject(type, 'traits', message.traits)
  const properties = plainObject(type, 'properties', message.properties)
  const isSeen = type === 'page' || type === 'screen'
  if (isSeen && traits && properties) {
    throw new ValidationError(
      'properties',
      `${type}() takes traits or properties, which are two names of one field: both came.`,
    )
  }
  return {
    type,
    messageId: checkMessageId(type, message.messageId),
    timestamp: checkTimestamp(type, message.timestamp),
    userId,
    anonymousId,
    event: text(type, 'event', message.event, type === 'track'),
    groupId: id(type, 'groupId', message.groupId, type === 'group'),
    previousId: id(type, 'previousId', message.previousId, isAlias),
    category: label(type, 'category', message.category),
    name: label(type, 'name', message.name),
    properties: isSeen ? (traits ?? properties) : properties,
    traits: isSeen ? undefined : traits,
    context: plainObject(type, 'context', message.context),
    integrations: plainObject(type, 'integrations', message.integrations),
  }
}

/**
 * Refuses a value that `beforeSend` returns by mistake. As a message it would be refused too, but with advice on its
 * fields, which are not what is wrong.
 *
 * @throws {@link OptionError} for a promise and for undefined.
 */
export function checkReturned(returned: unknown): void {
  if (returned === undefined) {
    const advice = 'Return the message, or null to drop it.'
    throw new OptionError('beforeSend', `it returned undefined. ${advice}`)
  }
  const isPromise = typeof returned === 'object' && returned !== null && 'then' in returned
  if (!isPromise) return
  // A rejection that nobody handles would end the process.
  Promise.resolve(returned).catch(() => undefined)
  const advice = `Return the message itself, or null to drop it. Await before the call instead.`
  throw new OptionError(
    'beforeSend',
    `it must be synchronous, but it returned a promise. ${advice}`,
  )
}

function unknownField(type: MessageType, field: string): ValidationError {
  const lowered = field.toLowerCase().replaceAll(/[-_ ]/g, '')
  const meant = [...FIELDS[type]].find((name) => name.toLowerCase() === lowered)
  const advice = meant
    ? `Did you mean ${meant}?`
    : `Its fields are ${[...FIELDS[type]].join(', ')}.`
  return new ValidationError(field, `${type}() has no field ${JSON.stringify(field)}. ${advice}`)
}

function wrong(type: MessageType, field: string, expected: string, given: unknown, advice = '') {
  return new ValidationError(
    field,
    `${type}() needs ${field} to be ${expected}, got ${describe(given)}.${advice}`,
  )
}

/** Checks an id or a name, which must not be empty. */
function text(
  type: MessageType,
  field: string,
  given: unknown,
  isRequired: boolean,
): string | undefined {
  if (typeof given === 'string' && given !== '') return given
  if (given === undefined && !isRequired) return undefined
  let advice = ''
  if (typeof given === 'number' || typeof given === 'bigint') advice = ` Pass String(${field}).`
  else if (!isRequired) advice = ' Leave it out if it is unknown.'
  throw wrong(type, field, 'a non-empty string', given, advice)
}

/** Checks the id of a user or group. Receivers keep ids in databases, and PostgreSQL does not store NUL in a text. */
function id(
  type: MessageType,
  field: string,
  given: unknown,
  isRequired: boolean,
): string | undefined {
  const checked = text(type, field, given, isRequired)
  if (!checked?.includes('\0')) return checked
  throw wrong(type, field, 'a string without NUL characters', given, ' Remove them.')
}

/** Checks a name or category, which may be empty. */
function label(type: MessageType, field: string, given: unknown): string | undefined {
  if (given === undefined || typeof given === 'string') return given
  throw wrong(type, field, 'a string', given)
}

function plainObject(
  type: MessageType,
  field: string,
  given: unknown,
): Record<string, unknown> | undefined {
  if (given === undefined) return undefined
  if (!isPlainObject(given)) throw wrong(type, field, 'a plain object', given)
  // JSON would have what it returns in place of the object: a text, say.
  if (!('toJSON' in given) || typeof given['toJSON'] !== 'function') return given
  const expected = 'a plain object without a method toJSON'
  throw wrong(type, field, expected, given, ' Pass what toJSON() returns.')
}

function checkMessageId(type: MessageType, given: unknown): string | undefined {
  const messageId = text(type, 'messageId', given, false)
  if (messageId === undefined) return undefined
  if (messageId.length > MAX_MESSAGE_ID_LENGTH) {
    const expected = `a string of at most ${MAX_MESSAGE_ID_LENGTH} characters`
    throw wrong(type, 'messageId', expected, messageId)
  }
  if (CONTROL_CHARACTER.test(messageId)) {
    const expected = 'a string without control characters'
    throw wrong(type, 'messageId', expected, messageId, ' Remove them: it travels in a header too.')
  }
  if (!BROKEN_CHARACTER.test(messageId)) return messageId
  const mend = ' U+FFFD and lone surrogates come from text that was decoded wrongly or cut.'
  throw wrong(type, 'messageId', 'a string of whole characters', messageId, mend)
}

/** A character that the value of a header must not have. Source: RFC 9110, 5.5. */
const CONTROL_CHARACTER = /[\0-\x1F\x7F]/

/** What stands for a broken character. Two ids that differ only there would be one id to a server. */
const BROKEN_CHARACTER = /\uFFFD|\p{Surrogate}/u

/** ISO 8601 with a time zone. Without one, the time would depend on the time zone of the machine. */
const ISO_8601 =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d))?$/i

/** Converts a time to the form in which it is sent: ISO 8601 with milliseconds, UTC. */
function checkTimestamp(type: MessageType, given: unknown): string | undefined {
  if (given === undefined) return undefined
  const isDate = Object.prototype.toString.call(given) === '[object Date]'
  if (isDate || (typeof given === 'string' && isOnCalendar(given))) {
    const date = new Date(isDate ? (given as Date) : standard(given as string))
    if (!Number.isNaN(date.getTime())) return checkYear(type, date)
  }
  if (isDate) throw wrong(type, 'timestamp', 'a valid time', given, ' It is an Invalid Date.')
  const expected =
    "a Date or an ISO 8601 string with its time zone, such as '2026-01-02T03:04:05.678Z'"
  const advice = typeof given === 'number' ? ' Pass new Date(milliseconds).' : ''
  throw wrong(type, 'timestamp', expected, given, advice)
}

/** Refuses years that ISO 8601 writes with a sign and six digits, because not every receiver reads them. */
function checkYear(type: MessageType, date: Date): string {
  const iso = date.toISOString()
  if (iso.length === ISO_LENGTH) return iso
  throw wrong(type, 'timestamp', 'in the years 0 to 9999 (UTC)', iso)
}

const ISO_LENGTH = '2026-01-02T03:04:05.678Z'.length

/** Whether the day exists. `Date` accepts 30 February, and makes it 2 March. */
function isOnCalendar(text: string): boolean {
  const [, year, month, day] = ISO_8601.exec(text) ?? []
  // 400 years later the calendar is the same, and `Date` takes no year below 100 for one of the last century.
  return Number(day) <= new Date(Date.UTC(Number(year) + 400, Number(month), 0)).getUTCDate()
}

/** The one form that all engines read alike. In others, V8 takes the year 12 for 2012, or for a day. */
function standard(iso: string): string {
  return iso
    .toUpperCase()
    .replace(' ', 'T')
    .replace(/([+-]\d\d)(\d\d)$/, '$1:$2')
}
