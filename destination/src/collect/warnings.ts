import { isUtf8 } from 'node:buffer'
import type { Call, CallType } from '../model/call.js'
import {
  findChanges,
  markChanges,
  marksIn,
  toChange,
  type ChangedNumber,
} from '../model/changed-numbers.js'
import { isFields, type Fields } from '../model/fields.js'
import { RejectedCall } from '../http/refusal.js'
import { normalise } from './normalise.js'
import type { Received } from './receive.js'

/** What of an accepted call is forwarded with another value. */
export interface Warning extends Omit<ChangedNumber, 'path'> {
  /** The index of the call in the batch. It is left out if the number is in a field of the batch, for all calls. */
  index?: number
  /** Where the number is. It is left out in the warning about a body that is not UTF-8. */
  path?: string
}

/** The warnings about a request. */
export interface Warnings {
  /** The first {@link MAX_WARNINGS}. */
  warnings: Warning[]
  /** The number of all warnings. */
  count: number
}

/** What the collector knows of how calls are forwarded. */
export interface Forwarding {
  /**
   * Whether a destination gets a call of a source. Filters can ask for numbers, so it is asked with the call as it is forwarded,
   * and not with a marked one.
   */
  isForwarded: (source: string, call: Call) => boolean
  /** Makes the body that is forwarded of a call. A number is forwarded if it is in this text. */
  bodyOf: (call: Call) => string
}

/** The most warnings in one answer, because each number of a large batch could have one. */
const MAX_WARNINGS = 100

const NONE: Warnings = { warnings: [], count: 0 }

/**
 * Finds the numbers of a request that are forwarded with another value.
 *
 * @param text - The body of the request, valid JSON.
 * @param type - The type that the URL names; `undefined` for a batch.
 * @param received - The calls of this body. Those that were not accepted have no warnings.
 */
export function warningsOf(
  text: string,
  source: string,
  type: CallType | undefined,
  received: Received,
  { isForwarded, bodyOf }: Forwarding,
): Warnings {
  const marked = markChanges(text)
  if (!isFields(marked)) return NONE
  const warnings: Warning[] = []
  let count = 0
  const add = (path: string, number: string, index?: number) => {
    count++
    if (count > MAX_WARNINGS) return
    warnings.push({ ...(index !== undefined && { index }), ...toChange(path, number) })
  }
  const isBatch = type === undefined
  const messages = isBatch ? (marked['batch'] as unknown[]) : [marked]
  const forwarded = forwardedMessages(messages, received, (call) => isForwarded(source, call))
  // The context of the batch is in the body of each call. It is named once, and not for each call.
  if (isBatch) {
    findChanges(usedContext(marked['context'], forwarded), 'context', (path, number) => {
      add(path, number)
    })
  }
  for (const { index, message } of forwarded) {
    for (const { path, number } of forwardedChanges(message, type, bodyOf)) add(path, number, index)
  }
  return { warnings, count }
}

/** A marked message of a request whose call is forwarded. */
interface Forwarded {
  /** The index of the message in its batch. */
  index: number
  message: Fields
}

function forwardedMessages(
  messages: readonly unknown[],
  { calls, rejected }: Received,
  isForwarded: (call: Call) => boolean,
): Forwarded[] {
  const refused = new Set(rejected.map(({ index }) => index))
  const forwarded: Forwarded[] = []
  let accepted = 0
  for (const [index, message] of messages.entries()) {
    if (refused.has(index)) continue
    const call = calls[accepted++]
    if (call && isForwarded(call) && isFields(message)) forwarded.push({ index, message })
  }
  return forwarded
}

/** The fields of the context of a batch that are in the body of at least one call: a call can have its own value. */
function usedContext(context: unknown, forwarded: readonly Forwarded[]): Fields | undefined {
  if (!isFields(context)) return undefined
  const unused = new Set(Object.keys(context))
  for (const { message } of forwarded) {
    if (unused.size === 0) break
    const own = isFields(message['context']) ? message['context'] : {}
    for (const key of unused) if (!Object.hasOwn(own, key)) unused.delete(key)
  }
  return Object.fromEntries(Object.entries(context).filter(([key]) => !unused.has(key)))
}

/** Adds a warning if the bytes of a request are not UTF-8, so that some of them became U+FFFD in its text. */
export function withEncoding(found: Warnings, bytes: Buffer): Warnings {
  if (isUtf8(bytes)) return found
  const changed = Buffer.from(bytes.toString())
  const at = bytes.findIndex((byte, i) => byte !== changed[i])
  const wrong = `0x${bytes.toString('hex', at, at + 1)}`
  const message = `The body is not in UTF-8: its byte ${at} is ${wrong}. What is not UTF-8 is read as U+FFFD. Send UTF-8.`
  const warnings = [{ message }, ...found.warnings].slice(0, MAX_WARNINGS)
  return { warnings, count: found.count + 1 }
}

/**
 * Finds the numbers that are forwarded with another value, if a call is forwarded.
 *
 * @param marked - The call, with the marks of {@link markChanges}; `undefined` if no number changes.
 * @param type - The type of a call that has no type.
 */
export function changesOfCall(
  marked: unknown,
  type: CallType | undefined,
  bodyOf: Forwarding['bodyOf'],
): ChangedNumber[] {
  if (!isFields(marked)) return []
  return forwardedChanges(marked, type, bodyOf).map(({ path, number }) => toChange(path, number))
}

/** A changed number: its path in the message, and its text. */
interface Found {
  path: string
  number: string
}

/** The changed numbers of a marked message that are also in its body, or are its id. */
function forwardedChanges(
  message: Fields,
  type: CallType | undefined,
  bodyOf: Forwarding['bodyOf'],
): Found[] {
  const call = callOf(message, type)
  if (!call) return []
  const marks = marksIn(bodyOf(call) + JSON.stringify([message['messageId']]))
  const changes: Found[] = []
  for (const [field, value] of Object.entries(message)) {
    findChanges(value, field, (path, number, mark) => {
      if (marks.has(mark)) changes.push({ path, number })
    })
  }
  return changes
}

/** Fields in which a mark would not be valid. Their numbers are not in the body. */
const UNMARKED = {
  messageId: undefined,
  timestamp: undefined,
  originalTimestamp: undefined,
  sentAt: undefined,
}

const NOTHING_SHARED = { context: undefined, integrations: undefined, skewMs: 0, receivedAt: 0 }

/**
 * Makes the call of a marked message, without what its batch has for all calls. A line of an import may be a message that is
 * not a call.
 */
function callOf(message: Fields, type: CallType | undefined): Call | undefined {
  const typed = { ...message, ...UNMARKED, type: message['type'] ?? type }
  try {
    return normalise(typed, { ...NOTHING_SHARED, type: undefined })
  } catch (error) {
    if (error instanceof RejectedCall) return undefined
    throw error
  }
}
