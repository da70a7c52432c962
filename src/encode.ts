import { isDeeperThan, messageOf } from './describe.js'
import { MessageTooLargeError, ValidationError } from './errors.js'
import { createId } from './id.js'
import { MAX_DEPTH, MAX_MESSAGE_BYTES } from './limits.js'
import { encoder } from './runtime.js'
import type { CheckedMessage, WireMessage } from './types.js'
import { version } from './version.js'

/** What every message of a client has in common. */
export interface Defaults {
  readonly context?: Record<string, unknown> | undefined
  readonly integrations?: Record<string, unknown> | undefined
}

const library = { name: 'hookline', version }
const libraryOnly = { library }

/** Completes a message with its id, its time, and the client's defaults. */
export function complete(message: CheckedMessage, defaults: Defaults): WireMessage {
  message.messageId ??= createId()
  message.timestamp ??= now()
  message.context =
    message.context || defaults.context
      ? { ...defaults.context, ...message.context, library }
      : libraryOnly
  if (defaults.integrations) {
    message.integrations = { ...defaults.integrations, ...message.integrations }
  }
  return message as WireMessage
}

let lastMs = NaN
let lastIso = ''

/** The time as ISO 8601, made once a millisecond: at a high rate that is a sixth of a call's cost. */
function now(): string {
  const ms = Date.now()
  if (ms !== lastMs) {
    lastMs = ms
    lastIso = new Date(ms).toISOString()
  }
  return lastIso
}

/** As long as the largest message: what does not fit is too large. */
const scratch = new Uint8Array(MAX_MESSAGE_BYTES)

/**
 * Encodes a message as JSON. What comes back is overwritten by the next call.
 *
 * @throws {@link ValidationError} for what JSON can't hold, naming where in the message it is, and for a message that
 * is nested too deeply.
 * @throws {@link MessageTooLargeError} over {@link MAX_MESSAGE_BYTES}.
 */
export function encode(message: WireMessage): Uint8Array {
  let json: string
  try {
    json = JSON.stringify(message)
  } catch (cause) {
    throw unencodable(message, cause)
  }
  // Each UTF-16 unit takes a byte at least: no need to encode what can't fit.
  const { read, written } =
    json.length > MAX_MESSAGE_BYTES ? { read: 0, written: 0 } : encoder.encodeInto(json, scratch)
  if (read < json.length) {
    const { byteLength } = encoder.encode(json)
    throw new MessageTooLargeError(
      `${message.type}() was given a message of ${byteLength} bytes of JSON: the limit is ${MAX_MESSAGE_BYTES}. Send less, or an id by which the rest can be found.`,
      byteLength,
    )
  }
  if (mayBeTooDeep(json)) checkDepth(message, json)
  return scratch.subarray(0, written)
}

/** Tells nearly every message without reading it twice: each level takes two characters, and a brace or a bracket. */
function mayBeTooDeep(json: string): boolean {
  return json.length > 2 * MAX_DEPTH && count('{', json) + count('[', json) > MAX_DEPTH
}

function count(character: string, text: string): number {
  let found = 0
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) found++
  return found
}

function checkDepth({ type }: WireMessage, json: string): void {
  for (const [field, value] of Object.entries(JSON.parse(json) as object)) {
    if (isDeeperThan(MAX_DEPTH - 1, value)) {
      throw new ValidationError(
        field,
        `${type}() was given ${field} nested too deeply: collectors take at most ${MAX_DEPTH} levels, the message included. Send less, or the inner part as a string of JSON.`,
      )
    }
  }
}

function unencodable(message: WireMessage, cause: unknown): ValidationError {
  const path = findUnencodable(message, [], [])
  const field = path.join('.')
  const [why = ''] = messageOf(cause).split('\n', 1)
  return new ValidationError(
    field,
    `${message.type}() was given something in ${field} that JSON can't hold: ${why}. Pass plain values: a BigInt as a string, no circular reference, no getter that throws, no more than ${MAX_DEPTH} levels.`,
    { cause },
  )
}

const MAX_PATH_LENGTH = 16

/** Follows what can't be encoded down to where it is; stops where an object contains itself. */
function findUnencodable(value: unknown, path: string[], above: unknown[]): string[] {
  if (typeof value !== 'object' || value === null || path.length === MAX_PATH_LENGTH) return path
  const chain = [...above, value]
  for (const key of Object.keys(value)) {
    const inPath = [...path, key]
    try {
      const inner = (value as Record<string, unknown>)[key]
      if (chain.includes(inner)) return inPath
      if (!isEncodable(inner)) return findUnencodable(inner, inPath, chain)
    } catch {
      return inPath // a getter that throws
    }
  }
  return path
}

function isEncodable(value: unknown): boolean {
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}
