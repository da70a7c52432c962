import { isUtf8 } from 'node:buffer'
import type { Call, CallType } from '../model/call.js'
import {
  findChanges,
  markChanges,
  marksIn,
  toChange,
  type ChangedNumber,
} from '../model/changed-numbers.js'
import { isFields, type Fields } from '../http/json-body.js'
import { RejectedCall, type Rejected } from '../http/refusal.js'
import { fields, normalise, type Shared } from './normalise.js'

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

/**
 * Makes the body that is forwarded of a call. A number is forwarded if it is in this text.
 *
 * @returns `undefined` if the call is not forwarded.
 */
export type BodyOf = (call: Call) => string | undefined

/** The most warnings in one answer, because each number of a large batch could have one. */
const MAX_WARNINGS = 100

const NONE: Warnings = { warnings: [], count: 0 }

/**
 * Finds the numbers of a request that are forwarded with another value.
 *
 * @param text - The body of the request, valid JSON.
 * @param type - The type that the URL names; `undefined` for a batch.
 * @param rejected - The calls that were not accepted. They have no warnings.
 */
export function warningsOf(
  text: string,
  type: CallType | undefined,
  rejected: readonly Rejected[],
  bodyOf: BodyOf,
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
  const integrations = isBatch ? fields(marked, 'integrations') : undefined
  const refused = new Set(rejected.map(({ index }) => index))
  const bodies = messages.map((message, index) =>
    refused.has(index)
      ? undefined
      : forwardedText(message, { ...NOTHING_SHARED, type, integrations }, bodyOf),
  )
  // The context of the batch is in the body of each call. It is named once, and not for each call.
  if (isBatch && bodies.some((body) => body !== undefined)) {
    findChanges(marked['context'], 'context', (path, number) => {
      add(path, number)
    })
  }
  for (const [i, body] of bodies.entries()) {
    if (body === undefined) continue
    for (const { path, number } of forwardedChanges(messages[i], body)) add(path, number, i)
  }
  return { warnings, count }
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
 * Finds the numbers of one call that are forwarded with another value.
 *
 * @param marked - The call, with the marks of {@link markChanges}; `undefined` if no number changes.
 * @param type - The type of a call that has no type.
 */
export function changesOfCall(
  marked: unknown,
  type: CallType | undefined,
  bodyOf: BodyOf,
): ChangedNumber[] {
  if (!isFields(marked)) return []
  const message = { ...marked, type: marked['type'] ?? type }
  const forwarded = forwardedText(message, { ...NOTHING_SHARED, type: undefined }, bodyOf)
  if (forwarded === undefined) return []
  return forwardedChanges(marked, forwarded).map(({ path, number }) => toChange(path, number))
}

/** A changed number: its path in the message, and its text. */
interface Found {
  path: string
  number: string
}

/** The changed numbers of a marked message that are also in what is forwarded of it. */
function forwardedChanges(message: unknown, forwarded: string): Found[] {
  const marks = marksIn(forwarded)
  const changes: Found[] = []
  if (!isFields(message)) return changes
  for (const [field, value] of Object.entries(message)) {
    findChanges(value, field, (path, number, mark) => {
      if (marks.has(mark)) changes.push({ path, number })
    })
  }
  return changes
}

/**
 * What is forwarded of a marked message, without the context of its batch: the body and the id of the message.
 *
 * @returns `undefined` if nothing is forwarded.
 */
function forwardedText(message: unknown, shared: Shared, bodyOf: BodyOf): string | undefined {
  if (!isFields(message)) return undefined
  const call = callOf({ ...message, ...UNMARKED }, shared)
  const body = call && bodyOf(call)
  return body === undefined ? undefined : body + JSON.stringify([message['messageId']])
}

/** Fields in which a mark would not be valid. Their numbers are not in the body. */
const UNMARKED = {
  messageId: undefined,
  timestamp: undefined,
  originalTimestamp: undefined,
  sentAt: undefined,
}

const NOTHING_SHARED = { context: undefined, integrations: undefined, skewMs: 0, receivedAt: 0 }

/** Makes the call of a message. A line of an import may be a message that is not a call. */
function callOf(message: Fields, shared: Shared): Call | undefined {
  try {
    return normalise(message, shared)
  } catch (error) {
    if (error instanceof RejectedCall) return undefined
    throw error
  }
}
